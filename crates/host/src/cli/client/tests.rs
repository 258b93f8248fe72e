//! The client against a router that misbehaves on purpose.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use futures_util::TryStreamExt;
use rstest::rstest;
use serde_json::json;

use crate::cli::client::*;
use crate::cli::exit::Exit;

fn client(router: Router) -> Client {
    let mut client = Client::new(Embedded::new(router, &"tsk_test".to_owned().into()).unwrap());
    client.reconnect_after = Duration::ZERO;
    client
}

fn frame(sequence: u64, kind: &str) -> String {
    let document = json!({"sequence": sequence, "type": kind});
    format!("id: {sequence}\nevent: {kind}\ndata: {document}\n\n")
}

#[tokio::test]
async fn requests_carry_the_key_and_error_envelopes_become_failures() {
    let router = Router::new().route(
        "/v1/thing",
        get(|headers: HeaderMap| async move {
            assert_eq!(headers["authorization"], "Bearer tsk_test");
            (
                StatusCode::CONFLICT,
                r#"{"error":"conflict","message":"not now"}"#,
            )
        }),
    );
    let failure = client(router).get::<Value>("/v1/thing").await.unwrap_err();
    assert_eq!(
        (failure.exit, &*failure.code, &*failure.message),
        (Exit::BadInput, "conflict", "not now")
    );
}

#[rstest]
#[case::from_1(1)]
#[case::from_0(0)]
#[tokio::test]
async fn a_stream_that_is_cut_off_goes_on_after_the_last_event_seen(#[case] first: u64) {
    let calls = Arc::new(AtomicU32::new(0));
    let seen = calls.clone();
    let router = Router::new().route(
        "/v1/runs/run_1/events",
        get(move |headers: HeaderMap| {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            async move {
                let after = headers
                    .get("last-event-id")
                    .map(|id| id.to_str().unwrap().to_owned());
                match call {
                    0 => {
                        assert_eq!(after, None);
                        frame(first, "run.started") + &frame(first + 1, "eval.started")
                    }
                    _ => {
                        assert_eq!(after, Some((first + 1).to_string()));
                        // A repeated event is accepted.
                        frame(first + 1, "eval.started") + &frame(first + 2, "run.completed")
                    }
                }
            }
        }),
    );
    let client = client(router);
    let events: Vec<Value> = client
        .events("run_1", "updates", Duration::ZERO, None)
        .try_collect()
        .await
        .unwrap();
    let sequences: Vec<_> = events.iter().map(|e| e["sequence"].as_u64()).collect();
    assert_eq!(sequences, [first, first + 1, first + 2].map(Some));
    assert_eq!(seen.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_stream_that_makes_no_progress_fails() {
    let router = Router::new().route("/v1/runs/run_1/events", get(|| async { "" }));
    let client = client(router);
    let failure = client
        .events("run_1", "updates", Duration::ZERO, None)
        .try_collect::<Vec<_>>()
        .await
        .unwrap_err();
    assert_eq!(failure.code, "stream_lost");
}

#[tokio::test]
async fn a_host_without_major_1_answers_at_the_twins_of_its_operations() {
    let calls = Arc::new(AtomicU32::new(0));
    let seen = calls.clone();
    let router = Router::new()
        .route(
            "/host/touchstone/v1/runs/run_1",
            get(|| async { r#"{"runId":"run_1"}"# }),
        )
        .fallback(move || {
            seen.fetch_add(1, Ordering::Relaxed);
            async {
                (
                    StatusCode::NOT_FOUND,
                    [("openwop-version", "2.0")],
                    r#"{"error":"not_found","message":"leave /v1 out"}"#,
                )
            }
        });
    let client = client(router);
    for _ in 0..2 {
        let run: Value = client.get("/v1/runs/run_1").await.unwrap();
        assert_eq!(run["runId"], "run_1");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1, "the host is asked once");
    let failure = client.get::<Value>("/v1/host/touchstone/nothing").await;
    assert_eq!(failure.unwrap_err().code, "not_found");
}
