//! Cassettes: what they record, and that a replay gives the same answers without any call.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;
use touchstone_agents::model::ModelCatalog;
use touchstone_agents::model::cassette::chain::Chain;
use touchstone_agents::model::cassette::{Cassette, Recording, Replay};
use touchstone_agents::model::scripted::ScriptedModel;
use touchstone_agents::model::scripted::script::Script;
use touchstone_agents::ports::agent::*;
use touchstone_agents::ports::live_tools::*;
use touchstone_agents::ports::model::*;
use touchstone_agents::rules::RetryPolicy;
use touchstone_kit::keys::SecretKey;
use touchstone_openwop::suite::ModelClass;

use super::support::*;

const TOOL: &str = "openwop:core.rag.retrieve";

fn script() -> Arc<dyn Model> {
    let script = json!({"rules": [{
        "failFirst": {"times": 1, "fail": "unavailable"},
        "turns": [
            {"toolCalls": [{"tool": TOOL, "arguments": {"q": "sk-canary0123456789", "n": 0.1}}],
             "usage": {"inputTokens": 11, "outputTokens": 3}},
            {"output": {"queue": "billing"}, "usage": {"inputTokens": 30, "outputTokens": 5}},
        ],
    }]});
    let script = Script::parse(script.to_string().as_bytes()).unwrap();
    // A replay waits between attempts as long as a configured endpoint does.
    let info = ModelInfo {
        retry: RetryPolicy::default(),
        ..info()
    };
    Arc::new(ScriptedModel::new(script, info))
}

fn trial() -> Trial {
    let schema = json!({"type": "object", "required": ["queue"]});
    Trial::new(agent(&[TOOL], Some(schema)))
        .with_fixtures(json!({"toolResponses": [{"tool": TOOL, "response": {"hits": []}}]}))
}

fn general(catalog: &ModelCatalog) -> ModelBinding {
    catalog.resolve(ModelClass::General).unwrap()
}

/// A cassette with one run of [`trial`], and the events recorded for that run.
async fn recorded(folder: &TempDir) -> (PathBuf, Vec<Value>) {
    let file = folder.path().join("run.jsonl");
    let recording = Arc::new(Recording::create(&file).unwrap());
    let catalog = ModelCatalog::of(script()).on(&Cassette::Recording(recording.clone()));
    let trial = trial();
    assert_eq!(
        decided(&trial.run(&general(&catalog)).await),
        &json!({"queue": "billing"})
    );
    recording.finish(None);
    assert_eq!(recording.failure(), None);
    (file, events(&trial))
}

fn events(trial: &Trial) -> Vec<Value> {
    let events = trial.recorder.events.lock().unwrap();
    let shown = events.iter().map(|event| {
        let mut payload = json!(event.0);
        // This is the digest of arguments that the cassette has masked.
        payload
            .as_object_mut()
            .and_then(|payload| payload.remove("argsHash"));
        json!({"is": event.0.kind(), "payload": payload})
    });
    shown.collect()
}

fn replay(file: &Path) -> (Arc<Replay>, ModelBinding) {
    let replay = Arc::new(Replay::open(file, None).unwrap());
    let catalog = ModelCatalog::default().on(&Cassette::Replay(replay.clone()));
    (replay, general(&catalog))
}

#[tokio::test]
async fn a_replay_gives_the_same_answers_without_calls() {
    let folder = TempDir::new().unwrap();
    let (file, first) = recorded(&folder).await;
    let (replay, binding) = replay(&file);
    let again = trial();
    again.run(&binding).await;
    // The failed attempt, the calls, the tokens, the prices: every event except masked content.
    let text = serde_json::to_string(&first).unwrap();
    let masked = text.replace("sk-canary0123456789", "[REDACTED:api-key]");
    assert_eq!(serde_json::to_string(&events(&again)).unwrap(), masked);
    assert_eq!(replay.missing(), Vec::<String>::new());
    assert_eq!(replay.masked(), 1);
}

#[tokio::test]
async fn nothing_that_looks_like_a_credential_is_kept() {
    let folder = TempDir::new().unwrap();
    let (file, _) = recorded(&folder).await;
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("canary0123456789"), "{text}");
    let exchanges: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["kind"] == json!("exchange"))
        .collect();
    assert_eq!(exchanges.len(), 3);
    assert_eq!(
        exchanges[0]["outcome"]["unavailable"]["retryable"],
        json!(true)
    );
    assert_eq!(
        (&exchanges[0]["key"], &exchanges[1]["nth"]),
        (&exchanges[1]["key"], &json!(1))
    );
    assert_eq!(exchanges[1]["masked"], json!(true));
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "prompts are their owner's");
}

#[tokio::test]
async fn a_missing_recording_names_its_task() {
    let folder = TempDir::new().unwrap();
    let (file, _) = recorded(&folder).await;
    let (replay, binding) = replay(&file);
    let mut other = trial();
    other.input = json!("another input");
    assert_eq!(unjudged(&other.run(&binding).await), "cassette_missing");
    assert_eq!(replay.missing(), ["task-1"]);
    // Every exchange is recorded once: the cassette has no second run of the same task.
    let (replay, binding) = self::replay(&file);
    trial().run(&binding).await;
    assert_eq!(unjudged(&trial().run(&binding).await), "cassette_missing");
    assert_eq!(replay.missing(), ["task-1"]);
}

