//! Runs from creation to scorecard.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use touchstone_host::access::Scope;

use crate::http::support::host::{TestHost, create_body, says};

#[tokio::test]
async fn a_run_is_created_executed_and_summarized() {
    let host = TestHost::working(&says(&["a", "wrong", "c"])).await;
    let mut body = create_body();
    body["tags"] = json!(["nightly"]);
    body["metadata"] = json!({"ticket": "T-1"});
    let created = host.post("/v1/runs", &body).await;
    assert_eq!(created.status, StatusCode::CREATED);
    let created = created.json();
    let run = created["runId"].as_str().unwrap();
    assert_eq!(created["eventsUrl"], format!("/v1/runs/{run}/events"));

    let events = host.ended(&run.into()).await;
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        (kinds[0], kinds[kinds.len() - 1]),
        ("run.started", "run.completed")
    );
    let sequences: Vec<u64> = events
        .iter()
        .map(|event| event["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(sequences, (1..=events.len() as u64).collect::<Vec<_>>());

    let times: Vec<&str> = events
        .iter()
        .map(|event| event["timestamp"].as_str().unwrap())
        .collect();
    assert!(times.is_sorted(), "also as text: {times:?}");

    let snapshot = host
        .get(created["statusUrl"].as_str().unwrap())
        .await
        .json();
    assert_eq!(snapshot["status"], "completed");
    assert_eq!(snapshot["owner"], events[0]["payload"]["owner"]);
    assert_eq!(
        (&snapshot["tags"], &snapshot["metadata"]),
        (&body["tags"], &body["metadata"])
    );

    let summary = host.get(&format!("/v1/runs/{run}/eval-summary")).await;
    assert_eq!(
        summary.json(),
        events[events.len() - 1]["payload"]["outputs"]
    );
    assert_eq!(summary.json()["passedCount"], 2);
    let report = host
        .get(&format!("/v1/host/touchstone/runs/{run}/report"))
        .await
        .json();
    assert_eq!(report["suite"]["signed"], false);
    assert_eq!(report["summary"], summary.json());
}

#[tokio::test]
async fn a_summary_is_409_until_the_run_has_ended() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let path = format!("/v1/runs/{run}/eval-summary");
    assert_eq!(host.get(&path).await.status, StatusCode::CONFLICT);
    let report = host
        .get(&format!("/v1/host/touchstone/runs/{run}/report"))
        .await
        .json();
    assert_eq!(report["verdict"], "pending");
    host.work();
    host.ended(&run).await;
    assert_eq!(host.get(&path).await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_etag_of_a_snapshot_changes_only_with_its_content() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let path = format!("/v1/runs/{run}");
    let first = host.get(&path).await;
    let tag = first.header("etag").unwrap().to_owned();
    let read = async |tag: &str| {
        host.request(Method::GET, &path)
            .header("if-none-match", tag)
            .send()
            .await
    };
    assert_eq!(read(&tag).await.status, StatusCode::NOT_MODIFIED);
    assert_eq!(
        host.post(&format!("{path}/cancel"), &json!({}))
            .await
            .json()["status"],
        "cancelling"
    );
    let second = read(&tag).await;
    assert_eq!(
        (second.status, &second.json()["status"]),
        (StatusCode::OK, &json!("cancelling"))
    );
    host.work();
    host.ended(&run).await;
    let third = read(second.header("etag").unwrap()).await;
    assert_eq!(
        (third.status, &third.json()["status"]),
        (StatusCode::OK, &json!("cancelled"))
    );
}

#[tokio::test]
async fn cancelling_an_ended_run_changes_nothing() {
    let host = TestHost::working(&says(&["a"])).await;
    let run = host.create().await;
    let before = host.ended(&run).await;
    let reply = host
        .request(Method::POST, &format!("/v1/runs/{run}/cancel"))
        .send()
        .await;
    assert_eq!(
        (reply.status, &reply.json()["status"]),
        (StatusCode::OK, &json!("completed"))
    );
    assert_eq!(host.ended(&run).await, before);
}

#[tokio::test]
async fn a_bulk_cancel_answers_for_each_id_in_order() {
    let host = TestHost::working(&[json!({"say": "a", "delayMs": 30_000})]).await;
    let run = host.create().await;
    let body = json!({"runIds": [run, "run_absent", "not/an/id"], "reason": "test"});
    let results = host.post("/v1/runs:bulk-cancel", &body).await.json();
    let results = results["results"].as_array().unwrap();
    let ids: Vec<&Value> = results.iter().map(|result| &result["runId"]).collect();
    assert_eq!(
        ids,
        body["runIds"]
            .as_array()
            .unwrap()
            .iter()
            .collect::<Vec<_>>()
    );
    assert_eq!(results[0]["ok"], true);
    assert_eq!(results[1]["error"]["code"], "not_found");
    let events = host.ended(&run).await;
    assert_eq!(events[events.len() - 1]["type"], "run.cancelled");
    let again = host
        .post("/v1/runs%3Abulk-cancel", &json!({"runIds": [run]}))
        .await;
    assert_eq!(again.json()["results"][0]["ok"], true);
}

#[tokio::test]
async fn a_retry_reuses_what_was_judged() {
    let host = TestHost::working(&says(&["a", "unavailable"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    let report = host
        .get(&format!("/v1/host/touchstone/runs/{run}/report"))
        .await
        .json();
    assert_eq!(report["verdict"], "inconclusive");
    for path in [
        format!("/v1/host/touchstone/runs/{run}:retry"),
        format!("/v1/host/touchstone/runs/{run}%3Aretry"),
    ] {
        let retried = host.request(Method::POST, &path).send().await;
        assert_eq!(retried.status, StatusCode::CREATED, "{retried:?}");
        let second = retried.json()["runId"].as_str().unwrap().to_owned();
        host.ended(&second.as_str().into()).await;
        let report = host
            .get(&format!("/v1/host/touchstone/runs/{second}/report"))
            .await
            .json();
        assert_eq!(report["retryOf"], json!(run));
    }
    let refused = host
        .post(
            &format!("/v1/host/touchstone/runs/{run}:retry"),
            &json!({"x": 1}),
        )
        .await;
    assert_eq!(refused.code(), "validation_error");
}

#[tokio::test]
async fn failures_that_the_agent_can_cause_are_not_retried_until_they_pass() {
    let host = TestHost::working(&says(&["a", "fault:status_400", "fault:connect"])).await;
    let first = host.create().await.to_string();
    host.ended(&first.as_str().into()).await;
    let report = async |run: &str| {
        let path = format!("/v1/host/touchstone/runs/{run}/report");
        host.get(&path).await.json()
    };
    let retry = async |run: &str| {
        let path = format!("/v1/host/touchstone/runs/{run}:retry");
        let created = host.post(&path, &json!({})).await.json();
        let retry = created["runId"].as_str().unwrap().to_owned();
        host.ended(&retry.as_str().into()).await;
        retry
    };
    let outcome = |report: &Value, task: usize| report["tasks"][task]["outcome"].clone();
    let of_first = report(&first).await;
    assert_eq!(of_first.get("retries"), None);
    assert_eq!(outcome(&of_first, 1), "unjudged");

    let second = retry(&first).await;
    let of_second = report(&second).await;
    assert_eq!(of_second["retries"], 1);
    assert_eq!(outcome(&of_second, 1), "unjudged");

    // Retrying the first run again, or a replay of it, does not restart the count.
    let fork = json!({"mode": "replay", "fromSeq": 0});
    let replay = host
        .post(&format!("/v1/runs/{first}:fork"), &fork)
        .await
        .json();
    let replay = replay["runId"].as_str().unwrap().to_owned();
    host.ended(&replay.as_str().into()).await;
    for (number, source) in [(2, &first), (3, &replay), (4, &second)] {
        let of_retry = report(&retry(source).await).await;
        assert_eq!(of_retry["retries"], number, "{of_retry}");
        assert_eq!(outcome(&of_retry, 1), "failed", "{of_retry}");
        assert_eq!(of_retry["tasks"][1]["reason"], "status_400");
        assert_eq!(outcome(&of_retry, 2), "unjudged", "an outage stays one");
    }
}

#[tokio::test]
async fn a_retry_with_nothing_left_to_judge_is_409() {
    let host = TestHost::working(&says(&["a"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    let reply = host
        .post(&format!("/v1/host/touchstone/runs/{run}:retry"), &json!({}))
        .await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::CONFLICT, "conflict".to_owned())
    );
}

#[tokio::test]
async fn task_content_is_in_no_summary_report_or_metric() {
    let host = TestHost::working(&says(&["canary-output", "wrong"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    for path in [
        format!("/v1/runs/{run}"),
        format!("/v1/runs/{run}/eval-summary"),
        format!("/v1/host/touchstone/runs/{run}/report"),
        "/v1/agents".to_owned(),
        "/v1/host/touchstone/suites".to_owned(),
        "/v1/host/touchstone/packs".to_owned(),
        "/metrics".to_owned(),
    ] {
        let text = host.get(&path).await.text();
        assert!(!text.contains("canary"), "{path}: {text}");
        assert!(!text.contains("something else"), "{path}: {text}");
    }
}

#[tokio::test]
async fn an_engine_version_is_forced_with_test_keys_only() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let test = host
        .issue(|issue| {
            issue.scopes = Scope::ALL.to_vec();
            issue.test = true;
        })
        .await;
    let create = async |key: Option<&str>, version: &str| {
        let call = host.request(Method::POST, "/v1/runs");
        let call = match key {
            Some(key) => call.key(key),
            None => call,
        };
        let call = call.header("x-force-engine-version", version);
        call.json(&create_body()).send().await
    };
    let live = create(None, "1").await;
    assert_eq!(live.status, StatusCode::FORBIDDEN);
    assert_eq!(live.code(), "force_engine_version_forbidden");
    assert_eq!(create(Some(&test), "1").await.status, StatusCode::CREATED);
    let other = create(Some(&test), "2").await;
    assert_eq!(other.status, StatusCode::BAD_REQUEST);
    assert_eq!(other.json()["details"]["field"], "X-Force-Engine-Version");
}
