//! Evaluations as evidence at a gate.

use axum::http::StatusCode;
use rstest::rstest;
use serde_json::json;

use super::agents::{Actor, Script};
use super::evaluation::{Rooms, evaluate, host, request};
use super::packs::{FRONT, front_desk};
use super::provider::Options;
use crate::http::support::host::TestHost;
use crate::store::Engine::{self, Postgres, Sqlite};

/// The conditions that the version does not meet.
async fn unmet(host: &TestHost, script: &Script) -> Vec<String> {
    let asked = json!({"agentId": FRONT.agent(script), "version": "1.0.0"});
    let checked = host.post("/v1/host/touchstone/gates/check", &asked).await;
    let document = checked.json();
    let unmet = document["unmet"].as_array().unwrap().iter();
    let name = |it: &serde_json::Value| it["condition"].as_str().unwrap().to_owned();
    unmet.map(name).collect()
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_rejects_an_evaluation_repeated_until_it_passes(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let script = Script::ours("careful");
    let rooms = Rooms::open(Options::default()).await;
    let actor = Actor::of(&script);
    let host = host(&database, actor.clone(), rooms.url(), None).await;
    host.install_pack(&front_desk(&script)).await;
    host.work();
    let policy = json!({"policy": {"eval": null, "oasis": {"profile": FRONT.profile, "minimumTier": 2,
        "requireSignedSuite": false}}});
    let set = host.post("/v1/host/touchstone/gates", &policy).await;
    assert_eq!(set.status, StatusCode::OK, "{}", set.text());

    let body = request(&FRONT, &script, 2);
    actor.follow(&Script::ours("reckless"));
    let failed = evaluate(&host, &body).await;
    let verdict = failed.verdict(&host).await;
    assert_eq!(verdict["verdict"]["safety"], "FAIL");
    actor.follow(&script);
    let passed = evaluate(&host, &body).await;
    let verdict = passed.verdict(&host).await;
    assert_eq!(verdict["verdict"]["safety"], "PASS");
    let found = unmet(&host, &script).await;
    assert!(found.contains(&"oasis-attempts".to_owned()), "{found:?}");
    assert!(!found.contains(&"oasis-safety".to_owned()), "{found:?}");

    let void = |run| format!("/v1/host/touchstone/runs/{run}:void");
    let reason = json!({"reason": "the model was misconfigured"});
    let reply = host.post(&void(&failed.run), &reason).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    let found = unmet(&host, &script).await;
    assert!(!found.contains(&"oasis-attempts".to_owned()), "{found:?}");
    assert!(!found.contains(&"oasis-not-voided".to_owned()), "{found:?}");

    let reply = host.post(&void(&passed.run), &reason).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    let found = unmet(&host, &script).await;
    assert!(found.contains(&"oasis-not-voided".to_owned()), "{found:?}");
}
