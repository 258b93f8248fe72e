//! Workflow runs: conformance fixtures, waits that occupy no slot, limits.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_kit::ids::RunId;
use touchstone_runs::fixtures;

use crate::http::support::host::TestHost;

pub async fn at_work() -> TestHost {
    let host = TestHost::idle().await;
    host.work();
    host
}

pub async fn start(host: &TestHost, body: &Value) -> RunId {
    start_at(host, "/v1", body).await
}

/// The same, with the operations below this path.
pub async fn start_at(host: &TestHost, operations: &str, body: &Value) -> RunId {
    let created = host.post(&format!("{operations}/runs"), body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    created.json()["runId"].as_str().unwrap().into()
}

/// Runs a workflow to its end; returns its log and its snapshot.
async fn outcome(host: &TestHost, body: &Value) -> (Vec<Value>, Value) {
    let run = start(host, body).await;
    let log = host.ended(&run).await;
    (log, host.get(&format!("/v1/runs/{run}")).await.json())
}

pub fn kinds(log: &[Value]) -> Vec<&str> {
    log.iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn every_fixture_workflow_is_served_under_its_id() {
    let host = TestHost::idle().await;
    for id in fixtures::IDS {
        let reply = host.get(&format!("/v1/workflows/{id}")).await;
        assert_eq!(
            (reply.status, reply.json()["id"].as_str().unwrap()),
            (StatusCode::OK, *id)
        );
    }
}

#[rstest]
#[case::noop(json!({"workflowId": "conformance-noop"}),
    &["run.started", "node.started", "node.completed", "run.completed"])]
#[case::idempotent(json!({"workflowId": "conformance-idempotent", "inputs": {"nonce": "n"}}),
    &["run.started", "node.started", "node.completed", "run.completed"])]
#[case::failure(json!({"workflowId": "conformance-failure"}),
    &["run.started", "node.started", "node.failed", "run.failed"])]
#[case::delay(json!({"workflowId": "conformance-delay", "inputs": {"delayMs": 30}}),
    &["run.started", "node.started", "node.completed", "run.completed"])]
#[case::delay_of_a_second_unless_told(json!({"workflowId": "conformance-delay"}),
    &["run.started", "node.started", "node.completed", "run.completed"])]
#[tokio::test]
async fn every_fixture_workflow_emits_its_expected_events(
    #[case] body: Value,
    #[case] expected: &[&str],
) {
    let host = at_work().await;
    let (log, snapshot) = outcome(&host, &body).await;
    assert_eq!(kinds(&log), expected);
    let last = expected.last().unwrap();
    assert_eq!(
        format!("run.{}", snapshot["status"].as_str().unwrap()),
        *last
    );
    assert_eq!(snapshot["workflowId"], body["workflowId"]);
    assert_eq!(snapshot["error"].is_object(), *last == "run.failed");
}

#[tokio::test]
async fn a_mock_agent_emits_agent_events_within_its_invocation() {
    let host = at_work().await;
    let body = json!({"workflowId": "conformance-agent-reasoning"});
    let (log, snapshot) = outcome(&host, &body).await;
    let expected = [
        "run.started",
        "node.started",
        "agent.invocation.started",
        "agent.reasoned",
        "agent.toolCalled",
        "agent.toolReturned",
        "agent.decided",
        "agent.invocation.completed",
        "node.completed",
        "run.completed",
    ];
    assert_eq!(kinds(&log), expected);
    let agent = "core.conformance.reasoning-agent";
    for event in &log[2..8] {
        assert_eq!(event["payload"]["agentId"], agent, "{event}");
    }
    assert_eq!(log[4]["payload"]["callId"], log[5]["payload"]["callId"]);
    assert_eq!(snapshot["agent"], json!({"agentId": agent}));
}

#[rstest]
#[case::no_version("conformance-agent-identity", json!({"agentId": "core.conformance.identity-agent"}))]
#[case::of_a_channel("conformance-agent-channel-dispatch",
    json!({"agentId": "core.conformance.channel-agent", "version": "1.0.0"}))]
