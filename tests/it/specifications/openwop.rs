//! The suite, the run, the events, the summary and the capability of RFC 0081.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use touchstone::kinds::KINDS;
use touchstone_kit::ids::RunId;
use touchstone_runs::rules::eval::suite_rules::read_suite;

use super::template::{faults, strangers};
use super::{document, printed, text, with_ids};
use crate::http::support::host::{Reply, TestHost, archive_of};

const AGENT: &str = "core.openwop.agents.support-resolver";
const SUITE: &str = "core.openwop.evals.support-resolver";

fn format(name: &str) -> Value {
    document(&printed("openwop/formats.json"))[name].clone()
}

fn assert_of(name: &str, own: &Value) {
    let found = faults(&format(name), own);
    assert!(found.is_empty(), "{name}: {found:?} in {own:#}");
}

/// A host with the printed agent and the printed suite. Version 1.1.0 of the suite has twelve
/// golden tasks in addition to the printed one.
async fn host() -> TestHost {
    let host = TestHost::idle().await;
    let manifest = json!({
        "name": "core.openwop.agents", "version": "1.0.0", "description": "An agent.", "author": "Bench",
        "license": "0BSD", "engines": {"openwop": ">=1.0.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": "pack.json"},
        "agents": [{"agentId": AGENT, "persona": "Agent", "modelClass": "general", "systemPrompt": "Work.",
            "toolAllowlist": []}],
    });
    host.install_pack(&archive_of(&manifest)).await;
    let as_printed = printed("openwop/suite.json");
    let call = host.request(Method::POST, "/v1/host/touchstone/suites");
    let imported = call.raw("application/json", as_printed.clone()).send();
    let imported = imported.await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    let mut golden = document(&as_printed);
    golden["version"] = json!("1.1.0");
    for n in 0..12 {
        let task = json!({"taskId": format!("q-{n}"), "input": {"say": "yes"},
            "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "yes"}}});
        golden["tasks"].as_array_mut().unwrap().push(task);
    }
    let imported = host.post("/v1/host/touchstone/suites", &golden).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    host.work();
    host
}

/// The printed request with its dots filled in.
fn request() -> String {
    let suite = format!("\"evalSuiteRef\": \"{SUITE}@1.1.0\"");
    let agent = format!("\"agentId\": \"{AGENT}\"");
    let dots = [
        ("\"evalSuiteRef\": \"...\"", suite.as_str()),
        ("\"agentId\": \"...\"", agent.as_str()),
    ];
    with_ids("openwop/run.request.json", &dots)
}

async fn ask(host: &TestHost, body: String) -> Reply {
    let call = host.request(Method::POST, "/v1/runs");
    call.raw("application/json", body).send().await
}

async fn run(host: &TestHost, body: String) -> (RunId, Vec<Value>, Value) {
    let created = ask(host, body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    let run: RunId = text(&created.json()["runId"]).as_str().into();
    let log = host.ended(&run).await;
    let summary = host.get(&format!("/v1/runs/{run}/eval-summary")).await;
    assert_eq!(summary.status, StatusCode::OK, "{summary:?}");
    (run, log, summary.json())
}

fn payloads<'a>(log: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let of_kind = log.iter().filter(|event| event["type"] == kind);
    of_kind.map(|event| &event["payload"]).collect()
}

#[test]
fn the_printed_suite_is_valid_and_the_printed_error_is_found() {
    let suite = printed("openwop/suite.json");
    let read = read_suite(KINDS, suite.as_bytes()).unwrap().suite;
    assert_eq!(read.reference(), format!("{SUITE}@1.0.0"));
    let mut wrong = document(&suite);
    wrong["thresholds"]["passScore"] = json!(1.5);
    let faults = read_suite(KINDS, wrong.to_string().as_bytes()).unwrap_err();
    assert_eq!(faults[0].pointer, "/thresholds/passScore");
}

#[tokio::test]
async fn the_printed_run_emits_the_printed_events_and_ends_with_the_printed_summary() {
    let host = host().await;
    let (baseline, log, summary) = run(&host, request()).await;
    let kinds: Vec<&str> = log
        .iter()
        .filter_map(|event| event["type"].as_str())
        .filter(|kind| kind.starts_with("eval.") || *kind == "run.completed")
        .collect();
    let scored = ["eval.scored"; 12];
    let expected = [
        &["eval.started"][..],
        &scored[..],
        &["eval.completed", "run.completed"][..],
    ];
    assert_eq!(kinds, expected.concat());
    for kind in ["eval.started", "eval.scored", "eval.completed"] {
        for payload in payloads(&log, kind) {
            assert_of(kind, payload);
            let more = strangers(&format(kind), payload);
            assert!(
                more.is_empty(),
                "{kind} has the additional members {more:?}"
            );
        }
    }
    assert_eq!(payloads(&log, "eval.started")[0]["taskCount"], 12);
    assert_of("summary", &summary);
    assert_eq!(log[log.len() - 1]["payload"]["outputs"], summary);

    let mut body = document(&request());
    body["configurable"] =
        json!({"evalModes": ["golden", "regression"], "baselineRunId": baseline});
    let (_, log, summary) = run(&host, body.to_string()).await;
    assert_of("eval.started", payloads(&log, "eval.started")[0]);
    let started = payloads(&log, "eval.started")[0];
    assert_eq!(started["baselineRunId"], json!(baseline));
    let completed = payloads(&log, "eval.completed")[0];
    assert_of("eval.completed", completed);
    assert_eq!(completed["regressionVsBaseline"].as_f64(), Some(0.0));
    assert_of("summary", &summary);
    assert_eq!(summary["regression"]["scoreDelta"].as_f64(), Some(0.0));
}

#[tokio::test]
async fn a_mode_that_is_not_advertised_is_refused_as_printed() {
    let host = host().await;
    let document_of_host = host.get("/.well-known/openwop").await.json();
    let capability = &document_of_host["agents"]["evalSuite"];
    assert_of("capability", capability);
    let mut suite = document(&printed("openwop/suite.json"));
    suite["version"] = json!("1.2.0");
    suite["modes"] = json!(["live-shadow"]);
    let imported = host.post("/v1/host/touchstone/suites", &suite).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    let modes = capability["modes"].as_array().unwrap();
    assert!(!modes.contains(&json!("live-shadow")));
    let mut body = document(&request());
    body["evalSuiteRef"] = json!(format!("{SUITE}@1.2.0"));
    body["configurable"]["evalModes"] = json!(["live-shadow"]);
    let refused = ask(&host, body.to_string()).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (StatusCode::BAD_REQUEST, "validation_error")
    );
}
