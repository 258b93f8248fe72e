//! `GET` and `POST /v1/runs/{runId}/annotations`, and the live message.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_kit::ids::RunId;
use touchstone_runs::store as run_store;

use crate::http::support::host::{Reply, TestHost, says};
use crate::http::support::recorder::{Recorder, cancelled, step};
use crate::http::support::sse::Frames;

async fn annotate(host: &TestHost, run: &RunId, body: &Value) -> Reply {
    host.post(&format!("/v1/runs/{run}/annotations"), body)
        .await
}

async fn listed(host: &TestHost, run: &RunId) -> Vec<Value> {
    let reply = host.get(&format!("/v1/runs/{run}/annotations")).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    reply.json()["annotations"].as_array().unwrap().clone()
}

#[tokio::test]
async fn annotations_are_listed_as_created_and_appear_nowhere_else() {
    let host = TestHost::working(&says(&["a"])).await;
    let (run, other) = (host.create().await, host.create().await);
    let log = host.ended(&run).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    let mut made = Vec::new();
    for signal in [
        json!({"kind": "rating", "rating": 5}),
        json!({"kind": "label", "label": "good"}),
        json!({"kind": "flag"}),
        json!({"kind": "correction", "correction": "30 days"}),
    ] {
        let reply = annotate(&host, &run, &json!({"signal": signal, "note": "checked"})).await;
        assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
        let annotation = reply.json();
        assert_eq!(
            (&annotation["signal"], &annotation["target"]),
            (&signal, &json!({"runId": run}))
        );
        assert_eq!(
            annotation["actor"]["principalRef"],
            snapshot["owner"]["principal"]
        );
        made.push(annotation);
    }
    assert_eq!(listed(&host, &run).await, made);
    assert_eq!(listed(&host, &other).await, Vec::<Value>::new());
    assert_eq!(host.ended(&run).await, log);
    assert_eq!(host.get(&format!("/v1/runs/{run}")).await.json(), snapshot);
    // A fork starts without annotations.
    let fork = host
        .post(&format!("/v1/runs/{run}:fork"), &json!({"mode": "replay"}))
        .await
        .json();
    assert_eq!(
        listed(&host, &fork["runId"].as_str().unwrap().into()).await,
        Vec::<Value>::new()
    );
    // Each annotation is audited.
    let entries = host
        .store
        .audit_entries(&"acme".into(), 0, 100)
        .await
        .unwrap();
    let audited = entries
        .iter()
        .filter(|entry| entry.body.contains("runs:annotate"))
        .count();
    assert_eq!(audited, 4);
}

#[tokio::test]
async fn a_correction_of_a_score_is_shown_beside_it_and_changes_nothing() {
    let host = TestHost::working(&says(&["a", "wrong"])).await;
    let run = host.create().await;
    let log = host.ended(&run).await;
    let report_path = format!("/v1/host/touchstone/runs/{run}/report");
    let summary_path = format!("/v1/runs/{run}/eval-summary");
    let (report, summary) = (
        host.get(&report_path).await.json(),
        host.get(&summary_path).await.json(),
    );
    let scored = log
        .iter()
        .find(|event| event["type"] == "eval.scored" && event["nodeId"] == "task-1")
        .unwrap();
    let target = json!({"eventId": scored["eventId"]});
    let by_event = annotate(
        &host,
        &run,
        &json!({"target": target, "signal": {"kind": "correction", "correction": "right"}}),
    )
    .await;
    assert_eq!(by_event.json()["target"]["eventId"], scored["eventId"]);
    let by_node = annotate(
        &host,
        &run,
        &json!({"target": {"nodeId": "task-0"}, "signal": {"kind": "rating", "rating": 2}}),
    )
    .await;
    let of_run = annotate(&host, &run, &json!({"signal": {"kind": "flag"}})).await;
    assert_eq!(
        (by_node.status, of_run.status),
        (StatusCode::CREATED, StatusCode::CREATED)
    );

    let after = host.get(&report_path).await.json();
    assert_eq!(after["tasks"][1]["annotations"], json!([by_event.json()]));
    assert_eq!(after["tasks"][0]["annotations"], json!([by_node.json()]));
    for member in ["verdict", "reasons", "summary"] {
        assert_eq!(after[member], report[member], "{member}");
    }
    assert_eq!(after["tasks"][1]["outcome"], "failed");
    assert!(
        after["notes"].to_string().contains("annotated 2 tasks;"),
        "{}",
        after["notes"]
    );
    assert_eq!(host.get(&summary_path).await.json(), summary);
    assert_eq!(host.ended(&run).await, log);
}

