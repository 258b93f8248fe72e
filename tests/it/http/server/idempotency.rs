//! `Idempotency-Key`: one effect per key, also under races.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::http::support::host::{Reply, TestHost, create_body, says};

const REPLAYED: &str = "openwop-idempotent-replay";

async fn keyed(host: &TestHost, key: &str, path: &str, body: &Value) -> Reply {
    host.request(Method::POST, path)
        .header("idempotency-key", key)
        .json(body)
        .send()
        .await
}

async fn host() -> TestHost {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    host
}

async fn runs(host: &TestHost) -> usize {
    host.recorded().await.len()
}

#[tokio::test]
async fn a_repeated_request_is_answered_as_the_first_one_was() {
    let host = host().await;
    let body = create_body();
    let first = keyed(&host, "k", "/v1/runs", &body).await;
    assert_eq!(
        (first.status, first.header(REPLAYED)),
        (StatusCode::CREATED, None)
    );
    host.work();
    host.ended(&first.json()["runId"].as_str().unwrap().into())
        .await;
    let mut pretty = serde_json::to_string_pretty(&body).unwrap();
    pretty.push('\n');
    let again = host
        .request(Method::POST, "/v1/runs")
        .header("idempotency-key", "k")
        .raw("application/json", pretty)
        .send()
        .await;
    assert_eq!(
        (again.status, again.header(REPLAYED)),
        (StatusCode::CREATED, Some("true"))
    );
    assert_eq!(again.json(), first.json());
    assert_eq!(runs(&host).await, 1);
}

#[tokio::test]
async fn another_body_under_an_idempotency_key_gets_409_without_the_run_id() {
    let host = host().await;
    let first = keyed(&host, "k", "/v1/runs", &create_body()).await.json();
    let mut other = create_body();
    other["tags"] = json!(["x"]);
    let refused = keyed(&host, "k", "/v1/runs", &other).await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::CONFLICT, "idempotency_key_mismatch".to_owned())
    );
    assert!(!refused.text().contains(first["runId"].as_str().unwrap()));
    assert_eq!(
        keyed(&host, "k", "/v1/runs", &create_body()).await.json(),
        first
    );
    assert_eq!(runs(&host).await, 1);
}

#[tokio::test]
async fn of_concurrent_requests_with_one_idempotency_key_one_is_executed() {
    let host = host().await;
    let body = create_body();
    let calls = (0..32).map(|_| keyed(&host, "race", "/v1/runs", &body));
    let replies = futures_util::future::join_all(calls).await;
    let first = replies[0].json();
    assert!(
        replies
            .iter()
            .all(|reply| reply.status == StatusCode::CREATED && reply.json() == first)
    );
    assert_eq!(
        replies
            .iter()
            .filter(|reply| reply.header(REPLAYED).is_none())
            .count(),
        1
    );
    assert_eq!(runs(&host).await, 1);
}

#[tokio::test]
async fn a_failed_request_may_be_retried_under_the_same_key() {
    let host = host().await;
    let refused = keyed(&host, "k", "/v1/runs", &json!({})).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let unauthorised = host
        .request(Method::POST, "/v1/runs")
        .key("wrong")
        .header("idempotency-key", "k")
        .json(&create_body())
        .send()
        .await;
    assert_eq!(unauthorised.status, StatusCode::UNAUTHORIZED);
    let created = keyed(&host, "k", "/v1/runs", &create_body()).await;
    assert_eq!(created.status, StatusCode::CREATED);
    let stranger = host
        .request(Method::POST, "/v1/runs")
        .key("wrong")
        .header("idempotency-key", "k")
        .json(&create_body())
        .send()
        .await;
    assert_eq!(
        stranger.status,
        StatusCode::UNAUTHORIZED,
        "a record is not a credential"
    );
}

