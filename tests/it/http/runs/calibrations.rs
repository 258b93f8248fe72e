//! Calibrating the judge against people: started by one request, read by others, with a budget.

use std::collections::HashSet;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::http::HttpSettings;

use crate::http::support::examiner::COST;
use crate::http::support::host::{Reply, TestHost};
use crate::store::Engine;

pub const PATH: &str = "/v1/host/touchstone/judge/calibrations";
const TONE: &str = "community.bench.evals.tone";

async fn host() -> TestHost {
    let host = TestHost::idle().await;
    let imported = host.post("/v1/host/touchstone/suites", &tone()).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    host
}

/// A suite with one criterion.
pub fn tone() -> Value {
    json!({"suiteId": TONE, "version": "1.0.0", "modes": ["golden", "rubric"], "tasks": [
        {"taskId": "task-0", "input": "Where is it?",
         "expected": {"kind": "rubric", "rubric": [{"criterion": "is polite", "weight": 1.0}]}}]})
}

/// Answers with their human scores.
pub fn scored(answers: &[(&str, f64)]) -> Value {
    let samples: Vec<Value> = (0..)
        .zip(answers)
        .map(|(n, (output, human))| json!({"item": format!("s-{n}"), "output": output, "human": [human]}))
        .collect();
    json!({"suite": format!("{TONE}@1.0.0"), "samples": samples, "allowFew": true})
}

/// This many samples that the judge recognizes, including one that contains `word`.
fn some(count: usize, word: &str) -> Value {
    let mut answers = [("Kindly.", 5.0), ("No.", 1.0)].repeat(count / 2);
    answers[0] = (word, 5.0);
    scored(&answers)
}

/// Waits for the result.
pub async fn ended(host: &TestHost, begun: &Reply) -> Value {
    assert_eq!(begun.status, StatusCode::ACCEPTED, "{begun:?}");
    let id = begun.json()["calibrationId"].as_str().unwrap().to_owned();
    loop {
        let attempt = host.get(&format!("{PATH}/{id}")).await.json();
        if attempt["status"] != "running" {
            return attempt;
        }
        crate::support::pause().await;
    }
}

/// The reasons in the newest audit entry.
async fn audited(host: &TestHost) -> (Value, Value) {
    let log = host.get("/v1/host/touchstone/audit").await.json();
    let entry = log["entries"].as_array().unwrap().last().unwrap()["entry"].clone();
    assert_eq!(entry["action"], "judge:calibrate", "{entry}");
    (entry["outcome"].clone(), entry["reasons"].clone())
}

#[tokio::test]
async fn calibration_calls_for_samples_of_one_task_have_distinct_names() {
    let host = host().await;
    let begun = host.post(PATH, &some(4, "Kindly.")).await;
    assert_eq!(ended(&host, &begun).await["status"], "completed");
    let names: HashSet<String> = host.examiner.names().into_iter().flatten().collect();
    assert_eq!((names.len(), host.examiner.asked()), (4, 4));
}

#[tokio::test]
async fn a_calibration_continues_after_the_response_and_can_be_read() {
    let host = host().await;
    let begun = host.post(PATH, &some(6, "Kindly, with patience")).await;
    let attempt = begun.json();
    assert_eq!(
        (&attempt["status"], &attempt["judged"]),
        (&json!("running"), &json!(0))
    );
    assert_eq!(
        (&attempt["samples"], &attempt["maxCostUsd"]),
        (&json!(6), &json!(5.0))
    );
    // A second calibration would replace the first one.
    let another = host.post(PATH, &some(6, "Kindly")).await;
    assert_eq!(another.status, StatusCode::CONFLICT, "{another:?}");

    host.examiner.go_on();
    let attempt = ended(&host, &begun).await;
    assert_eq!(
        (&attempt["status"], &attempt["judged"]),
        (&json!("completed"), &json!(6))
    );
    assert_eq!(attempt["calibration"]["spearman"], 1.0);
    assert_eq!(attempt["calibration"]["costUsd"], attempt["costUsd"]);
    let listed = host.get(PATH).await.json();
    assert_eq!(listed["calibrations"], json!([attempt["calibration"]]));
    let reasons = json!(["spearman 1.000000", "cost 0.060000 USD"]);
    assert_eq!(audited(&host).await, (json!("done"), reasons));
}

