//! The database becomes unavailable and recovers.

use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::json;
use touchstone::database;
use touchstone_host::http::HttpSettings;

use crate::http::support::host::{TestHost, create_body, says};
use crate::support::host_keys;
use crate::support::line::Line;
use crate::support::postgres::TestDatabase;

/// Below the default wait of connection pools, 30 seconds.
const SOON: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(60);

#[rstest]
#[case::refused(false)]
#[case::silent(true)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_outage_gets_a_prompt_error_and_ends_with_the_outage(#[case] silent: bool) {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let mut line = Line::to(&database);
    let store = database::open(&line.url(), host_keys::usual())
        .await
        .unwrap();
    let host = TestHost::over(store, HttpSettings::default()).await;
    host.equip(&says(&["a", "b"])).await;
    host.work();
    let run = host.create().await;
    host.ended(&run).await;

    if silent {
        line.fall_silent();
    } else {
        line.cut().await;
    }
    // A write that succeeded within the last second still counts as ready.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    for _ in 0..2 {
        let (began, body) = (Instant::now(), create_body());
        let (read, created, ready) = tokio::join!(
            host.get("/v1/agents"),
            host.post("/v1/runs", &body),
            host.get("/readyz")
        );
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        for reply in [read, created, ready] {
            assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{reply:?}");
            assert_eq!(reply.code(), "unavailable");
            let retry_after: u64 = reply.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=10).contains(&retry_after), "{retry_after}");
        }
    }

    line.restore();
    let recovered = async {
        while host.get("/v1/agents").await.status != StatusCode::OK {}
        let run = host.create().await;
        host.ended(&run).await
    };
    let log = tokio::time::timeout(PATIENCE, recovered).await.unwrap();
    assert_eq!(log.last().unwrap()["type"], "run.completed");
}

/// Checks for a temporary error in the envelope of the API.
fn assert_come_again(reply: &crate::http::support::host::Reply) {
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{reply:?}");
    let retry_after: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=10).contains(&retry_after), "{retry_after}");
}

/// The files of the embedded database are moved away while the host serves, and restored.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_without_its_database_is_not_ready_and_takes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let away = tempfile::tempdir().unwrap();
    let store = database::open(
        dir.path().join("host.db").to_str().unwrap(),
        host_keys::usual(),
    )
    .await
    .unwrap();
    let host = TestHost::over(store, HttpSettings::default()).await;
    host.equip(&says(&["a", "b"])).await;
    let body = json!({"name": "Initech", "tenant": "initech"});
    let organization = host.post("/api/v1/organizations", &body).await.json();
    let organization_key = organization["api_key"].as_str().unwrap();
    assert_eq!(host.get("/readyz").await.status, StatusCode::OK);

    let file = |dir: &tempfile::TempDir| dir.path().join("host.db");
    std::fs::rename(file(&dir), file(&away)).unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let ready = host.get("/readyz").await;
    assert_come_again(&ready);
    assert_eq!(ready.code(), "unavailable");
    let created = host.post("/v1/runs", &create_body()).await;
    assert_come_again(&created);
    assert_eq!(created.code(), "unavailable");
    let enrolled = host
        .request(Method::POST, "/api/v1/agents")
        .key(organization_key)
        .json(&json!({"name": "bot"}))
        .send()
        .await;
    assert_come_again(&enrolled);
    assert_eq!(enrolled.json()["error"]["code"], "INTERNAL_ERROR");
    assert!(!file(&dir).exists());

    std::fs::rename(file(&away), file(&dir)).unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(host.get("/readyz").await.status, StatusCode::OK);
    host.work();
    let run = host.create().await;
    let log = host.ended(&run).await;
    assert_eq!(log.last().unwrap()["type"], "run.completed");
}