#[tokio::test]
async fn a_timed_out_call_is_recorded_as_a_timeout() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("run.jsonl");
    let slow = json!({"rules": [{"turns": [{"text": "x", "delayMs": 60_000}]}]});
    let slow = Script::parse(slow.to_string().as_bytes()).unwrap();
    let hasty = ModelInfo {
        timeout: std::time::Duration::from_millis(20),
        ..info()
    };
    let recording = Arc::new(Recording::create(&file).unwrap());
    let catalog = ModelCatalog::of(Arc::new(ScriptedModel::new(slow, hasty)))
        .on(&Cassette::Recording(recording.clone()));
    let first = Trial::new(agent(&[], None));
    assert_eq!(unjudged(&first.run(&general(&catalog)).await), "timeout");
    recording.finish(None);
    let (replay, binding) = replay(&file);
    let again = Trial::new(agent(&[], None));
    assert_eq!(unjudged(&again.run(&binding).await), "timeout");
    assert_eq!(replay.missing(), Vec::<String>::new());
    assert_eq!(again.recorder.payloads("touchstone.model.retried").len(), 2);
}

#[tokio::test]
async fn an_existing_file_is_not_recorded_over() {
    let folder = TempDir::new().unwrap();
    let (file, _) = recorded(&folder).await;
    let kept = std::fs::read(&file).unwrap();
    assert!(Recording::create(&file).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), kept);
}

/// The lines of a cassette without their chain digests.
fn unlinked(file: &Path) -> Vec<String> {
    let mut chain = Chain::default();
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| chain.unlink(line).unwrap());
    lines.collect()
}

fn write_lines(file: &Path, lines: &[String]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(file, text).unwrap();
}

