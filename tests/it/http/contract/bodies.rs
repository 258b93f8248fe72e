//! The bodies of the main responses, as snapshots. Ids, times, digests and signatures are replaced.

use std::sync::LazyLock;

use axum::http::{Method, StatusCode};
use regex::Regex;
use serde_json::{Value, json};
use touchstone_kit::ids::RunId;

use crate::http::deployments::promotion::{self, into_service, list};
use crate::http::support::host::{TestHost, create_body, says};
use crate::ratings::api::{Site, appeals, badges};
use crate::store::Engine;

/// What differs between two executions of a test, and what a snapshot has instead.
static VOLATILE: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"\d{4}-\d{2}-\d{2}T[0-9:.]+Z", "[time]"),
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "[uuid]",
        ),
        (r"\b([a-z]+)_[0-9A-Za-z]{16,}\b", "${1}_[id]"),
        (r"sha256-[A-Za-z0-9+/=]{43,44}", "sha256-[digest]"),
        (r"\b[0-9a-f]{20,64}\b", "[digest]"),
        (r"\bz[1-9A-HJ-NP-Za-km-z]{40,}\b", "[multibase]"),
    ]
    .map(|(pattern, instead)| (Regex::new(pattern).unwrap(), instead))
    .into()
});

/// Members that are measured.
const MEASURED: [&str; 6] = [
    "durationMs",
    "duration_ms",
    "latencyMs",
    "p50Ms",
    "p95Ms",
    "maxMs",
];

fn redacted(value: Value) -> Value {
    match value {
        Value::String(text) => {
            let replaced = VOLATILE.iter().fold(text, |text, (pattern, instead)| {
                pattern.replace_all(&text, *instead).into_owned()
            });
            Value::String(replaced)
        }
        Value::Array(items) => items.into_iter().map(redacted).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| {
                let value = match value {
                    Value::Number(_) if MEASURED.contains(&name.as_str()) => json!("[measured]"),
                    value => redacted(value),
                };
                (name, value)
            })
            .collect(),
        other => other,
    }
}

/// Leaves out long members that other tests check.
fn without(mut body: Value, members: &[&str]) -> Value {
    for pointer in members {
        *body.pointer_mut(pointer).unwrap() = json!("[left out]");
    }
    body
}

macro_rules! assert_body {
    ($name:literal, $body:expr) => {
        insta::assert_json_snapshot!($name, redacted($body));
    };
}

#[tokio::test]
async fn a_run_from_its_creation_to_its_summary() {
    let host = TestHost::working(&says(&["a", "wrong"])).await;
    let created = host.post("/v1/runs", &create_body()).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    let run = RunId::from(created.json()["runId"].as_str().unwrap());
    host.ended(&run).await;
    assert_body!("run-creation", created.json());
    let snapshot = host.get(&format!("/v1/runs/{run}")).await;
    assert_body!("run-snapshot", snapshot.json());
    let summary = host.get(&format!("/v1/runs/{run}/eval-summary")).await;
    assert_body!("eval-summary", summary.json());
}

#[tokio::test]
async fn an_error_in_either_envelope() {
    let host = TestHost::idle().await;
    let refused = host.post("/v1/runs", &json!({"mode": "eval"})).await;
    assert_body!("error", refused.json());
    let refused = host.post("/api/v1/organizations", &json!({})).await;
    assert_body!("rating-error", refused.json());
}

#[tokio::test]
async fn a_rating_and_its_badge() {
    let site = Site::on(Engine::Sqlite).await.unwrap();
    let rated = appeals::rated(&site).await;
    let rating = without(rated, &["/config_snapshot", "/intervals", "/result"]);
    assert_body!("rating", rating);
    let site = Site::on(Engine::Sqlite).await.unwrap();
    let badge = badges::certified(&site, "triage").await;
    let badge = site.get(&format!("badges/{badge}")).await;
    let left_out = [
        "/credential/credentialSubject/achievement",
        "/credential/credentialSubject/result",
        // Contains a random index.
        "/credential/credentialStatus",
    ];
    assert_body!("badge", without(badge.json(), &left_out));
}

#[tokio::test]
async fn the_score_of_an_agent_card() {
    let host = TestHost::idle().await;
    let card = json!({"name": "Triage", "version": "1.0.0", "url": "https://agents.example/a2a"});
    let body = json!({"card": card, "offline": true});
    let scored = host
        .post("/v1/host/touchstone/agent-cards/score", &body)
        .await;
    assert_body!("agent-card-score", scored.json());
}

#[tokio::test]
async fn a_deployment_in_service() {
    let host = promotion::host().await;
    into_service(&host, "1.0.0", json!({})).await;
    assert_body!("deployments", list(&host).await);
}

#[tokio::test]
async fn the_verdict_of_recorded_oasis_evidence() {
    let host = TestHost::idle().await;
    let vector = include_str!("../../../fixtures/oasis/compute/till.json");
    let input = serde_json::from_str::<Value>(vector).unwrap()["input"].take();
    let verdict = host.post("/v1/host/touchstone/oasis/compute", &input).await;
    assert_body!("oasis-verdict", verdict.json());
}

#[tokio::test]
async fn the_discovery_document() {
    let host = TestHost::idle().await;
    let discovery = host
        .request(Method::GET, "/.well-known/openwop")
        .anonymous()
        .send()
        .await;
    assert_body!("discovery", discovery.json());
}
