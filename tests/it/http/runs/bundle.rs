//! `GET /v1/runs/{runId}/debug-bundle`.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_kit::ids::RunId;
use touchstone_openwop::events::{Event, ModelRetried};
use touchstone_runs::service::bundles::MAX_BUNDLE;

use crate::http::support::host::{TestHost, create_body, says};
use crate::http::support::recorder::{Recorder, cancelled, started};

async fn bundle(host: &TestHost, run: &RunId, query: &str) -> Value {
    let path = format!("/v1/runs/{run}/debug-bundle{query}");
    let reply = host.get(&path).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    reply.json()
}

async fn start(host: &TestHost, body: &Value) -> RunId {
    let created = host.post("/v1/runs", body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    created.json()["runId"].as_str().unwrap().into()
}

fn of(events: &[Value], member: &str) -> Vec<Value> {
    events.iter().map(|event| event[member].clone()).collect()
}

#[tokio::test]
async fn a_bundle_holds_the_run_its_whole_log_and_what_people_said() {
    let host = TestHost::working(&says(&["a", "wrong"])).await;
    let run = host.create().await;
    let log = host.ended(&run).await;
    let said =
        json!({"signal": {"kind": "label", "label": "odd"}, "note": "the window is 30 days"});
    let said = host
        .post(&format!("/v1/runs/{run}/annotations"), &said)
        .await;
    let mut said = said.json();
    said["note"] = json!("[REDACTED]");
    let made = bundle(&host, &run, "").await;
    assert_eq!(
        (&made["bundleVersion"], &made["host"]["name"]),
        (&json!("1.0"), &json!("touchstone"))
    );
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    for member in ["runId", "workflowId", "status", "owner", "agent", "metrics"] {
        assert_eq!(made["run"][member], snapshot[member], "{member}");
    }
    assert_eq!(made["run"]["endedAt"], snapshot["completedAt"]);
    let shown = made["events"].as_array().unwrap();
    for member in [
        "sequence",
        "type",
        "eventId",
        "nodeId",
        "timestamp",
        "causationId",
    ] {
        assert_eq!(of(shown, member), of(&log, member), "{member}");
    }
    // Facts are kept; the agent's words are not.
    for (shown, recorded) in shown.iter().zip(&log) {
        match recorded["type"].as_str().unwrap() {
            "agent.decided" => assert_eq!(shown["payload"]["decision"], "[REDACTED]"),
            _ => assert_eq!(shown, recorded),
        }
    }
    assert_eq!(made["annotations"], json!([said]));
    assert_eq!(
        (&made["redactionApplied"], &made["redactionMode"]),
        (&json!(true), &json!("mask"))
    );
    assert_eq!(made["metrics"]["eventCount"], log.len());
    assert_eq!(made["metrics"]["nodeCount"], 2);
    assert_eq!(
        made["metrics"]["openwopCost"],
        snapshot["metrics"]["openwopCost"]
    );
    assert!(made.get("truncated").is_none(), "{made}");
}

#[tokio::test]
async fn a_bundle_contains_no_text_from_the_caller() {
    const CANARY: &str = "plain canary words";
    let host = TestHost::working(&says(&["a"])).await;
    let payload = json!({"text": CANARY, CANARY: [CANARY, 1], "key": "sk-canary0123456789"});
    let mut eval = create_body();
    eval["metadata"] = json!({"field": CANARY});
    eval["configurable"] = json!({CANARY: {"system": CANARY}, "temperature": 0.5});
    for body in [
        json!({"workflowId": "conformance-identity", "inputs": {"payload": payload},
               "metadata": {CANARY: CANARY}, "tags": ["sk-canary0123456789"]}),
        eval,
    ] {
        let run = start(&host, &body).await;
        let log = Value::from(host.ended(&run).await).to_string();
        assert!(log.contains(CANARY) || body["mode"] == "eval", "{log}");
        let made = bundle(&host, &run, "").await;
        let text = made.to_string();
        assert!(
            !text.contains(CANARY) && !text.contains("sk-canary"),
            "{text}"
        );
        assert_eq!(made["redactionApplied"], true);
    }
}

#[tokio::test]
async fn a_run_without_free_text_is_bundled_unredacted() {
    let host = TestHost::working(&says(&["a"])).await;
    let run = start(&host, &json!({"workflowId": "conformance-noop"})).await;
    let log = host.ended(&run).await;
    let made = bundle(&host, &run, "").await;
    assert_eq!(
        (&made["redactionApplied"], &made["events"]),
        (&json!(false), &json!(log))
    );
}

#[rstest]
#[case("?maxEvents=0", 0)]
#[case("?maxEvents=3", 3)]
#[case("?host.touchstone.maxEvents=2", 2)]
#[case("?host.touchstone.maxEvents=2&maxEvents=3", 2)]
#[case("?host.touchstone.maxEvents=3&maxEvents=2", 2)]
#[tokio::test]
async fn a_bundle_has_at_most_the_requested_number_of_events(
    #[case] query: &str,
    #[case] expected: usize,
) {
    let host = TestHost::working(&says(&["a"])).await;
    let run = host.create().await;
    let log = host.ended(&run).await;
    let made = bundle(&host, &run, query).await;
    let shown = made["events"].as_array().unwrap();
    assert_eq!(of(shown, "eventId"), of(&log[..expected], "eventId"));
    assert_eq!(made["metrics"]["eventCount"], expected);
    assert_eq!(
        (&made["truncated"], &made["truncatedReason"]),
        (&json!(true), &json!("events_truncated_to_max_events"))
    );
    assert_eq!(made["truncatedOriginalCount"], log.len());
    let whole = bundle(&host, &run, &format!("?maxEvents={}", log.len())).await;
    assert!(whole.get("truncated").is_none());
}

#[tokio::test]
async fn a_bundle_is_never_larger_than_its_bound() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let mut recorder = Recorder::of(&host).await;
    let long = |_| {
        Event::ModelRetried(ModelRetried {
            attempt: 1,
            reason: "x".repeat(100_000),
            wait_ms: 1,
        })
    };
    recorder.append(vec![started()]).await;
    for _ in 0..10 {
        recorder.append((0..10).map(long).collect()).await;
    }
    recorder.append(vec![cancelled()]).await;
    let path = format!("/v1/runs/{}/debug-bundle", recorder.run);
    let reply = host.get(&path).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert!(reply.body.len() <= MAX_BUNDLE, "{}", reply.body.len());
    assert!(reply.body.len() > MAX_BUNDLE - 200_000);
    let made = reply.json();
    let shown = made["events"].as_array().unwrap();
    assert_eq!(made["truncatedReason"], "events_truncated_to_size_cap");
    assert_eq!(made["truncatedOriginalCount"], 102);
    assert_eq!(made["metrics"]["eventCount"], shown.len());
    let sequences: Vec<Value> = (1..=shown.len()).map(|n| json!(n)).collect();
    assert_eq!(of(shown, "sequence"), sequences);
}