#[rstest]
#[case::empty(|_: Vec<String>| vec![], "line 1: it is empty")]
#[case::no_head(|lines: Vec<String>| lines[1..].to_vec(), "line 1: the first line must name the version")]
#[case::another_version(|mut lines: Vec<String>| { lines[0] = lines[0].replace("\"version\":2", "\"version\":3"); lines }, "line 1: it has version 3")]
#[case::another_request(|mut lines: Vec<String>| { lines[2] = lines[2].replace("canary-prompt", "another prompt"); lines }, "line 3: the key does not match the request")]
#[case::twice(|mut lines: Vec<String>| { lines.insert(5, lines[2].clone()); lines }, "line 6: the exchange is a duplicate of an earlier line")]
#[case::unknown_member(|mut lines: Vec<String>| { lines[2] = lines[2].replacen("\"nth\"", "\"more\":1,\"nth\"", 1); lines }, "line 3: unknown field `more`")]
#[case::no_end(|mut lines: Vec<String>| { lines.pop(); lines }, "line 5: the recording was not finished")]
#[case::two_ends(|mut lines: Vec<String>| { lines.push(lines[5].clone()); lines }, "line 7: it follows the `end` line")]
#[tokio::test]
async fn an_unsound_cassette_is_refused_with_its_line(
    #[case] spoil: fn(Vec<String>) -> Vec<String>,
    #[case] expected: &str,
) {
    let folder = TempDir::new().unwrap();
    let (file, _) = recorded(&folder).await;
    // An attacker who edits the cassette would also recompute the chain.
    let mut chain = Chain::default();
    let lines = spoil(unlinked(&file));
    let lines: Vec<String> = lines.iter().map(|line| chain.link(line)).collect();
    write_lines(&file, &lines);
    let error = Replay::open(&file, None).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[rstest]
#[case::another_answer(|lines: &mut Vec<String>| lines[4] = lines[4].replace("billing", "refunds"), "line 5: its digest does not match")]
#[case::removed(|lines: &mut Vec<String>| { lines.remove(3); }, "line 4: its digest does not match")]
#[case::moved(|lines: &mut Vec<String>| lines.swap(2, 3), "line 3: its digest does not match")]
#[case::shortened(|lines: &mut Vec<String>| lines.truncate(4), "line 4: the recording was not finished")]
#[case::without_links(|lines: &mut Vec<String>| lines[2] = lines[2].replacen("\"chain\"", "\"link\"", 1), "line 3: it does not begin with the member `chain`")]
#[case::no_json(|lines: &mut Vec<String>| lines[1] = "{oops".to_owned(), "line 2: it does not begin")]
#[case::an_earlier_version(|lines: &mut Vec<String>| lines[0] = r#"{"kind":"cassette","version":1,"madeBy":"x"}"#.to_owned(), "line 1: it has version 1")]
#[tokio::test]
async fn an_edited_cassette_is_refused(#[case] edit: fn(&mut Vec<String>), #[case] expected: &str) {
    let folder = TempDir::new().unwrap();
    let (file, _) = recorded(&folder).await;
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let before = lines.clone();
    edit(&mut lines);
    assert_ne!(lines, before);
    write_lines(&file, &lines);
    let error = Replay::open(&file, None).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[tokio::test]
async fn only_a_signature_of_this_host_is_accepted_on_a_cassette() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("signed.jsonl");
    let (own, other) = (
        SecretKey::from_random([1; 32]),
        SecretKey::from_random([2; 32]),
    );
    let recording = Recording::create(&file).unwrap();
    recording.finish(Some(&own));
    let opened = |key: Option<&SecretKey>| {
        let key = key.map(SecretKey::public);
        Replay::open(&file, key.as_ref()).map(|replay| replay.source().clone())
    };
    let source = opened(Some(&own)).unwrap();
    assert!(source.digest.starts_with("sha256-"), "{source:?}");
    assert_eq!(source.signed_by, Some(own.public().fingerprint()));
    for key in [Some(&other), None] {
        assert_eq!(opened(key).unwrap().signed_by, None);
    }

    // A chain that was recomputed after an edit no longer matches the signature.
    let mut chain = Chain::default();
    let mut lines = unlinked(&file);
    lines[0] = lines[0].replace("touchstone/", "somebody/");
    let lines: Vec<String> = lines.iter().map(|line| chain.link(line)).collect();
    write_lines(&file, &lines);
    let error = opened(Some(&own)).unwrap_err().to_string();
    assert!(
        error.contains("line 2: its signature does not match"),
        "{error}"
    );
}

/// A tool with a different answer each time.
struct Clockwork;

#[async_trait::async_trait]
impl LiveTools for Clockwork {
    async fn offers(
        &self,
        tools: &[String],
        _: &touchstone_kit::ids::TaskId,
    ) -> Result<Vec<touchstone_agents::rules::ToolDefinition>, ToolsUnavailable> {
        Ok(vec![touchstone_agents::rules::ToolDefinition {
            tool: tools[0].clone(),
            description: Some("Looks it up.".to_owned()),
            input_schema: json!({"type": "object"}),
            effects: touchstone_agents::rules::Effects::None,
        }])
    }

    async fn call(&self, call: LiveCall<'_>) -> Result<ToolAnswer, ToolsUnavailable> {
        match call.arguments["q"].as_str() {
            Some("gone") => Err(ToolsUnavailable::because("tool_closed")),
            Some("bad") => Ok(ToolAnswer::Failed(json!("no such customer"))),
            _ => Ok(ToolAnswer::Answered(
                json!({"key": "sk-canary0123456789", "n": 0.1}),
            )),
        }
    }
}

#[rstest]
#[case("good", "decided")]
#[case("bad", "decided")]
#[case("gone", "tool_closed")]
#[tokio::test]
async fn live_tools_are_on_the_cassette_too(#[case] asks: &str, #[case] end: &str) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("run.jsonl");
    let script = json!({"rules": [{"turns": [
        {"toolCalls": [{"tool": TOOL, "arguments": {"q": asks}}]},
        {"output": {"queue": "billing"}},
    ]}]});
    let script = Script::parse(script.to_string().as_bytes()).unwrap();
    let model: Arc<dyn Model> = Arc::new(ScriptedModel::new(script, info()));
    let ended = |result: &InvocationResult| match &result.end {
        InvocationEnd::Decided { .. } => "decided".to_owned(),
        InvocationEnd::Failed { reason } | InvocationEnd::Unjudged { reason } => reason.clone(),
    };
    let timeless = |trial: &Trial| {
        let mut events = events(trial);
        for event in &mut events {
            event["payload"]
                .as_object_mut()
                .unwrap()
                .remove("durationMs");
        }
        serde_json::to_string(&events).unwrap()
    };

    let recording = Arc::new(Recording::create(&file).unwrap());
    let catalog = ModelCatalog::of(model).on(&Cassette::Recording(recording.clone()));
    let mut first = trial();
    first.live = Some(recording.listen_to_tools(Arc::new(Clockwork)));
    assert_eq!(ended(&first.run(&general(&catalog)).await), end);
    recording.finish(None);
    assert_eq!(recording.failure(), None);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("canary0123456789"), "{text}");

    let (replay, binding) = replay(&file);
    let mut again = trial();
    again.live = replay.tools();
    assert_eq!(ended(&again.run(&binding).await), end);
    assert_eq!(replay.missing(), Vec::<String>::new());
    let masked = timeless(&first).replace("sk-canary0123456789", "[REDACTED:api-key]");
    assert_eq!(timeless(&again), masked);

    // The cassette has no calls of another task.
    let mut other = trial();
    other.agent.tool_allowlist.push("t:more".to_owned());
    other.live = replay.tools();
    assert_eq!(unjudged(&other.run(&binding).await), "cassette_missing");
    assert_eq!(replay.missing(), ["task-1"]);
}

#[tokio::test]
async fn a_cassette_without_live_tools_offers_none() {
    let folder = TempDir::new().unwrap();
    let (file, _) = recorded(&folder).await;
    assert!(replay(&file).0.tools().is_none());
}