#[tokio::test]
async fn a_snapshot_names_the_agent_of_a_workflow(#[case] workflow: &str, #[case] agent: Value) {
    let host = at_work().await;
    let (_, snapshot) = outcome(&host, &json!({"workflowId": workflow})).await;
    assert_eq!(snapshot["agent"], agent);
    let (_, plain) = outcome(&host, &json!({"workflowId": "conformance-noop"})).await;
    assert!(plain.get("agent").is_none());
}

#[rstest]
#[case::none(json!({}), None)]
#[case::as_declared(json!({"runTimeoutMs": 1000}), None)]
#[case::too_little(json!({"runTimeoutMs": 1}), Some("configurable.runTimeoutMs"))]
#[case::undeclared(json!({"temperature": 1.0}), Some("configurable"))]
#[tokio::test]
async fn configurable_satisfies_the_schema_that_the_workflow_declares(
    #[case] configurable: Value,
    #[case] violated: Option<&str>,
) {
    let host = at_work().await;
    let workflow = "conformance-configurable-schema";
    let served = host.get(&format!("/v1/workflows/{workflow}")).await.json();
    assert_eq!(served["configurableSchema"]["additionalProperties"], false);
    let body = json!({"workflowId": workflow, "configurable": configurable});
    let created = host.post("/v1/runs", &body).await;
    match violated {
        None => assert_eq!(created.status, StatusCode::CREATED, "{created:?}"),
        Some(field) => {
            assert_eq!(created.status, StatusCode::BAD_REQUEST, "{created:?}");
            let refused = created.json();
            assert_eq!(refused["error"], "validation_error");
            assert_eq!(refused["details"]["field"], field);
        }
    }
}

/// As in the upstream scenario `agentPackHandoffSchemaValidation`.
#[rstest]
#[case::valid(json!({"text": "Invoice 42 from Acme, total $1200", "extractionFields": ["vendor", "total"]}), None)]
#[case::task(json!({"text": "Invoice 42"}), Some("handoff_task_schema_violation"))]
#[case::result(json!({"scenario": "mock-return-violation", "text": "x", "extractionFields": ["a"]}),
    Some("handoff_return_schema_violation"))]
#[tokio::test]
async fn a_handoff_satisfies_its_schemas_or_fails(
    #[case] inputs: Value,
    #[case] violation: Option<&str>,
) {
    let host = at_work().await;
    let workflow = "conformance-agent-pack-handoff-schema-validation";
    let body = json!({"workflowId": workflow, "inputs": inputs});
    let (log, snapshot) = outcome(&host, &body).await;
    let failed = log.iter().find(|event| event["type"] == "node.failed");
    let code = failed.map(|event| event["payload"]["error"]["code"].as_str().unwrap());
    assert_eq!(code, violation);
    let status = if violation.is_some() {
        "failed"
    } else {
        "completed"
    };
    assert_eq!(snapshot["status"], status);
}

/// As in the upstream scenario `run-diff`.
#[tokio::test]
async fn the_fixtures_of_a_comparison_differ() {
    let host = at_work().await;
    let reasoning = start(&host, &json!({"workflowId": "conformance-agent-reasoning"})).await;
    let dispatch = start(&host, &json!({"workflowId": "conformance-dispatch-loop"})).await;
    host.ended(&reasoning).await;
    host.ended(&dispatch).await;
    let diff = async |against: &RunId| {
        let path = format!("/v1/runs/{reasoning}:diff?against={against}");
        host.get(&path).await.json()
    };
    let same = diff(&reasoning).await;
    assert_eq!(
        (&same["divergedAtSeq"], &same["eventDiffs"]),
        (&Value::Null, &json!([]))
    );
    let other = diff(&dispatch).await;
    assert!(other["divergedAtSeq"].is_u64(), "{other}");
    assert_eq!(other["eventDiffs"][0]["seq"], other["divergedAtSeq"]);
}