#[rstest]
#[case(json!({}), "signal")]
#[case(json!({"signal": {"kind": "rating"}}), "signal.rating")]
#[case(json!({"signal": {"kind": "flag"}, "actor": {"principalRef": "me"}}), "actor")]
#[case(json!({"signal": {"kind": "flag"}, "target": {"eventId": "evt_absent_1"}}), "target.eventId")]
#[case(json!({"signal": {"kind": "flag"}, "target": {"eventId": "nothing"}}), "target.eventId")]
#[case(json!({"signal": {"kind": "flag"}, "target": {"nodeId": "task-9"}}), "target.nodeId")]
#[tokio::test]
async fn invalid_annotations_are_refused_by_field_and_not_stored(
    #[case] body: Value,
    #[case] field: &str,
) {
    let host = TestHost::working(&says(&["a"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    let reply = annotate(&host, &run, &body).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (StatusCode::BAD_REQUEST, "validation_error")
    );
    assert_eq!(reply.json()["details"]["field"], field);
    assert_eq!(listed(&host, &run).await, Vec::<Value>::new());
}

#[tokio::test]
async fn an_event_and_a_node_that_do_not_belong_together_are_refused() {
    let host = TestHost::working(&says(&["a", "b"])).await;
    let run = host.create().await;
    let log = host.ended(&run).await;
    let scored = log.iter().find(|event| event["type"] == "eval.scored");
    let scored = scored.unwrap();
    for (node, expected) in [
        ("task-0", scored["nodeId"] == "task-0"),
        ("task-1", scored["nodeId"] == "task-1"),
    ] {
        let target = json!({"eventId": scored["eventId"], "nodeId": node});
        let body = json!({"signal": {"kind": "flag"}, "target": target});
        let reply = annotate(&host, &run, &body).await;
        assert_eq!(reply.status == StatusCode::CREATED, expected, "{reply:?}");
        if !expected {
            assert_eq!(reply.json()["details"]["field"], "target.nodeId");
        }
    }
}

#[tokio::test]
async fn credentials_in_annotations_are_masked_everywhere() {
    let host = TestHost::working(&says(&["a"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    let canaries = [
        "sk-canary0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_0123456789abcdef0123456789abcdef0123",
    ];
    for canary in canaries {
        let body = json!({"target": {"nodeId": "task-0"}, "note": format!("key {canary}"),
            "signal": {"kind": "correction", "correction": format!("use {canary} instead")}});
        let made = annotate(&host, &run, &body).await;
        assert_eq!(made.status, StatusCode::CREATED);
        let report = host
            .get(&format!("/v1/host/touchstone/runs/{run}/report"))
            .await;
        let list = host.get(&format!("/v1/runs/{run}/annotations")).await;
        for text in [made.text(), report.text(), list.text()] {
            assert!(!text.contains(canary), "{text}");
            assert!(text.contains("[REDACTED:"), "{text}");
        }
    }
    let kept = run_store::annotations::list(&host.store, &run, 0)
        .await
        .unwrap();
    assert!(
        canaries
            .iter()
            .all(|canary| !format!("{kept:?}").contains(canary))
    );
}

#[tokio::test]
async fn another_tenants_run_is_not_found() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let path = format!("/v1/runs/{run}/annotations");
    for method in [Method::GET, Method::POST] {
        let call = host.request(method, &path).key(&host.other_key);
        let reply = call.json(&json!({"signal": {"kind": "flag"}})).send().await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (StatusCode::NOT_FOUND, "not_found")
        );
    }
    assert_eq!(listed(&host, &run).await, Vec::<Value>::new());
}

#[tokio::test]
async fn one_key_records_one_annotation() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let path = format!("/v1/runs/{run}/annotations");
    let send = async || {
        let call = host
            .request(Method::POST, &path)
            .header("idempotency-key", "said-once");
        call.json(&json!({"signal": {"kind": "flag"}})).send().await
    };
    let (first, again) = (send().await, send().await);
    assert_eq!(
        (first.status, first.json()),
        (StatusCode::CREATED, again.json())
    );
    assert_eq!(listed(&host, &run).await, [first.json()]);
}

#[rstest]
#[case("", true)]
#[case("streamMode=debug", true)]
#[case("streamMode=updates,messages&bufferMs=20", true)]
#[case("streamMode=messages", false)]
#[tokio::test]
async fn watchers_get_annotations_at_once_and_lose_no_event(
    #[case] query: &str,
    #[case] told: bool,
) {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let mut recorder = Recorder::log_of(&host, 5, false).await;
    let run = recorder.run.clone();
    let earlier = annotate(&host, &run, &json!({"signal": {"kind": "flag"}})).await;
    assert_eq!(earlier.status, StatusCode::CREATED);
    let call = host.request(Method::GET, &format!("/v1/runs/{run}/events?{query}"));
    let mut frames = Frames::of(call.open().await);
    let mut seen = Vec::new();
    if told {
        // The backlog is complete: the stream is live.
        seen.push(frames.next().await.unwrap());
    }
    let made = annotate(
        &host,
        &run,
        &json!({"signal": {"kind": "rating", "rating": 3}}),
    )
    .await
    .json();
    let mut noted = Vec::new();
    while told && noted.is_empty() {
        let frame = frames.next().await.unwrap();
        let documents = match frame.data.as_array() {
            Some(batch) => batch.clone(),
            None => vec![frame.data.clone()],
        };
        noted.extend(
            documents
                .into_iter()
                .filter(|document| document["type"] == "run.annotated"),
        );
        seen.push(frame);
    }
    if told {
        assert_eq!(noted[0]["payload"], made);
        for field in ["eventId", "runId", "timestamp", "sequence"] {
            assert!(!noted[0][field].is_null(), "{field}");
        }
        assert_eq!(seen.last().unwrap().id, "5");
    }
    recorder.append(vec![step(6), step(7), cancelled()]).await;
    seen.extend(frames.rest().await);
    let debug = query.contains("debug");
    let log: Vec<u64> = seen
        .iter()
        .flat_map(|frame| match frame.data.as_array() {
            Some(batch) => batch.clone(),
            None => vec![frame.data.clone()],
        })
        .filter(|document| document["type"] != "run.annotated")
        .map(|document| document["sequence"].as_u64().unwrap())
        .collect();
    let expected: &[u64] = match (debug, told) {
        (true, _) => &[1, 2, 3, 4, 5, 6, 7, 8],
        (false, true) => &[1, 3, 6, 8],
        (false, false) => &[],
    };
    assert_eq!(log, expected);
}

#[tokio::test]
async fn annotations_per_run_are_limited() {
    let host = TestHost::working(&says(&["a"])).await;
    let run = host.create().await;
    host.ended(&run).await;
    let long = json!({"signal": {"kind": "correction", "correction": "🦀".repeat(8_192)}});
    let mut recorded = 0;
    let refused = loop {
        let reply = annotate(&host, &run, &long).await;
        if reply.status != StatusCode::CREATED {
            break reply;
        }
        recorded += 1;
    };
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (StatusCode::CONFLICT, "conflict")
    );
    assert_eq!(refused.json()["details"]["maxAnnotationOctets"], 1_000_000);
    assert_eq!(recorded, 30);
    let short = annotate(&host, &run, &json!({"signal": {"kind": "flag"}})).await;
    assert_eq!(short.status, StatusCode::CREATED, "{short:?}");
    assert_eq!(listed(&host, &run).await.len(), recorded + 1);
}
