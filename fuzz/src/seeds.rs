//! Writes a seed corpus for each target into `corpus/`: `cargo run --bin seeds`, in this folder.

use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use touchstone_deployments::attestation::PREDICATE_TYPE;
use touchstone_openwop::dsse::seal;
use touchstone_fuzz::event_id;
use touchstone_openwop::in_toto::{STATEMENT_TYPE, TEST_RESULT_TYPE};
use touchstone_packs::rules::build::{Files, build};
use touchstone_kit::keys::SecretKey;
use touchstone_packs::rules::build::template::new_pack;
use touchstone_runs::rules::archive::ArchivingHost;
use touchstone_runs::rules::archive::writer::{End, Writer};
use touchstone_runs::rules::run::fold::stored::Tasks;
use touchstone_runs::rules::run::fold::{RunState, TaskFacts};

fn main() -> io::Result<()> {
    let pack =
        new_pack("vendor.acme.triage").ok_or_else(|| io::Error::other("the template's name"))?;
    let seeds: [(&str, Vec<Vec<u8>>); 21] = [
        ("pack_archive", archives(&pack)?),
        ("pack_manifest", manifests(&pack)?),
        ("suite", suites(&pack)?),
        ("scoring_document", texts(&scorings())),
        ("suite_import", foreign()),
        ("parquet", parquet_files()),
        ("attestation", envelopes()?),
        ("request_body", texts(&bodies())),
        ("last_event_id", positions()),
        ("interrupt_token", tokens()),
        ("interrupt_answer", answers()),
        ("a2a_reply", texts(&replies())),
        ("embedding_reply", texts(&embeddings())),
        ("assert_answer", texts(&decisions())),
        ("cluster_message", texts(&cluster_messages())),
        ("mcp_result", texts(&results())),
        ("cassette", cassettes()),
        ("agent_card", texts(&cards())),
        ("run_archive", run_archives()?),
        ("run_projection", run_projections()),
        ("event_projection", texts(&stored_events())),
    ];
    for (target, inputs) in seeds {
        let folder = Path::new("corpus").join(target);
        std::fs::create_dir_all(&folder)?;
        for (n, input) in inputs.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{n:03}")), input)?;
        }
        println!("{target}: {} seeds", inputs.len());
    }
    Ok(())
}

/// A state with a scored and an open task: everything else, labels, and the chunk of its tasks.
fn run_projections() -> Vec<Vec<u8>> {
    let mut state = RunState::default();
    for (task, reason) in [("t-1", "timeout"), ("t-2", "refused")] {
        let unjudged = |facts: &mut TaskFacts| {
            facts.unjudged = Some(reason.to_owned());
            facts.scored = task == "t-1";
            facts.score = 0.5;
        };
        state.sequence += 1;
        state.eval.tasks.extend_span(&task.into(), state.sequence);
        state.eval.tasks.update(&task.into(), unjudged);
    }
    let snapshot = state.snapshot(Tasks::All).into_iter();
    let seed = snapshot.flat_map(|snapshot| {
        let lines = format!("{}\n{}\n", snapshot.state, snapshot.labels.join(" "));
        let chunk = snapshot.chunks.into_iter().flat_map(|(_, bytes)| bytes);
        let mut seed = lines.into_bytes();
        seed.push(2);
        seed.extend(chunk);
        [seed]
    });
    seed.collect()
}

/// An archive, and its lines.
fn run_archives() -> io::Result<Vec<Vec<u8>>> {
    let contents = json!({
        "record": {"runId": "run_1", "tenant": "acme", "principal": "ann",
            "createdAt": "2026-01-01T00:00:00Z", "spec": {"workflowId": "w", "work": "journal"}},
        "additions": {"tags": ["nightly"]},
    });
    let contents = serde_json::from_value(contents)?;
    let mut writer = Writer::new(&contents).map_err(io::Error::other)?;
    let completed = json!({"eventId": "evt_1", "runId": "run_1", "type": "run.completed", "sequence": 1,
        "timestamp": "2026-01-01T00:00:01Z", "schemaVersion": 1, "engineVersion": "1", "payload": {}});
    let completed = completed.to_string();
    writer.event(1, completed.as_bytes()).map_err(io::Error::other)?;
    let mut file = writer.take();
    let end = End {
        status: "completed".to_owned(),
        ended_at: None,
        sequence: 1,
    };
    let host = ArchivingHost {
        id: "host".to_owned(),
        name: "touchstone".to_owned(),
        version: "1".to_owned(),
    };
    let key = SecretKey::from_random([8; 32]);
    file.extend(writer.finish(end, host, &key).map_err(io::Error::other)?);
    let mut lines = Vec::new();
    io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file.as_slice()), &mut lines)?;
    Ok(vec![file, lines])
}

