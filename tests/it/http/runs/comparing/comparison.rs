//! `GET /v1/host/touchstone/runs/{runId}/comparison`.

use axum::http::StatusCode;
use serde_json::{Value, json};
use touchstone_kit::ids::RunId;

use crate::http::support::host::{SUITE, TestHost, create_body, says, suite};

async fn ended(host: &TestHost, body: &Value) -> RunId {
    let created = host.post("/v1/runs", body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    let run = RunId::from(created.json()["runId"].as_str().unwrap());
    host.ended(&run).await;
    run
}

/// A run of another version of the suite.
async fn of_version(host: &TestHost, version: &str, inputs: &[Value]) -> RunId {
    let mut document = suite(inputs);
    document["version"] = json!(version);
    let imported = host.post("/v1/host/touchstone/suites", &document).await;
    assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
    let mut body = create_body();
    body["evalSuiteRef"] = json!(format!("{SUITE}@{version}"));
    ended(host, &body).await
}

fn path(candidate: &RunId, baseline: &str) -> String {
    format!("/v1/host/touchstone/runs/{candidate}/comparison?baseline={baseline}")
}

#[tokio::test]
async fn two_versions_of_a_suite_are_compared_on_their_common_tasks() {
    let host = TestHost::working(&says(&["a", "b", "unavailable"])).await;
    let before = ended(&host, &create_body()).await;
    // `wrong` is an input whose answer differs from the expectation: another task under the same
    // name.
    let after = of_version(&host, "1.1.0", &says(&["a", "wrong", "unavailable", "d"])).await;
    let found = host.get(&path(&after, before.as_str())).await;
    assert_eq!(found.status, StatusCode::OK, "{found:?}");
    let found = found.json();
    assert_eq!(found["nTasks"], 1);
    assert_eq!(
        found["leftOut"],
        json!([
            {"taskId": "task-1", "reason": "task_changed"},
            {"taskId": "task-2", "reason": "unjudged"},
            {"taskId": "task-3", "reason": "only_candidate"},
        ])
    );
    assert_eq!(found["differences"][0]["what"], "suiteVersion");
    assert_eq!(found["regression"]["verdict"], "inconclusive");
    // The link works.
    let diff = host.get(found["diffRef"].as_str().unwrap()).await;
    assert_eq!(diff.status, StatusCode::OK, "{diff:?}");
    assert_eq!(diff.json()["b"], json!(before));

    let strange = of_version(&host, "2.0.0", &says(&["x"])).await;
    let refused = host.get(&path(&strange, before.as_str())).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    assert_eq!(refused.json()["details"]["field"], "baseline");
    assert!(refused.text().contains("no task in common"), "{refused:?}");
}

#[tokio::test]
async fn a_trial_represents_its_experiment() {
    let host = TestHost::working(&says(&["a", "wrong"])).await;
    let alone = ended(&host, &create_body()).await;
    let mut trials = Vec::new();
    for index in 1..=2 {
        let mut body = create_body();
        body["configurable"] = json!({"trial": {"experimentId": "exp-1", "index": index, "of": 2}});
        trials.push(ended(&host, &body).await);
    }
    let found = host.get(&path(&trials[1], alone.as_str())).await.json();
    assert_eq!(found["candidate"]["runIds"], json!(trials));
    assert_eq!(found["baseline"]["runIds"], json!([alone]));
    assert_eq!(
        (&found["nTasks"], &found["mcnemarP"], &found["changes"]),
        (&json!(2), &Value::Null, &json!([]))
    );
    assert_eq!(
        found["differences"],
        json!([{"what": "trials", "baseline": 1, "candidate": 2}])
    );
    // Two tasks without a flip do not show that further tasks would not flip.
    assert_eq!(found["regression"]["verdict"], "inconclusive");
}

#[tokio::test]
async fn incomparable_runs_are_refused() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let (run, other) = (host.create().await, host.create().await);
    let refused = host.get(&path(&run, other.as_str())).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{refused:?}");
    for absent in ["run_absent", "no%20run"] {
        let refused = host.get(&path(&run, absent)).await;
        assert_eq!(refused.status, StatusCode::NOT_FOUND, "{refused:?}");
    }
    let refused = host.get(&path(&run, "")).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    assert_eq!(refused.json()["details"]["field"], "baseline");
}