#[tokio::test]
async fn a_calibration_repeated_under_one_idempotency_key_runs_once() {
    let host = host().await;
    let body = some(6, "Kindly");
    let ask = || {
        let call = host.request(Method::POST, PATH);
        call.header("idempotency-key", "once").json(&body).send()
    };
    let (first, second) = tokio::join!(ask(), ask());
    assert_eq!(
        first.json()["calibrationId"],
        second.json()["calibrationId"]
    );
    ended(&host, &first).await;
    let third = ask().await;
    assert_eq!(third.header("openwop-idempotent-replay"), Some("true"));
    assert_eq!(first.json()["calibrationId"], third.json()["calibrationId"]);
    assert_eq!(host.examiner.asked(), 6);
}

#[tokio::test]
async fn a_calibration_stops_at_its_budget_and_reports_the_cost() {
    let host = host().await;
    let mut body = some(100, "Kindly");
    body["maxCostUsd"] = json!(COST * 10.0);
    let attempt = ended(&host, &host.post(PATH, &body).await).await;
    assert_eq!(attempt["status"], "failed", "{attempt}");
    assert_eq!(attempt["failure"]["details"]["field"], "maxCostUsd");
    assert_eq!(attempt["failure"]["details"]["reason"], "budget_exhausted");
    assert_eq!(
        (&attempt["judged"], &attempt["costUsd"]),
        (&json!(10), &json!(0.1))
    );
    assert_eq!(host.examiner.asked(), 10);
    let reasons = json!(["conflict (budget_exhausted)", "cost 0.100000 USD"]);
    assert_eq!(audited(&host).await, (json!("refused"), reasons));
    assert_eq!(host.get(PATH).await.json()["calibrations"], json!([]));
}

#[tokio::test]
async fn a_calibration_budget_above_the_hosts_limit_is_refused_before_any_call() {
    let host = host().await;
    let mut body = some(6, "Kindly");
    body["maxCostUsd"] = json!(26.0);
    let refused = host.post(PATH, &body).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    assert_eq!(refused.json()["details"]["field"], "maxCostUsd");
    assert_eq!(host.examiner.asked(), 0);
}

#[tokio::test]
async fn the_cost_of_a_judge_without_a_verdict_is_reported() {
    let host = host().await;
    let mut body = some(6, "Kindly");
    body["samples"][5]["output"] = json!("broken");
    let attempt = ended(&host, &host.post(PATH, &body).await).await;
    assert_eq!(attempt["failure"]["details"]["item"], "s-5");
    assert_eq!(attempt["failure"]["details"]["reason"], "judge_connect");
    let judged = attempt["judged"].as_f64().unwrap();
    let cost = attempt["costUsd"].as_f64().unwrap();
    assert!(
        judged > 0.0 && (cost - judged * COST).abs() < 1e-9,
        "{attempt}"
    );
    let (outcome, reasons) = audited(&host).await;
    assert_eq!(outcome, "refused");
    assert_eq!(reasons[1], format!("cost {cost:.6} USD"));
}

#[tokio::test]
async fn a_calibration_interrupted_by_shutdown_fails_as_unavailable() {
    let host = host().await;
    let begun = host.post(PATH, &some(6, "Kindly, with patience")).await;
    host.runs.stop_calibrating().await;
    let attempt = ended(&host, &begun).await;
    assert_eq!(attempt["failure"]["error"], "unavailable", "{attempt}");
}

/// The judge's answer could not be recorded then, but it would cost.
#[rstest]
#[tokio::test]
async fn no_judge_is_called_while_the_database_is_read_only(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let host = TestHost::over(database.open().await, HttpSettings::default()).await;
    let imported = host.post("/v1/host/touchstone/suites", &tone()).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    let answers = [
        ("Kindly, with patience", 5.0),
        ("No. It takes patience", 1.0),
    ];
    let begun = host.post(PATH, &scored(&answers.repeat(6))).await;
    assert_eq!(begun.status, StatusCode::ACCEPTED, "{begun:?}");
    // As many as the endpoint takes at once.
    while host.examiner.asked() < 4 {
        crate::support::pause().await;
    }
    database.fail_checks().await;
    host.store.report_outage();
    host.examiner.go_on();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(host.examiner.asked(), 4);
    database.pass_checks().await;
    while host.examiner.asked() < 12 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ended(&host, &begun).await["status"], "completed");
}