/// Files of every method of compression, without the first four bytes.
fn parquet_files() -> Vec<Vec<u8>> {
    macro_rules! file {
        ($name:literal) => {
            include_bytes!(concat!(
                "../../crates/runs/src/rules/eval/import/parquet/testdata/",
                $name,
                ".parquet"
            ))[4..]
                .to_vec()
        };
    }
    vec![
        file!("snappy"),
        file!("gzip"),
        file!("zstd"),
        file!("lz4"),
        file!("none"),
        file!("v2"),
    ]
}

/// Every group of assertions.
fn scorings() -> Vec<Value> {
    let assertions = json!([
        {"type": "expected", "weight": 0}, {"type": "equals", "anyOf": ["a", 1, null]},
        {"type": "contains-all", "values": ["a", "b"], "ignoreCase": true},
        {"type": "regex", "pattern": "^[a-z]+$", "not": true},
        {"type": "is-json", "schema": {"type": "object"}, "metric": "well formed"},
        {"type": "json-path", "path": "$..b[?@.c > 1]", "operator": "<=", "value": 3, "quantifier": "all"},
        {"type": "json-pointer", "pointer": "/a/0", "operator": "matches", "value": "x+"},
        {"type": "number", "equals": 3, "relativeTolerance": 0.1, "extract": true},
        {"type": "levenshtein", "value": "abc", "graded": true}, {"type": "rouge-n", "value": "a b", "n": 2},
        {"type": "bleu", "anyOf": ["a b c d"]}, {"type": "latency", "maxMs": 5}, {"type": "cost", "maxUsd": 0.1},
        {"type": "tool-called", "name": "a:b", "arguments": {"id": 1}, "after": "c:d", "max": 2},
        {"type": "any", "assertions": [{"type": "refusal"}, {"type": "none", "assertions": [{"type": "tokens", "max": 1}]}]},
    ]);
    let entry = json!({"threshold": 0.5, "assertions": assertions});
    vec![
        json!({"scoringVersion": 1, "suiteId": "vendor.acme.evals.x", "tasks": {"t1": entry}}),
        json!({"scoringVersion": 1, "suiteId": "vendor.acme.evals.x", "defaults": entry, "tasks": {}}),
    ]
}

fn embeddings() -> Vec<Value> {
    let item = |index: usize, vector: Value| json!({"index": index, "embedding": vector});
    vec![
        json!({"data": [item(0, json!([1.0, 0.0])), item(1, json!([0.5, 0.5]))], "usage": {"prompt_tokens": 7}}),
        json!({"data": [{"embedding": [1e308, -1e-320]}, {"embedding": [1, 2]}]}),
        json!({"data": [item(1, json!("AACAPw==")), item(0, json!([0]))], "usage": {"prompt_tokens": -1}}),
    ]
}

fn decisions() -> Vec<Value> {
    vec![
        json!({"id": 0, "pass": true, "score": 0.5, "reason": "the key is sk-canary1234567890"}),
        json!({"id": 1, "pass": false, "reason": {"text": "too long"}}),
        json!({"id": 2, "error": "no such check"}),
    ]
}

