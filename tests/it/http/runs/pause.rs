//! Pausing and resuming runs.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::system::SystemClock;
use touchstone_kit::ids::RunId;
use touchstone_openwop::events::DrainPolicy;
use touchstone_runs::ports::pauses::PauseRequest;
use touchstone_runs::ports::queue::Claimable;
use touchstone_runs::store as run_store;

use crate::http::runs::interrupts::until;
use crate::http::runs::workflows::{at_work, kinds, start};
use crate::http::support::host::{TestHost, says};

/// A running run that waits this long.
async fn slow(host: &TestHost, millis: u64) -> RunId {
    let body = json!({"workflowId": "conformance-cancellable", "inputs": {"delayMs": millis}});
    let run = start(host, &body).await;
    let begun = format!("/v1/runs/{run}/events/poll?lastSequence=1&timeout=30");
    assert_eq!(
        host.get(&begun).await.json()["events"][0]["type"],
        "node.started"
    );
    run
}

async fn status(host: &TestHost, run: &RunId) -> Value {
    host.get(&format!("/v1/runs/{run}")).await.json()["status"].clone()
}

#[tokio::test]
async fn a_run_paused_at_once_restarts_its_node() {
    let host = at_work().await;
    let run = slow(&host, 4_000).await;
    let pause = format!("/v1/runs/{run}:pause");
    let body = json!({"drainPolicy": "immediate", "reason": "lunch"});
    let paused = host
        .request(Method::POST, &pause)
        .header("idempotency-key", "p1")
        .json(&body)
        .send()
        .await;
    assert_eq!(paused.status, StatusCode::ACCEPTED, "{paused:?}");
    assert_eq!(status(&host, &run).await, "paused");
    let repeated = host
        .request(Method::POST, &pause)
        .header("idempotency-key", "p1")
        .json(&body)
        .send()
        .await;
    assert_eq!(
        (repeated.status, repeated.json()),
        (StatusCode::ACCEPTED, paused.json())
    );
    let again = host.post(&pause, &json!({})).await;
    assert_eq!(
        (
            again.status,
            &again.json()["details"]["runStatus"],
            &again.json()["details"]["pausedAt"]
        ),
        (
            StatusCode::CONFLICT,
            &json!("paused"),
            &paused.json()["pausedAt"]
        )
    );

    let resume = format!("/v1/runs/{run}:resume");
    let resumed = host.post(&resume, &json!({})).await;
    assert_eq!(
        (resumed.status, &resumed.json()["status"]),
        (StatusCode::ACCEPTED, &json!("running"))
    );
    assert_eq!(
        host.post(&resume, &json!({})).await.status,
        StatusCode::CONFLICT
    );
    let log = host.ended(&run).await;
    assert_eq!(
        kinds(&log),
        [
            "run.started",
            "node.started",
            "run.paused",
            "run.resumed",
            "node.started",
            "node.completed",
            "run.completed"
        ]
    );
    assert_eq!(log[2]["payload"]["drainPolicy"], "immediate");
    assert_eq!(log[4]["payload"]["attempt"], 2);
}

#[tokio::test]
async fn a_run_that_is_drained_ends_its_node_first() {
    let host = at_work().await;
    let run = slow(&host, 4_000).await;
    let paused = host
        .post(&format!("/v1/runs/{run}:pause"), &json!({}))
        .await;
    assert_eq!(paused.status, StatusCode::ACCEPTED);
    let after = format!("/v1/runs/{run}/events/poll?lastSequence=3&timeout=30");
    assert_eq!(
        host.get(&after).await.json()["events"][0]["type"],
        "run.paused"
    );
    assert_eq!(status(&host, &run).await, "paused");
    host.post(&format!("/v1/runs/{run}:resume"), &json!({}))
        .await;
    let log = host.ended(&run).await;
    assert_eq!(
        kinds(&log),
        [
            "run.started",
            "node.started",
            "node.completed",
            "run.paused",
            "run.resumed",
            "run.completed"
        ]
    );
}

#[tokio::test]
async fn a_pause_that_is_not_in_force_can_be_taken_back_and_leaves_no_trace() {
    let host = at_work().await;
    // Longer than a pause request waits.
    let run = slow(&host, 10_000).await;
    let (pause, resume) = (
        format!("/v1/runs/{run}:pause"),
        format!("/v1/runs/{run}:resume"),
    );
    let paused = host.post(&pause, &json!({})).await;
    assert_eq!(
        (paused.status, &paused.json()["status"]),
        (StatusCode::ACCEPTED, &json!("paused"))
    );
    assert_eq!(status(&host, &run).await, "running");
    let resumed = host.post(&resume, &json!({})).await;
    let answer = resumed.json();
    assert_eq!(
        (resumed.status, &answer["runId"], &answer["status"]),
        (StatusCode::ACCEPTED, &json!(run), &json!("running"))
    );
    assert!(answer["resumedAt"].is_string());
    let again = host.post(&resume, &json!({})).await;
    assert_eq!(
        (again.status, &again.json()["details"]["runStatus"]),
        (StatusCode::CONFLICT, &json!("running"))
    );
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
}