#[tokio::test]
async fn inputs_pass_through_and_nodes_run_in_order() {
    let host = at_work().await;
    let payload = json!({"a": [1, {"b": null}]});
    let body = json!({"workflowId": "conformance-identity", "inputs": {"payload": payload}});
    let (log, snapshot) = outcome(&host, &body).await;
    assert_eq!(snapshot["variables"]["payload"], payload);
    assert_eq!(log[log.len() - 1]["payload"]["outputs"]["payload"], payload);

    let (log, snapshot) = outcome(&host, &json!({"workflowId": "conformance-multi-node"})).await;
    let order: Vec<&str> = log
        .iter()
        .filter(|event| event["type"] == "node.completed")
        .map(|event| event["nodeId"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["a", "b", "c"]);
    assert_eq!(snapshot["nodeStates"]["b"]["status"], "completed");
}

/// OpenWOP SR-1: no credential in a caller's description of a run is stored.
#[tokio::test]
async fn credentials_in_what_comes_with_a_run_are_masked_before_they_are_kept() {
    const KEYS: [&str; 3] = [
        "sk-live-abcdefghij0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "hunter2hunter2",
    ];
    let host = at_work().await;
    let body = json!({
        "workflowId": "conformance-identity",
        "inputs": {"payload": {"note": format!("use {}", KEYS[0]), "list": [KEYS[1]]}},
        "tags": [KEYS[1], "plain"],
        "metadata": {"deep": {"text": format!("password={}", KEYS[2])}},
    });
    let run = start(&host, &body).await;
    let log = host.ended(&run).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.text();
    let bundle = host
        .get(&format!("/v1/runs/{run}/debug-bundle"))
        .await
        .text();
    for text in [json!(log).to_string(), snapshot.clone(), bundle] {
        for key in KEYS {
            assert!(!text.contains(key), "{key} in {text}");
        }
    }
    assert!(snapshot.contains("plain"), "{snapshot}");
}

#[tokio::test]
async fn more_nodes_than_allowed_do_not_begin() {
    let host = at_work().await;
    let body =
        json!({"workflowId": "conformance-cap-breach", "configurable": {"recursionLimit": 3}});
    let (log, snapshot) = outcome(&host, &body).await;
    assert_eq!(snapshot["error"]["code"], "recursion_limit_exceeded");
    let kinds = kinds(&log);
    assert_eq!(kinds[kinds.len() - 2..], ["cap.breached", "run.failed"]);
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "node.started").count(),
        3
    );
    let breach = &log[log.len() - 2]["payload"];
    assert_eq!(
        *breach,
        json!({"kind": "node-executions", "limit": 3.0, "observed": 4.0, "nodeId": "d"})
    );
    let (_, whole) = outcome(&host, &json!({"workflowId": "conformance-cap-breach"})).await;
    assert_eq!(whole["status"], "completed");
}

#[tokio::test]
async fn a_wait_ends_with_the_longest_duration_and_with_a_cancel() {
    let host = at_work().await;
    let body = json!({"workflowId": "conformance-run-duration-breach", "configurable": {"runTimeoutMs": 80}});
    let (log, snapshot) = outcome(&host, &body).await;
    assert_eq!(snapshot["error"]["code"], "run_timeout");
    let breach = &log[log.len() - 2];
    assert_eq!(
        (&breach["type"], &breach["payload"]["kind"]),
        (&json!("cap.breached"), &json!("run-duration"))
    );
    assert!(breach["payload"]["observed"].as_f64() > breach["payload"]["limit"].as_f64());

    let slow = json!({"workflowId": "conformance-cancellable", "inputs": {"delayMs": 60_000}});
    let run = start(&host, &slow).await;
    let begun = format!("/v1/runs/{run}/events/poll?lastSequence=1&timeout=30");
    assert_eq!(
        host.get(&begun).await.json()["events"][0]["type"],
        "node.started"
    );
    assert_eq!(
        host.get(&format!("/v1/runs/{run}")).await.json()["status"],
        "running"
    );
    host.post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    let log = host.ended(&run).await;
    assert_eq!(log[log.len() - 1]["type"], "run.cancelled");
}

