//! A host that serves both majors of the protocol.

mod deployments;
mod discovery;
mod errors;
mod idempotency;
mod logs;
mod negotiation;
mod operations;
mod retired;
mod runs;
mod seams;
mod webhooks;

use axum::http::Method;
use serde_json::json;
use touchstone_host::http::HttpSettings;
use touchstone_kit::ids::RunId;
use touchstone_openwop::wire::version::{Majors, Offered};

use crate::http::support::host::{Call, TestHost, says};

const VERSION: &str = "openwop-version";

fn serving(majors: Majors) -> HttpSettings {
    HttpSettings {
        protocol: Offered::to_all(majors),
        ..HttpSettings::default()
    }
}

/// A host without workers that serves both majors.
async fn both() -> TestHost {
    TestHost::with(serving(Majors::Both)).await
}

/// The same with the agent, a suite, and an eval run of `acme` that is pending.
async fn with_run() -> (TestHost, RunId) {
    let host = both().await;
    host.equip(&says(&["yes"])).await;
    let run = host.create().await;
    (host, run)
}

/// The same with a run that has ended.
async fn with_ended_run() -> (TestHost, RunId) {
    let (host, run) = with_run().await;
    host.work();
    host.ended(&run).await;
    (host, run)
}

/// A run of the tenant `globex`.
async fn foreign_run(host: &TestHost) -> String {
    let body = json!({"workflowId": "conformance-noop"});
    let created = host
        .request(Method::POST, "/v1/runs")
        .key(&host.other_key)
        .json(&body)
        .send()
        .await;
    created.json()["runId"].as_str().unwrap().to_owned()
}

/// A request under major 2.
fn under_v2<'a>(host: &'a TestHost, method: &str, path: &str) -> Call<'a> {
    host.request(method.parse().unwrap(), path)
        .header(VERSION, "2.0")
}
