//! `Idempotency-Key` under both majors.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::ports::idempotency::{IdempotencyBegin, IdempotencyClaim};
use touchstone_kit::json::canonical_text;

use crate::http::majors::{VERSION, both, with_ended_run, with_run};
use crate::http::support::host::{Reply, TestHost};

const REPLAYED: &str = "openwop-idempotent-replay";
const KEY: &str = "0123456789abcdef-major-2";

/// Sends a request with [`KEY`] under a major; the path is the one without `/v1`.
async fn send(host: &TestHost, version: &str, path: &str, body: &Value) -> Reply {
    let path = match version {
        "1.0" => format!("/v1{path}"),
        _ => path.to_owned(),
    };
    let call = host.request(Method::POST, &path).header(VERSION, version);
    call.header("idempotency-key", KEY).json(body).send().await
}

fn is_replay(reply: &Reply) -> bool {
    reply.header(REPLAYED) == Some("true")
}

#[tokio::test]
async fn a_key_counts_under_both_majors_and_the_answer_has_the_form_of_each() {
    for (first, second) in [("1.0", "2.0"), ("2.0", "1.0")] {
        let host = both().await;
        let body = json!({"workflowId": "conformance-noop"});
        let made = send(&host, first, "/runs", &body).await;
        assert_eq!((made.status.as_u16(), is_replay(&made)), (201, false));
        let again = send(&host, second, "/runs", &body).await;
        assert_eq!((again.status.as_u16(), is_replay(&again)), (201, true));
        let (of_v1, of_v2) = match first {
            "1.0" => (made, again),
            _ => (again, made),
        };
        let run = of_v1.json()["runId"].as_str().unwrap().to_owned();
        assert_eq!(of_v2.json()["runId"], format!("acme/{run}"));
        assert_eq!(host.recorded().await.len(), 1);
    }
}

#[tokio::test]
async fn a_final_refusal_of_major_2_is_repeated() {
    let (host, run) = with_ended_run().await;
    let path = format!("/runs/{run}:pause");
    let refused = send(&host, "2.0", &path, &json!({})).await;
    let found = (refused.status.as_u16(), refused.code(), is_replay(&refused));
    assert_eq!(found, (409, "run_terminal".to_owned(), false));
    let again = send(&host, "2.0", &path, &json!({})).await;
    assert_eq!(
        (again.status, again.json()),
        (refused.status, refused.json())
    );
    assert!(is_replay(&again));
    // It is the first answer under major 1 too, in its form.
    let of_v1 = send(&host, "1.0", &path, &json!({})).await;
    let found = (of_v1.status.as_u16(), of_v1.code(), is_replay(&of_v1));
    assert_eq!(found, (409, "conflict".to_owned(), true));
    let other = send(&host, "2.0", &path, &json!({"reason": "x"})).await;
    assert_eq!(other.code(), "idempotency_key_mismatch");
}

#[tokio::test]
async fn a_refusal_is_repeated_although_the_run_has_changed() {
    let (host, run) = with_run().await;
    let path = format!("/runs/{run}:resume");
    let refused = send(&host, "2.0", &path, &json!({})).await;
    assert_eq!(refused.code(), "run_state_conflict");
    assert_eq!(refused.json()["details"]["runStatus"], "pending");
    host.work();
    host.ended(&run).await;
    let again = send(&host, "2.0", &path, &json!({})).await;
    assert_eq!((again.json(), is_replay(&again)), (refused.json(), true));
}

#[tokio::test]
async fn major_1_repeats_no_refusal() {
    let (host, run) = with_run().await;
    let path = format!("/runs/{run}:resume");
    let refused = send(&host, "1.0", &path, &json!({})).await;
    assert_eq!((refused.status.as_u16(), is_replay(&refused)), (409, false));
    let again = send(&host, "2.0", &path, &json!({})).await;
    assert_eq!(
        (again.code(), is_replay(&again)),
        ("run_state_conflict".to_owned(), false)
    );
}

#[tokio::test]
async fn an_invalid_request_can_be_corrected_under_its_key() {
    let host = both().await;
    for invalid in [
        json!({"bogus": 1}),
        json!({"workflowId": "no-such-workflow"}),
    ] {
        let refused = send(&host, "2.0", "/runs", &invalid).await;
        assert_eq!(refused.code(), "validation_error", "{invalid}");
    }
    let made = send(
        &host,
        "2.0",
        "/runs",
        &json!({"workflowId": "conformance-noop"}),
    )
    .await;
    assert_eq!((made.status.as_u16(), is_replay(&made)), (201, false));
}

#[tokio::test]
async fn a_twin_of_a_request_in_progress_is_told_when_to_come_back() {
    let host = both().await;
    let body = json!({"runIds": ["acme/run-0123456789abcdef"]});
    let inner = json!({"protocolVersion": "2.0", "body": {"runIds": ["run-0123456789abcdef"]}});
    let claim = IdempotencyClaim {
        tenant: "acme".into(),
        endpoint: "POST /v1/runs:bulk-cancel".to_owned(),
        key_hash: Sha256::digest(KEY).into(),
        digest: Sha256::digest(canonical_text(&inner)).into(),
        owner: "another".to_owned(),
    };
    let begun = host
        .store
        .begin(&claim, host.clock.now(), Duration::from_secs(20));
    assert_eq!(begun.await.unwrap(), IdempotencyBegin::Fresh);
    let twin = send(&host, "2.0", "/runs:bulk-cancel", &body).await;
    let found = (twin.status.as_u16(), twin.code());
    assert_eq!(found, (409, "idempotency_in_flight".to_owned()));
    let wait: u64 = twin.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=20).contains(&wait));
    assert_eq!(twin.json().get("details"), None);
    host.store.abandon(&claim).await.unwrap();
    let alone = send(&host, "2.0", "/runs:bulk-cancel", &body).await;
    assert_eq!(alone.status.as_u16(), 200, "{alone:?}");
}

#[tokio::test]
async fn reads_ignore_a_key() {
    let (host, run) = with_run().await;
    let call = host.request(Method::GET, &format!("/runs/{run}"));
    let call = call.header(VERSION, "2.0").header("idempotency-key", "x");
    assert_eq!(call.send().await.status.as_u16(), 200);
}