/// One message of each kind between hosts and workers.
fn cluster_messages() -> Vec<Value> {
    let proof = json!({"v": 1, "worker": "w1", "epoch": "epoch_1", "offer": "inv_1", "invocation": "inv_2",
        "token": "07070707070707070707070707070707"});
    let with = |members: Value| {
        let mut message = proof.clone();
        if let (Some(message), Value::Object(members)) = (message.as_object_mut(), members) {
            message.extend(members);
        }
        message
    };
    let used = json!({"tokens": 3, "nano_usd": 4});
    let frames = json!([
        {"event": {"kind": "agent.reasoned", "payload": r#"{"agentId": "a", "reasoning": "b"}"#, "cause": 0}},
        {"settled": {"call": 1, "used": used}},
        {"ended": {"end": {"decided": {"output": r#""yes""#}}, "schema_valid": true, "latency_ms": 5}},
    ]);
    vec![
        json!({"v": 1, "replica": "host_1", "offer": "inv_1"}),
        json!({"v": 1, "worker": "w1", "epoch": "epoch_1", "offer": "inv_1", "claim": "claim_1"}),
        json!({"v": 1, "answer": "gone"}),
        json!({"v": 1, "answer": "recorded", "next": 2}),
        json!({"v": 1, "held": [{"keep": {"hold_ms": 8000}}, "pause", "drop"]}),
        json!({"v": 1, "worker": "w1", "epoch": "epoch_1", "held": [proof]}),
        with(json!({"from": 0, "frames": frames, "until": "may_call"})),
        with(json!({"call": 1, "question": {"reserve": used}})),
    ]
}

/// Every kind of agent response.
fn replies() -> Vec<Value> {
    let said = json!({"kind": "message", "role": "agent", "messageId": "m", "parts": [{"kind": "text", "text": "fine"}]});
    let artifact = json!({"artifactId": "a", "parts": [{"kind": "data", "data": {"queue": 1}}]});
    let mut results = vec![
        said.clone(),
        json!({"kind": "artifact-update", "taskId": "t", "append": true, "artifact": artifact}),
    ];
    for state in [
        "submitted",
        "working",
        "input-required",
        "completed",
        "canceled",
        "failed",
        "rejected",
        "auth-required",
    ] {
        let status = json!({"state": state, "message": said});
        results.push(json!({"kind": "status-update", "taskId": "t", "status": status}));
        results.push(json!({"kind": "task", "id": "t", "status": status, "artifacts": [artifact]}));
    }
    let mut replies: Vec<Value> = results
        .into_iter()
        .map(|result| json!({"jsonrpc": "2.0", "id": 1, "result": result}))
        .collect();
    replies.push(json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "x"}}));
    replies
}

/// A card with all possible members, and the key set it also serves as.
fn cards() -> Vec<Value> {
    let flows =
        json!({"clientCredentials": {"tokenUrl": "https://login.example/token", "scopes": {}}});
    let protected = base64::Engine::encode(
        &base64::engine::general_purpose::URL_SAFE_NO_PAD,
        r#"{"alg":"ES256","kid":"k","jku":"https://keys.example/set","iat":1799999999}"#,
    );
    let key = json!({"kty": "EC", "crv": "P-256", "kid": "k", "x": "AAAA", "y": "AAAA"});
    let card = json!({
        "protocolVersion": "0.3.0", "name": "a", "description": "b", "url": "https://agents.example/a2a",
        "preferredTransport": "JSONRPC", "version": "1.0.0", "capabilities": {"extensions": [{"uri": "urn:x", "required": false}]},
        "additionalInterfaces": [{"url": "https://agents.example/rest", "transport": "HTTP+JSON"}],
        "provider": {"organization": "c", "url": "https://agents.example"}, "iconUrl": "http://10.0.0.1/icon.svg",
        "securitySchemes": {"o": {"type": "oauth2", "flows": flows}}, "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["application/json; a=b"],
        "skills": [{"id": "s", "name": "n", "description": "d", "tags": ["t"], "examples": []}],
        "signatures": [{"protected": protected, "signature": "AAAA"}], "keys": [key],
    });
    let empty = json!({});
    vec![card, empty]
}

/// Every kind of tool server response.
fn results() -> Vec<Value> {
    let text = json!({"type": "text", "text": "fine"});
    let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
    let mut replies: Vec<Value> = [
        json!({"content": [text, text]}),
        json!({"content": [text, image], "isError": true}),
        json!({"content": [], "structuredContent": {"queue": 1}, "resultType": "complete"}),
        json!({"content": [{"type": "resource_link", "uri": "file:///x", "name": "x"}], "_meta": {"a": 1}}),
        json!({"resultType": "task", "taskId": "t", "status": "working"}),
        json!({"tools": []}),
    ]
    .into_iter()
    .map(|result| json!({"jsonrpc": "2.0", "id": 1, "result": result}))
    .collect();
    for code in [-32602, -32603] {
        replies.push(json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "x"}}));
    }
    replies
}