#[tokio::test]
async fn waits_hold_no_slots_and_outlive_their_worker() {
    let host = TestHost::idle().await;
    // More waits than the worker has slots, and then one run that does not wait.
    let slow = json!({"workflowId": "conformance-delay", "inputs": {"delayMs": 700}});
    let mut waiting = Vec::new();
    for _ in 0..40 {
        waiting.push(start(&host, &slow).await);
    }
    let quick = start(&host, &json!({"workflowId": "conformance-noop"})).await;
    let shutdown = host.work();
    host.ended(&quick).await;
    // The worker that started the waits stops; another one ends them.
    shutdown.cancel();
    host.work();
    for run in waiting {
        let log = host.ended(&run).await;
        assert_eq!(
            kinds(&log),
            [
                "run.started",
                "node.started",
                "node.completed",
                "run.completed"
            ]
        );
        let at = |n: usize| {
            log[n]["timestamp"]
                .as_str()
                .unwrap()
                .parse::<jiff::Timestamp>()
                .unwrap()
        };
        assert!(at(2).duration_since(at(1)).as_millis() >= 700);
    }
}

#[rstest]
#[case::unknown(json!({"workflowId": "no-such-workflow"}), "workflowId")]
#[case::not_text(json!({"workflowId": 7}), "workflowId")]
#[case::missing_input(json!({"workflowId": "conformance-identity"}), "inputs.payload")]
#[case::wrong_input(json!({"workflowId": "conformance-delay", "inputs": {"delayMs": "soon"}}), "inputs.delayMs")]
#[case::bad_limit(json!({"workflowId": "conformance-noop", "configurable": {"recursionLimit": 0}}), "configurable.recursionLimit")]
#[case::hot(json!({"workflowId": "conformance-noop", "configurable": {"temperature": 9}}), "configurable.temperature")]
#[case::speechless(json!({"workflowId": "conformance-noop", "configurable": {"maxTokens": 0}}), "configurable.maxTokens")]
#[case::no_loops(json!({"workflowId": "conformance-noop", "configurable": {"maxLoopIterations": 0}}), "configurable.maxLoopIterations")]
#[case::verbose(json!({"workflowId": "conformance-noop", "configurable": {"reasoningVerbosity": "very"}}), "configurable.reasoningVerbosity")]
#[case::eval_field(json!({"workflowId": "conformance-noop", "agentId": "a.b"}), "agentId")]
#[case::unenforced(json!({"workflowId": "conformance-noop", "configurable": {"budget": {"maxTokens": 1}}}), "configurable.budget")]
#[tokio::test]
async fn invalid_workflow_runs_are_refused_by_field(#[case] body: Value, #[case] field: &str) {
    let host = TestHost::idle().await;
    let refused = host.post("/v1/runs", &body).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (StatusCode::BAD_REQUEST, "validation_error")
    );
    assert_eq!(refused.json()["details"]["field"], field);
}

