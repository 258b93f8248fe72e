//! The database goes away and comes back.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use rstest::rstest;
use touchstone::http::HttpSettings;
use touchstone::store;

use super::host::{TestHost, create_body, says};
use crate::support::line::Line;
use crate::support::postgres::TestDatabase;

/// Far below the half minute that connection pools wait by default.
const SOON: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);

#[rstest]
#[case::refused(false)]
#[case::silent(true)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_answered_soon_and_gone_when_it_is_over(#[case] silent: bool) {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let mut line = Line::to(&database);
    let store = store::open(&line.url()).await.unwrap();
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