#[tokio::test]
async fn a_running_run_is_bundled_in_its_current_state() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let made = bundle(&host, &run, "").await;
    assert_eq!(
        (&made["run"]["status"], &made["events"]),
        (&json!("pending"), &json!([]))
    );
    let cancel = host
        .post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    assert_eq!(cancel.json()["status"], "cancelling");
    assert_eq!(bundle(&host, &run, "").await["run"]["status"], "running");
}

#[tokio::test]
async fn a_bundle_is_refused_like_its_run() {
    let host = TestHost::working(&says(&["a"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    let path = format!("/v1/runs/{run}/debug-bundle");
    for (path, key, status, code) in [
        (path.clone(), &host.other_key, 404, "not_found"),
        (
            "/v1/runs/run_absent/debug-bundle".to_owned(),
            &host.key,
            404,
            "not_found",
        ),
        (
            format!("{path}?maxEvents=-1"),
            &host.key,
            400,
            "validation_error",
        ),
        (
            format!("{path}?maxEvents=x"),
            &host.key,
            400,
            "validation_error",
        ),
        (
            format!("{path}?host.touchstone.maxEvents=x"),
            &host.key,
            400,
            "validation_error",
        ),
        (
            format!("{path}?maxEvents=x"),
            &host.other_key,
            404,
            "not_found",
        ),
    ] {
        let reply = host.request(Method::GET, &path).key(key).send().await;
        assert_eq!(reply.status.as_u16(), status, "{path}: {reply:?}");
        assert_eq!(reply.json()["error"], code, "{path}");
    }
}