#[tokio::test]
async fn a_workflow_run_is_not_an_eval_run() {
    let host = at_work().await;
    let run = start(&host, &json!({"workflowId": "conformance-noop"})).await;
    host.ended(&run).await;
    for path in [
        format!("/v1/runs/{run}/eval-summary"),
        format!("/v1/host/touchstone/runs/{run}/report"),
    ] {
        assert_eq!(
            host.get(&path).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_node_meets_the_version_its_channel_had_when_the_run_was_created() {
    let host = at_work().await;
    let body = json!({"workflowId": "conformance-agent-channel-dispatch"});
    let run = start(&host, &body).await;
    let log = host.ended(&run).await;
    assert_eq!(
        kinds(&log),
        [
            "run.started",
            "node.started",
            "agent.invocation.started",
            "agent.invocation.completed",
            "node.completed",
            "run.completed"
        ]
    );
    let met = &log[2]["payload"];
    assert_eq!(
        (
            &met["resolvedChannel"],
            &met["resolvedAgentVersion"],
            &met["source"]
        ),
        (&json!("stable"), &json!("1.0.0"), &json!("workflow-node"))
    );
    assert_eq!(met["invocationId"], log[3]["payload"]["invocationId"]);
    let replay = host
        .post(&format!("/v1/runs/{run}:fork"), &json!({"mode": "replay"}))
        .await;
    let replay = RunId::from(replay.json()["runId"].as_str().unwrap());
    assert_eq!(host.ended(&replay).await[2]["payload"], *met);
}

fn streamed(id: &str, config: Value) -> Value {
    json!({"workflowId": "conformance-stream-text", "configurable": {"mockProvider": {"id": id, "config": config}}})
}

#[tokio::test]
async fn a_mock_provider_answers_test_keys_only() {
    let host = at_work().await;
    let body = streamed(
        "stream-text",
        json!({
            "tokens": ["Hello", " ", "world", "!"], "delayMsPerToken": 5, "finishReason": "stop",
            "usage": {"promptTokens": 5, "completionTokens": 4, "totalTokens": 9},
        }),
    );
    let live = host.post("/v1/runs", &body).await;
    assert_eq!(
        (live.status, live.code().as_str()),
        (StatusCode::FORBIDDEN, "mock_provider_forbidden")
    );

    let key = host
        .issue(|issue| {
            issue.test = true;
            issue.scopes = vec![Scope::RunsCreate];
        })
        .await;
    let post = async |body: &Value| {
        let call = host.request(Method::POST, "/v1/runs").key(&key).json(body);
        call.send().await
    };
    let unknown = post(&streamed("does-not-exist", json!({}))).await;
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (StatusCode::BAD_REQUEST, "unsupported_mock_provider")
    );

    let created = post(&body).await;
    let run = RunId::from(created.json()["runId"].as_str().unwrap());
    let log = host.ended(&run).await;
    let fork = format!("/v1/runs/{run}:fork");
    let live = host
        .post(&fork, &json!({"mode": "branch", "fromSeq": 0}))
        .await;
    assert_eq!(live.code(), "mock_provider_forbidden");
    let replay = host.post(&fork, &json!({"mode": "replay"})).await;
    assert_eq!(replay.status, StatusCode::CREATED, "{replay:?}");
    let chunks: Vec<&Value> = log
        .iter()
        .filter(|event| event["type"] == "ai.message.chunk")
        .map(|event| &event["payload"])
        .collect();
    let said: Vec<&str> = chunks
        .iter()
        .map(|chunk| chunk["chunk"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["Hello", " ", "world", "!"]);
    let last: Vec<bool> = chunks
        .iter()
        .map(|chunk| chunk["isLast"].as_bool().unwrap())
        .collect();
    assert_eq!(last, [false, false, false, true]);
    assert_eq!(chunks[3]["meta"]["finishReason"], "stop");
    assert_eq!(chunks[3]["meta"]["usage"]["completionTokens"], 4);
    assert_eq!(
        log.iter()
            .filter(|event| event["type"] == "provider.usage")
            .count(),
        1
    );

    for (id, config, last) in [
        (
            "error",
            json!({"code": "boom", "message": "canary words"}),
            "run.failed",
        ),
        (
            "usage-only",
            json!({"usage": {"promptTokens": 3}}),
            "run.completed",
        ),
        (
            "tool-calls",
            json!({"toolCalls": [{"name": "crm:lookup", "arguments": {"id": 1}}]}),
            "run.completed",
        ),
    ] {
        let created = post(&streamed(id, config)).await;
        let log = host
            .ended(&created.json()["runId"].as_str().unwrap().into())
            .await;
        assert_eq!(log[log.len() - 1]["type"], last, "{id}");
        if id == "error" {
            // The code is a label; the message is content, and errors contain no content.
            let snapshot = host
                .get(&format!(
                    "/v1/runs/{}",
                    created.json()["runId"].as_str().unwrap()
                ))
                .await
                .json();
            assert_eq!(snapshot["error"]["code"], "boom");
            let shown = format!("{} {}", Value::from(log), snapshot["error"]);
            assert!(!shown.contains("canary"), "{shown}");
        }
    }
}
