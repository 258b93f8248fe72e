//! `GET /v1/runs/{runId}:diff`.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use touchstone_kit::ids::RunId;

use crate::http::support::host::{TestHost, says};
use crate::http::support::recorder::Recorder;

async fn diff(host: &TestHost, a: &RunId, b: &RunId) -> Value {
    let reply = host.get(&format!("/v1/runs/{a}:diff?against={b}")).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    reply.json()
}

#[tokio::test]
async fn a_run_does_not_differ_from_itself() {
    let host = TestHost::working(&says(&["a"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    let expected =
        json!({"a": run, "b": run, "divergedAtSeq": null, "eventDiffs": [], "stateDiff": {}});
    assert_eq!(diff(&host, &run, &run).await, expected);
}

#[tokio::test]
async fn a_diff_of_two_runs_starts_where_their_logs_diverge() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let short = Recorder::log_of(&host, 600, true).await.run;
    let long = Recorder::log_of(&host, 1300, true).await.run;
    let there = diff(&host, &short, &long).await;
    // Event 600 ends one run and is a step of the other; all earlier events are equal except for
    // ids and times.
    assert_eq!(there["divergedAtSeq"], 600);
    let diffs = there["eventDiffs"].as_array().unwrap();
    let seqs: Vec<u64> = diffs.iter().map(|d| d["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (600..=1300).collect::<Vec<_>>());
    assert_eq!(
        (&diffs[0]["op"], &diffs[1]["op"]),
        (&json!("changed"), &json!("added"))
    );
    assert_eq!(diffs[0]["aEvent"]["type"], "run.cancelled");
    assert!(there.get("truncated").is_none());
    assert_eq!(
        diff(&host, &short, &long).await,
        there,
        "the result depends only on the logs"
    );
    let back = diff(&host, &long, &short).await;
    assert_eq!(
        (&back["divergedAtSeq"], &back["eventDiffs"][1]["op"]),
        (&json!(600), &json!("removed"))
    );
}

#[tokio::test]
async fn a_running_run_is_compared_up_to_its_last_event() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let ended = Recorder::log_of(&host, 20, true).await.run;
    let going = Recorder::log_of(&host, 10, false).await.run;
    let found = diff(&host, &ended, &going).await;
    assert_eq!(
        (&found["truncated"], &found["divergedAtSeq"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(
        found["stateDiff"],
        json!({"status": {"a": "cancelled", "b": "running"}})
    );
    let pending = host.create().await;
    assert_eq!(diff(&host, &pending, &ended).await["eventDiffs"], json!([]));
}

#[tokio::test]
async fn a_diff_needs_two_runs_of_the_tenant() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    for query in ["", "?against=", "?other=1"] {
        let reply = host.get(&format!("/v1/runs/{run}:diff{query}")).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (StatusCode::BAD_REQUEST, "validation_error")
        );
        assert_eq!(reply.json()["details"]["field"], "against");
    }
    let unknown = host
        .get(&format!("/v1/runs/{run}:diff?against=run_absent"))
        .await;
    for (a, b) in [(run.as_str(), "%2e%2e"), ("run_absent", run.as_str())] {
        let reply = host.get(&format!("/v1/runs/{a}:diff?against={b}")).await;
        assert_eq!(
            (reply.status, reply.body),
            (StatusCode::NOT_FOUND, unknown.body.clone())
        );
    }
    // Runs of another tenant do not exist for this one, on either side.
    for path in [
        format!("/v1/runs/{run}:diff?against={run}"),
        format!("/v1/runs/{run}%3Adiff?against={run}"),
    ] {
        let reply = host
            .request(Method::GET, &path)
            .key(&host.other_key)
            .send()
            .await;
        assert_eq!(
            (reply.status, reply.body),
            (StatusCode::NOT_FOUND, unknown.body.clone())
        );
    }
}
