//! `X-Dedup: enforce`: at most one active run per scope.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::http::support::host::{Reply, TestHost, create_body, says};

fn about(scope: &str) -> Value {
    let mut body = create_body();
    body["scopeId"] = json!(scope);
    body
}

async fn create(host: &TestHost, body: &Value, dedup: Option<&str>) -> Reply {
    let call = host.request(Method::POST, "/v1/runs").json(body);
    match dedup {
        Some(value) => call.header("x-dedup", value).send().await,
        None => call.send().await,
    }
}

async fn host() -> TestHost {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    host
}

#[tokio::test]
async fn a_second_run_of_a_scope_is_refused_while_the_first_is_active() {
    let host = host().await;
    let enforce = Some("enforce");
    let first = create(&host, &about("release-7"), None).await;
    assert_eq!(first.status, StatusCode::CREATED, "{first:?}");
    let active = first.json()["runId"].clone();
    let refused = create(&host, &about("release-7"), enforce).await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::CONFLICT, "run_already_active".to_owned())
    );
    let details = refused.json()["details"].clone();
    assert_eq!(details["activeRunId"], active);
    assert_eq!(details["activeHost"], "cloud");
    assert_eq!(
        refused.header("retry-after").unwrap(),
        details["retryAfter"].to_string()
    );
    for (scope, dedup) in [("release-8", enforce), ("release-7", None)] {
        let other = create(&host, &about(scope), dedup).await;
        assert_eq!(other.status, StatusCode::CREATED, "{scope}: {other:?}");
    }
    host.work();
    for run in host.recorded().await {
        host.ended(&run.run_id).await;
    }
    let after = create(&host, &about("release-7"), enforce).await;
    assert_eq!(after.status, StatusCode::CREATED, "{after:?}");
}

#[tokio::test]
async fn of_concurrent_creations_in_one_scope_only_one_run_is_created() {
    let host = host().await;
    let body = about("race");
    let replies =
        futures_util::future::join_all((0..16).map(|_| create(&host, &body, Some("enforce"))))
            .await;
    let created: Vec<Value> = replies
        .iter()
        .filter(|reply| reply.status == StatusCode::CREATED)
        .map(|reply| reply.json()["runId"].clone())
        .collect();
    assert_eq!(created.len(), 1);
    for refused in replies
        .iter()
        .filter(|reply| reply.status != StatusCode::CREATED)
    {
        assert_eq!(refused.json()["details"]["activeRunId"], created[0]);
    }
}

#[tokio::test]
async fn a_repeat_under_an_idempotency_key_is_the_first_run_and_no_conflict() {
    let host = host().await;
    let send = async || {
        host.request(Method::POST, "/v1/runs")
            .header("x-dedup", "enforce")
            .header("idempotency-key", "k")
            .json(&about("release-7"))
            .send()
            .await
    };
    let first = send().await;
    let again = send().await;
    assert_eq!((again.status, again.json()), (first.status, first.json()));
    assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
}

#[tokio::test]
async fn invalid_deduplication_requests_are_rejected_by_field() {
    let host = host().await;
    for (body, dedup, field) in [
        (create_body(), "enforce", "scopeId"),
        (about("a"), "on", "X-Dedup"),
        (about("a"), "", "X-Dedup"),
        (about(&"a".repeat(257)), "enforce", "scopeId"),
    ] {
        let refused = create(&host, &body, Some(dedup)).await;
        assert_eq!(
            refused.status,
            StatusCode::BAD_REQUEST,
            "{dedup} {refused:?}"
        );
        assert_eq!(refused.json()["details"]["field"], field);
    }
    assert!(host.recorded().await.is_empty());
}