/// Prefixes of a cassette, by number of lines.
fn cassettes() -> Vec<Vec<u8>> {
    let lines = [
        json!({"kind": "cassette", "version": 1, "madeBy": "touchstone/0.1.0"}),
        json!({"kind": "model", "role": "*", "provider": "p", "model": "m", "inputPrice": 1.0, "outputPrice": 2.0,
               "maxConcurrency": 4, "maxAttempts": 3}),
        json!({"kind": "exchange", "key": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", "task": "t",
               "nth": 0, "request": {}, "outcome": {"reply": {"text": "x"}}}),
        json!({"kind": "tool", "key": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", "task": "t",
               "nth": 0, "request": {}, "outcome": {"answered": {"plan": "gold"}}}),
    ];
    (1..=lines.len())
        .map(|n| {
            let lines: Vec<String> = lines.iter().take(n).map(Value::to_string).collect();
            lines.join("\n").into_bytes()
        })
        .collect()
}

/// Documents of the kinds whose payloads differ between the majors.
fn stored_events() -> Vec<Value> {
    let error = json!({"code": "node_failed", "message": "the node failed as configured"});
    let summary = json!({"suiteId": "s", "suiteVersion": "1.0.0", "aggregateScore": 0.5, "tasks": [],
        "regression": {"baselineRunId": "run_2", "scoreDelta": 0.5,
            "diffRef": "/v1/runs/run_1:diff?against=run_2"}});
    let owner = json!({"tenant": "acme", "principal": "key_1"});
    let payloads = [
        ("run.started", json!({"workflowId": "eval:s@1.0.0", "engineVersion": "1", "owner": owner})),
        ("run.completed", json!({"outputs": summary, "durationMs": 3})),
        ("run.failed", json!({"error": error, "failedNodeId": "gate"})),
        ("run.paused", json!({"drainPolicy": "immediate", "pausedBy": "key_1"})),
        ("node.started", json!({"nodeId": "gate", "typeId": "core.noop", "attempt": 1})),
        ("node.suspended", json!({"nodeId": "gate", "interruptId": "int-gate-2", "kind": "approval", "key": "k"})),
        ("interrupt.resolved", json!({"nodeId": "gate", "interruptId": "int-gate-1", "kind": "approval",
            "resumeValue": {"action": "accept", "override": {"reason": "r"}}, "resolvedBy": "key_1"})),
        ("approval.requested", json!({"nodeId": "gate", "interruptId": "int-gate-1", "title": "t"})),
        ("approval.received", json!({"nodeId": "gate", "action": "timeout", "decidedBy": "host"})),
        ("approval.granted", json!({"gateId": "gate", "principal": "key_1", "quorumProgress": {}})),
        ("clarification.resolved", json!({"nodeId": "gate", "answers": {}, "answeredBy": "oidc:dana"})),
        ("eval.started", json!({"suiteId": "s", "baselineRunId": "run_2", "fixtureRuns": {"t": "run_2"}})),
        ("agent.toolReturned", json!({"callId": "c", "error": error, "status": "error"})),
        ("replay.diverged", json!({"sourceRunId": "run_2", "atSequence": 8, "divergencePoint": "agent.toolCalled"})),
        ("ai.message.chunk", json!({"nodeId": "n", "runId": "run_1", "chunk": "a", "isLast": true})),
        ("touchstone.task.reused", json!({"taskId": "t", "sourceRunId": "run_2"})),
    ];
    let document = |(kind, payload)| {
        json!({"eventId": "evt_1", "runId": "run_1", "type": kind, "timestamp": "2026-01-01T00:00:00.000000Z",
            "sequence": 7, "schemaVersion": 1, "engineVersion": "1", "nodeId": "gate", "payload": payload})
    };
    payloads.into_iter().map(document).collect()
}