#[tokio::test]
async fn a_key_belongs_to_a_tenant_an_endpoint_and_a_run() {
    let host = host().await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        runs.push(host.create().await);
    }
    for run in &runs {
        let cancelled = keyed(&host, "k", &format!("/v1/runs/{run}/cancel"), &json!({})).await;
        assert_eq!(cancelled.json()["runId"], json!(run));
        assert_eq!(cancelled.header(REPLAYED), None);
    }
    let created = keyed(&host, "k", "/v1/runs", &create_body()).await;
    assert_eq!(
        (created.status, created.header(REPLAYED)),
        (StatusCode::CREATED, None)
    );
    let foreign = host
        .request(Method::POST, "/v1/runs")
        .key(&host.other_key)
        .header("idempotency-key", "k")
        .json(&create_body())
        .send()
        .await;
    assert_eq!(
        foreign.status,
        StatusCode::BAD_REQUEST,
        "the other tenant has no such suite and does not get the first tenant's run"
    );
}

#[tokio::test]
async fn every_mutation_replays() {
    let host = TestHost::idle().await;
    host.equip(&says(&["a"])).await;
    let run = host.create().await;
    let cancel = format!("/v1/runs/{run}/cancel");
    let suite = crate::http::support::host::suite(&says(&["a"]));
    for (path, body) in [
        (cancel.as_str(), json!({"reason": "x"})),
        ("/v1/runs:bulk-cancel", json!({"runIds": [run]})),
        ("/v1/host/touchstone/suites", suite),
    ] {
        let first = keyed(&host, "m", path, &body).await;
        assert!(first.status.is_success(), "{path}: {first:?}");
        let again = keyed(&host, "m", path, &body).await;
        assert_eq!(
            (again.status, again.json()),
            (first.status, first.json()),
            "{path}"
        );
        assert_eq!(again.header(REPLAYED), Some("true"), "{path}");
        let mismatch = keyed(&host, "m", path, &json!({"reason": "another"})).await;
        assert!(mismatch.status.is_client_error(), "{path}");
    }
    for path in [
        "/v1/host/touchstone/suites/community.bench.evals.echo/1.0.0",
        "/v1/host/touchstone/packs/community.bench.echo/1.0.0",
    ] {
        for replayed in [None, Some("true")] {
            let removed = host
                .request(Method::DELETE, path)
                .header("idempotency-key", "d")
                .send()
                .await;
            assert_eq!(
                (removed.status, removed.header(REPLAYED)),
                (StatusCode::OK, replayed),
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn an_invalid_idempotency_key_is_400_and_ignored_by_reads() {
    let host = host().await;
    let long = "k".repeat(256);
    for key in ["", long.as_str()] {
        let refused = keyed(&host, key, "/v1/runs", &create_body()).await;
        assert_eq!(
            (refused.status, refused.code()),
            (StatusCode::BAD_REQUEST, "validation_error".to_owned())
        );
    }
    let twice = host
        .request(Method::POST, "/v1/runs")
        .header("idempotency-key", "a")
        .header("idempotency-key", "b")
        .json(&create_body())
        .send()
        .await;
    assert_eq!(twice.code(), "validation_error");
    let a = host.create().await;
    let b = host.create().await;
    for run in [a, b] {
        let read = host
            .request(Method::GET, &format!("/v1/runs/{run}"))
            .header("idempotency-key", "r")
            .send()
            .await;
        assert_eq!(read.json()["runId"], json!(run));
    }
}

#[tokio::test]
async fn a_duplicate_of_a_request_in_flight_is_409_with_retry_after() {
    use sha2::Digest as _;
    use touchstone_host::ports::clock::Clock as _;
    use touchstone_host::ports::idempotency::IdempotencyClaim;
    let host = host().await;
    let body = create_body();
    let claim = IdempotencyClaim {
        tenant: "acme".into(),
        endpoint: "POST /v1/runs".to_owned(),
        key_hash: sha2::Sha256::digest(b"k").into(),
        digest: sha2::Sha256::digest(touchstone_kit::json::canonical_text(&body)).into(),
        owner: "another replica".to_owned(),
    };
    let now = touchstone_host::system::SystemClock.now();
    host.store
        .begin(&claim, now, std::time::Duration::from_secs(600))
        .await
        .unwrap();
    let refused = keyed(&host, "k", "/v1/runs", &body).await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::CONFLICT, "idempotency_in_flight".to_owned())
    );
    // The latest time at which the key becomes free: the lease less the time already waited.
    let seconds = refused.json()["details"]["retryAfter"].as_u64().unwrap();
    assert!((540..=600).contains(&seconds), "{seconds}");
    assert_eq!(
        refused.header("retry-after"),
        Some(seconds.to_string().as_str())
    );
}