#[tokio::test]
async fn a_pause_can_be_asked_for_again_once_it_was_taken_back() {
    let host = at_work().await;
    let run = slow(&host, 60_000).await;
    let (pause, resume) = (
        format!("/v1/runs/{run}:pause"),
        format!("/v1/runs/{run}:resume"),
    );
    for _ in 0..2 {
        let paused = host.post(&pause, &json!({})).await;
        assert_eq!(paused.status, StatusCode::ACCEPTED, "{paused:?}");
        let resumed = host.post(&resume, &json!({})).await;
        assert_eq!(resumed.status, StatusCode::ACCEPTED, "{resumed:?}");
    }
    let at_once = json!({"drainPolicy": "immediate"});
    let paused = host.post(&pause, &at_once).await;
    assert_eq!(paused.status, StatusCode::ACCEPTED, "{paused:?}");
    until(&host, &run, "paused").await;
}

#[tokio::test]
async fn a_resume_takes_effect_at_any_point_of_a_pause() {
    let host = at_work().await;
    // The node ends before, during and after the resume request.
    for millis in (0..40).map(|n| n * 5) {
        let body = json!({"workflowId": "conformance-cancellable", "inputs": {"delayMs": 100}});
        let run = start(&host, &body).await;
        let begun = format!("/v1/runs/{run}/events/poll?lastSequence=1&timeout=30");
        host.get(&begun).await;
        let pause = format!("/v1/runs/{run}:pause");
        let resume = format!("/v1/runs/{run}:resume");
        let nothing = json!({});
        let (paused, resumed) = tokio::join!(host.post(&pause, &nothing), async {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            host.post(&resume, &nothing).await
        });
        // A request that came too early must be repeatable, unless there is nothing left to resume.
        if resumed.status == StatusCode::CONFLICT && paused.status == StatusCode::ACCEPTED {
            let late = host.post(&resume, &nothing).await;
            assert_eq!(late.status, StatusCode::ACCEPTED, "{millis}: {late:?}");
        }
        let log = host.ended(&run).await;
        let count = |kind| kinds(&log).iter().filter(|found| **found == kind).count();
        assert_eq!(count("run.paused"), count("run.resumed"), "{millis}");
        assert_eq!(count("node.completed"), 1, "{millis}");
    }
}

#[tokio::test]
async fn a_pause_whose_worker_died_comes_into_force_and_can_be_resumed_then() {
    let host = TestHost::idle().await;
    let body = json!({"workflowId": "conformance-cancellable", "inputs": {"delayMs": 1}});
    let run = start(&host, &body).await;
    let request = PauseRequest {
        paused_by: "key".to_owned(),
        reason: None,
        drain_policy: DrainPolicy::Immediate,
        requested_at: SystemClock.now(),
    };
    assert!(
        run_store::pauses::request_pause(&host.store, &run, &request)
            .await
            .unwrap()
    );
    // Its lease expires at once, and the log does not contain the pause.
    let dead = run_store::queue::claim(&host.store, "dead", Claimable::All, Duration::ZERO).await;
    let fence = dead.unwrap().unwrap().fence;
    let taken = run_store::pauses::take_pause(&host.store, &run, fence)
        .await
        .unwrap();
    assert!(taken.is_some());
    let resume = format!("/v1/runs/{run}:resume");
    let early = host.post(&resume, &json!({})).await;
    assert_eq!(early.status, StatusCode::SERVICE_UNAVAILABLE, "{early:?}");
    assert!(early.header("retry-after").is_some(), "{early:?}");
    host.work();
    until(&host, &run, "paused").await;
    let resumed = host.post(&resume, &json!({})).await;
    assert_eq!(resumed.status, StatusCode::ACCEPTED, "{resumed:?}");
    let log = host.ended(&run).await;
    let count = |kind| kinds(&log).iter().filter(|found| **found == kind).count();
    assert_eq!((count("run.paused"), count("run.resumed")), (1, 1));
}

#[tokio::test]
async fn a_paused_run_can_be_cancelled_and_outlives_its_worker() {
    let host = TestHost::idle().await;
    let first = host.work();
    let run = slow(&host, 60_000).await;
    let pause = json!({"drainPolicy": "immediate"});
    host.post(&format!("/v1/runs/{run}:pause"), &pause).await;
    first.cancel();
    host.work();
    assert_eq!(status(&host, &run).await, "paused");
    host.post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    let log = host.ended(&run).await;
    assert_eq!(log[log.len() - 1]["type"], "run.cancelled");
    let ended = host.post(&format!("/v1/runs/{run}:pause"), &pause).await;
    assert_eq!(
        (ended.status, &ended.json()["details"]["runStatus"]),
        (StatusCode::CONFLICT, &json!("cancelled"))
    );
}

#[rstest]
#[case(json!({"drainPolicy": "soon"}), "drainPolicy")]
#[case(json!({"reason": 7}), "reason")]
#[tokio::test]
async fn an_unsound_pause_is_refused_by_name(#[case] body: Value, #[case] field: &str) {
    let host = at_work().await;
    let run = slow(&host, 60_000).await;
    let refused = host.post(&format!("/v1/runs/{run}:pause"), &body).await;
    assert_eq!(
        (refused.status, &refused.json()["details"]["field"]),
        (StatusCode::BAD_REQUEST, &json!(field))
    );
    assert_eq!(status(&host, &run).await, "running");
}

#[tokio::test]
async fn only_a_running_run_can_be_paused() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let refused = host
        .post(&format!("/v1/runs/{run}:pause"), &json!({}))
        .await;
    assert_eq!(
        (refused.status, &refused.json()["details"]["runStatus"]),
        (StatusCode::CONFLICT, &json!("pending"))
    );
}