fn texts(values: &[Value]) -> Vec<Vec<u8>> {
    values
        .iter()
        .map(|value| value.to_string().into_bytes())
        .collect()
}

/// A file of every tool, after the byte that selects the tool.
fn foreign() -> Vec<Vec<u8>> {
    let promptfoo = "prompts: ['Say {{what}}']
tests:
  - vars: {what: [hello, bye]}
    assert: [{type: contains, value: '{{what}}'}]
  - vars: {a: 'to {{b}}', b: x}
    assert: [{type: llm-rubric, value: is kind, weight: 2}]
";
    let openai_evals =
        r#"{"input": [{"role": "user", "content": "2+2?"}], "ideal": ["4", "four"]}"#;
    let inspect = r#"[{"input": "2+2?", "target": "4", "choices": ["3", "4"], "id": 1}]"#;
    let csv = "id,input,expected\nFirst,2+2?,4\n,\"{\"\"a\"\": 1}\",\"[1]\"\n";
    let log = r#"{"version": 2, "status": "success", "eval": {}, "samples": [{"id": "a", "epoch": 1, "input": "2+2?", "target": "4", "scores": {}}]}"#;
    let goldens = r#"[{"input": "Hi", "expected_output": "Hello", "expected_tools": [{"name": "search"}]}]"#;
    let items = r#"{"data": [{"id": "a", "datasetId": "d", "input": {"q": 1}, "expectedOutput": "b", "status": "ACTIVE"}]}"#;
    let records = r#"{"id": "a", "_xact_id": "1", "input": "a", "expected": {"b": 1}}"#;
    let spans = r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "a1", "startTimeUnixNano": "1", "attributes": [{"key": "gen_ai.prompt", "value": {"stringValue": "Hi"}}, {"key": "gen_ai.completion", "value": {"stringValue": "Hello"}}]}, {"traceId": "a1", "attributes": [{"key": "gen_ai.tool.name", "value": {"stringValue": "t"}}, {"key": "gen_ai.tool.call.result", "value": {"stringValue": "{}"}}]}]}]}]}"#;
    let in_files = "prompts: file://p.txt\ndefaultTest: {vars: {n: 1}, assert: [{type: regex, value: 'a+'}]}\ntests: [file://t.csv]\nscenarios: [{config: [{vars: {a: 1}}], tests: [{vars: {b: 2}}]}]\n\0q,__expected,__expected2\na,contains-any: a\\,b,latency(5)\n";
    let registry = "a.v0: {class: 'evals.elsuite.basic.match:Match', args: {samples_jsonl: s.jsonl}}\n\0{\"input\": \"a\", \"ideal\": [\"b\", \"c\"]}\n";
    let by_format = (0_u8..).zip([
        promptfoo,
        openai_evals,
        inspect,
        log,
        goldens,
        items,
        records,
        spans,
        csv,
    ]);
    by_format
        .chain([(0, in_files), (1, registry)])
        .map(|(format, text)| [&[format], text.as_bytes()].concat())
        .collect()
}

/// An envelope signed by another party, and plain statements, which the target signs itself.
fn envelopes() -> io::Result<Vec<Vec<u8>>> {
    let other = SecretKey::from_random([8; 32]);
    let statements = [TEST_RESULT_TYPE, PREDICATE_TYPE].map(|kind| {
        let digest = json!({"sha256": "0".repeat(64)});
        json!({"_type": STATEMENT_TYPE, "subject": [{"name": "x", "digest": digest}], "predicateType": kind, "predicate": {}})
    });
    let mut seeds = texts(&statements);
    for statement in &statements {
        seeds.push(serde_json::to_vec(&seal(
            statement.to_string().as_bytes(),
            &other,
        ))?);
    }
    Ok(seeds)
}

