//! The disk fills up and then has space again. A limit on file size simulates this without a
//! separate disk.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{AGENT, SUITE, TASKS, TENANT, config, endpoint, furnish, item};
use crate::process::api::Api;
use crate::process::{Site, TOO_LONG};

/// Longer than two lease durations.
const OUTAGE: Duration = Duration::from_secs(8);
/// Tasks from this item on wait until the disk is full, however late the test fills it.
const LATE: u64 = 100;

async fn ready(api: &Api) -> StatusCode {
    let response = api.send(Method::GET, "/readyz", None).await.unwrap();
    response.status()
}

async fn becomes(api: &Api, expected: StatusCode) {
    let begun = Instant::now();
    while ready(api).await != expected {
        assert!(begun.elapsed() < TOO_LONG, "never answered {expected}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn assert_refused(api: &Api, path: &str, body: &Value) {
    let response = api.send(Method::POST, path, Some(body)).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
    let retry_after = response.headers()["retry-after"].to_str().unwrap();
    assert!((1..=10).contains(&retry_after.parse::<u64>().unwrap()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_recovers_from_a_full_disk() {
    let site = Site::embedded();
    let endpoint = endpoint().await;
    site.configure("touchstone.toml", &config(&endpoint, 1.0));
    let key = site.key(TENANT);
    let host = site.serve_limitable("touchstone.toml");
    let api = host.api(&key);
    furnish(&site, &api);
    endpoint.hold(|body| item(body) >= LATE);
    let run = api.start(SUITE, AGENT, json!({})).await;
    while endpoint.asked().len() < 30 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let log = site.folder().join("data/touchstone.db-wal");
    host.limit_files(Some(std::fs::metadata(&log).unwrap().len()));
    endpoint.next_era();
    becomes(&api, StatusCode::SERVICE_UNAVAILABLE).await;
    let create = json!({"mode": "eval", "evalSuiteRef": SUITE, "agentId": AGENT});
    assert_refused(&api, "/v1/runs", &create).await;
    // Calls started before the outage was noticed may still arrive.
    let mut asked = 0;
    while endpoint.asked().len() > asked {
        asked = endpoint.asked().len();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!((asked as u64) < TASKS, "the outage came too late");
    tokio::time::sleep(OUTAGE).await;
    assert_eq!(
        endpoint.asked().len(),
        asked,
        "the model was called while nothing could be written"
    );
    assert_eq!(ready(&api).await, StatusCode::SERVICE_UNAVAILABLE);
    api.get(&format!("/v1/runs/{run}")).await;

    host.limit_files(None);
    becomes(&api, StatusCode::OK).await;
    let log = api.log(&run).await;
    assert_eq!(log.last().unwrap()["type"], "run.completed");
    for (n, event) in log.iter().enumerate() {
        assert_eq!(event["sequence"], n + 1);
    }
    let scored = log.iter().filter(|event| event["type"] == "eval.scored");
    assert_eq!(scored.count() as u64, TASKS);
    let mut calls: HashMap<u64, usize> = HashMap::new();
    for asked in endpoint.asked() {
        *calls.entry(item(&asked.body)).or_default() += 1;
    }
    assert!(calls.values().all(|calls| *calls <= 2), "{calls:?}");
    assert!(host.terminate());
}