/// Archives as built, and as tar streams with every kind of entry.
fn archives(pack: &Files) -> io::Result<Vec<Vec<u8>>> {
    let mut seeds = Vec::new();
    let built = build(pack).map_err(|refusal| io::Error::other(format!("{refusal:?}")))?;
    seeds.push([&[0], &built[..]].concat());
    seeds.push([&[0], &built[..built.len() / 2]].concat());
    seeds.push([&[0], &built[..], &built[..]].concat());
    for kind in [
        tar::EntryType::Regular,
        tar::EntryType::Directory,
        tar::EntryType::Symlink,
        tar::EntryType::Link,
        tar::EntryType::Fifo,
        tar::EntryType::Char,
        tar::EntryType::GNULongName,
        tar::EntryType::GNULongLink,
        tar::EntryType::GNUSparse,
        tar::EntryType::XHeader,
        tar::EntryType::XGlobalHeader,
    ] {
        let mut stream = tar::Builder::new(Vec::new());
        entry(
            &mut stream,
            tar::EntryType::Regular,
            "pack.json",
            pack.get("pack.json").map_or(b"{}", |json| json),
        )?;
        let data: &[u8] = match kind {
            tar::EntryType::XHeader | tar::EntryType::XGlobalHeader => {
                b"19 path=evals/x.js\n13 size=1234\n"
            }
            tar::EntryType::GNULongName => b"prompts/a-long-name.md\0",
            tar::EntryType::Regular => b"text",
            _ => b"",
        };
        entry(&mut stream, kind, "prompts/x.md", data)?;
        entry(
            &mut stream,
            tar::EntryType::Regular,
            "prompts/y.md",
            b"more text",
        )?;
        seeds.push([&[1], &stream.into_inner()?[..]].concat());
    }
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&[0; 1 << 20])?;
    seeds.push([&[0], &bomb.finish()?[..]].concat());
    Ok(seeds)
}

fn entry(
    stream: &mut tar::Builder<Vec<u8>>,
    kind: tar::EntryType,
    name: &str,
    data: &[u8],
) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_path(name)?;
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(data.len() as u64);
    header.set_cksum();
    stream.append(&header, data)
}

/// The template's manifest, and copies with each member removed or replaced.
fn manifests(pack: &Files) -> io::Result<Vec<Vec<u8>>> {
    let text = pack
        .get("pack.json")
        .ok_or_else(|| io::Error::other("the template has no pack.json"))?;
    let mut manifest: Value = serde_json::from_slice(text)?;
    manifest["peerDependencies"] = json!({"aiProviders": "supported"});
    manifest["dependencies"] = json!({"vendor.acme.base": "^1.2.0"});
    manifest["signing"] = json!({"method": "ed25519", "publicKeyRef": "acme-1"});
    let mut seeds = vec![text.clone(), manifest.to_string().into_bytes()];
    let members: Vec<String> = manifest
        .as_object()
        .into_iter()
        .flat_map(|members| members.keys().cloned())
        .collect();
    for member in members {
        for value in [Value::Null, json!(7), json!(""), json!([]), json!({})] {
            let mut other = manifest.clone();
            other[&member] = value;
            seeds.push(other.to_string().into_bytes());
        }
    }
    Ok(seeds)
}

/// The template's suite and the conformance kit's.
fn suites(pack: &Files) -> io::Result<Vec<Vec<u8>>> {
    let mut seeds: Vec<Vec<u8>> = pack
        .iter()
        .filter(|(name, _)| name.starts_with("evals/"))
        .map(|(_, bytes)| bytes.clone())
        .collect();
    for file in
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/suites"))?
    {
        seeds.push(std::fs::read(file?.path())?);
    }
    Ok(seeds)
}

fn bodies() -> Vec<Value> {
    let good = json!({
        "mode": "eval", "evalSuiteRef": "private.touchstone.evals.fuzz@1.0.0", "agentId": "private.touchstone.fuzz.default"
    });
    let mut bodies = vec![good.clone(), json!({}), json!({"workflowId": "x"})];
    for (field, value) in [
        ("inputs", json!({"a": [1, 2.5, null, "x"]})),
        ("tenantId", json!("acme")),
        ("tags", json!(["nightly", "main"])),
        (
            "metadata",
            json!({"commit": "c0ffee", "deep": {"er": {"still": 1}}}),
        ),
        ("callbackUrl", json!("https://example.invalid/hook")),
        (
            "configurable",
            json!({"evalModes": ["golden"], "evalConcurrency": 8, "runTimeoutMs": 60000}),
        ),
        (
            "configurable",
            json!({"evalModes": ["golden", "regression"], "baselineRunId": "run_1"}),
        ),
        (
            "configurable",
            json!({"evalMatch": {"ignore": ["/rationale", "/a~1b/0"]}, "temperature": 0.2, "maxTokens": 100}),
        ),
        (
            "configurable",
            json!({"budget": {"maxTokens": 1000, "maxCostUsd": 0.5, "onExhaustion": "fail"}}),
        ),
        (
            "configurable",
            json!({"recursionLimit": null, "model": null, "extras": {}, "agentVersion": "1.0.0"}),
        ),
    ] {
        let mut body = good.clone();
        body[field] = value;
        bodies.push(body);
    }
    for (workflow, inputs) in [
        ("conformance-noop", json!({})),
        ("conformance-identity", json!({"payload": {"a": 1}})),
        ("conformance-delay", json!({"delayMs": 5})),
        ("conformance-idempotent", json!({"nonce": "n"})),
    ] {
        let limits = json!({"recursionLimit": 3, "maxLoopIterations": 2, "runTimeoutMs": 1000});
        bodies.push(json!({"workflowId": workflow, "inputs": inputs, "configurable": limits}));
    }
    for (id, config) in [
        (
            "stream-text",
            json!({"tokens": ["a", "b"], "delayMsPerToken": 1, "finishReason": "stop", "usage": {"promptTokens": 1}}),
        ),
        (
            "tool-calls",
            json!({"toolCalls": [{"name": "crm:lookup", "arguments": {"id": 1}}]}),
        ),
        ("error", json!({"code": "boom", "message": "no"})),
        ("usage-only", json!({"usage": {"completionTokens": 2}})),
    ] {
        let provider = json!({"mockProvider": {"id": id, "config": config}});
        bodies.push(json!({"workflowId": "conformance-stream-text", "configurable": provider}));
    }
    bodies
}

fn positions() -> Vec<Vec<u8>> {
    let mut seeds: Vec<String> = [0, 1, 20, 40].map(event_id).to_vec();
    seeds.extend(
        [
            "",
            "0",
            "1",
            "40",
            "41",
            "18446744073709551615",
            "18446744073709551616",
            "-1",
            " 1",
            "1,2",
            "evt_",
            "é",
        ]
        .map(str::to_owned),
    );
    seeds.push("9".repeat(200));
    seeds.into_iter().map(String::into_bytes).collect()
}

/// Payloads to be signed, and texts that are not.
fn tokens() -> Vec<Vec<u8>> {
    let payload = json!({"tenant": "acme", "runId": "run_1", "nodeId": "gate", "interruptId": "int-gate-1",
                         "expiresAt": "2027-01-15T08:00:00Z", "intent": "resolve"});
    let mut seeds = vec![[b"\x01", payload.to_string().as_bytes()].concat()];
    for (member, value) in [
        ("expiresAt", json!("tomorrow")),
        ("intent", json!("inspect")),
        ("runId", json!(7)),
        ("more", json!([])),
    ] {
        let mut other = payload.clone();
        other[member] = value;
        seeds.push([b"\x01", other.to_string().as_bytes()].concat());
    }
    seeds.extend(
        ["", ".", "a.b", "eyJ9.AAAA", "e30.e30.e30", "é.é"]
            .map(|text| [b"\x00", text.as_bytes()].concat()),
    );
    seeds
}

fn answers() -> Vec<Vec<u8>> {
    let values = [
        json!({"action": "accept"}),
        json!({"action": "reject", "feedback": "no"}),
        json!({"action": "accept", "override": {"reason": "outage"}}),
        json!({"action": "timeout"}),
        json!({"answers": {"q1": "blue", "q2": ""}}),
        json!({"answers": {}}),
        json!({"event": {"id": 1}}),
        Value::Null,
        json!("accept"),
    ];
    let seeds = (0..4).flat_map(|which| {
        values
            .iter()
            .map(move |value| [&[which], value.to_string().as_bytes()].concat())
    });
    seeds.collect()
}
