//! Gates that require a rating: every unmet condition is named, and unknown values never meet a
//! condition.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};

use super::assessments::{assessed, work};
use super::{Engine, Site, found, site};
use crate::http::support::host::{AGENT, says};

const VERSION: &str = "1.0.0";

/// Links the organization to the tenant whose agent is installed and whose gates require no eval.
async fn equipped(site: &mut Site) {
    site.host.equip(&says(&["a"])).await;
    site.ours = found(
        &site.host,
        &json!({"name": "Acme Evaluations", "tenant": "acme"}),
    )
    .await;
}

async fn ask_for(site: &Site, rating: Value) {
    let policy = json!({"policy": {"eval": null, "rating": rating}});
    let set = site.host.post("/v1/host/touchstone/gates", &policy).await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
}

/// An agent whose rating meets the gate; returns the id of its badge.
pub async fn rated(site: &mut Site) -> String {
    equipped(site).await;
    site.host.assess();
    ask_for(site, json!({})).await;
    let version = format!("{AGENT}@{VERSION}");
    let agent = enrol(site, json!({"name": "echo", "openwop_agent": version})).await;
    work(site, &agent, "good", 36, "accepted").await;
    let found = rate(site, &agent).await;
    found["badge_id"].as_str().unwrap().to_owned()
}

/// The unmet conditions.
pub async fn unmet(site: &Site) -> Vec<String> {
    let question = json!({"agentId": AGENT, "version": VERSION});
    let path = "/v1/host/touchstone/gates/check";
    let answer = site.host.post(path, &question).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    let answer = answer.json();
    let unmet = answer["unmet"].as_array().unwrap();
    assert_eq!(answer["allowed"], unmet.is_empty());
    assert!(unmet.iter().all(|it| it["kind"] == "rating"), "{answer}");
    let names = unmet.iter().map(|it| it["condition"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

async fn enrol(site: &Site, body: Value) -> String {
    let enrolled = site.post("agents", &body).await;
    assert_eq!(enrolled.status, StatusCode::CREATED, "{enrolled:?}");
    enrolled.json()["id"].as_str().unwrap().to_owned()
}

async fn rate(site: &Site, agent: &str) -> Value {
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let found = assessed(site, &order).await;
    assert_eq!(found["status"], "completed", "{found}");
    found
}

async fn promote(site: &Site) -> Value {
    let body = json!({"version": VERSION, "transition": "promote", "channel": "stable"});
    let path = format!("/v1/agents/{AGENT}/deployments");
    let moved = site.host.post(&path, &body).await;
    moved.json()
}

#[rstest]
#[tokio::test]
async fn a_rated_version_with_a_badge_that_holds_passes_and_nothing_less(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let mut site = site;
    equipped(&mut site).await;
    site.host.assess();
    ask_for(
        &site,
        json!({"minimumPerformanceTier": "Competent", "maxAgeDays": 30}),
    )
    .await;
    assert_eq!(unmet(&site).await, ["rating-enrolled"]);

    let version = format!("{AGENT}@{VERSION}");
    let agent = enrol(&site, json!({"name": "echo", "openwop_agent": version})).await;
    assert_eq!(unmet(&site).await, ["rating"]);
    for _ in 0..2 {
        let body = json!({"version": VERSION, "transition": "promote"});
        let path = format!("/v1/agents/{AGENT}/deployments");
        let moved = site.host.post(&path, &body).await;
        assert_eq!(moved.status, StatusCode::OK, "{moved:?}");
    }
    let refused = promote(&site).await;
    assert_eq!(refused["error"], "eval_gate_unmet", "{refused}");
    assert_eq!(refused["details"]["unmet"][0]["condition"], "rating");

    work(&site, &agent, "good", 36, "accepted").await;
    work(&site, &agent, "bad", 4, "rejected").await;
    let found = rate(&site, &agent).await;
    assert_eq!(unmet(&site).await, [""; 0]);
    ask_for(
        &site,
        json!({"minimumPerformanceTier": "Elite", "minimumCapabilityTier": "Full-Stack"}),
    )
    .await;
    assert_eq!(unmet(&site).await, ["performance-tier", "capability-tier"]);
    ask_for(&site, json!({})).await;
    let moved = promote(&site).await;
    assert_eq!(moved["state"], "active", "{moved}");

    // After a while the rating is too old, and its badge has expired.
    ask_for(&site, json!({"maxAgeDays": 30})).await;
    site.host.clock.ahead(31);
    assert_eq!(unmet(&site).await, ["rating-age"]);
    site.host.clock.ahead(91);
    assert_eq!(unmet(&site).await, ["rating-age", "badge"]);
    site.host.clock.ahead(0);

    // Its badge may be revoked.
    let key = site
        .host
        .key_with(touchstone_host::access::Scope::ALL)
        .await;
    let path = format!(
        "/api/v1/badges/{}/revoke",
        found["badge_id"].as_str().unwrap()
    );
    let revoked = site.host.request(Method::POST, &path).key(&key);
    let revoked = revoked
        .json(&json!({"reason": "evidence_invalid"}))
        .send()
        .await;
    assert_eq!(revoked.status, StatusCode::OK, "{revoked:?}");
    assert_eq!(unmet(&site).await, ["badge"]);
    ask_for(&site, json!({"validBadge": false})).await;
    assert_eq!(unmet(&site).await, [""; 0]);

    // An assessment computed today from old evidence counts as old.
    ask_for(&site, json!({"validBadge": false, "maxAgeDays": 1})).await;
    let then =
        |hours: i64| (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(hours)).to_string();
    site.host.clock.ahead(1);
    let order = json!({"agent_id": agent, "type": "passive_only", "window_start": then(800), "window_end": then(1)});
    assert_eq!(assessed(&site, &order).await["status"], "completed");
    assert_eq!(unmet(&site).await, ["rating-age"]);
}

async fn patched(site: &Site, path: &str, changes: Value) {
    let patched = site.send(Method::PATCH, path, Some(&changes)).await;
    assert_eq!(patched.status, StatusCode::OK, "{patched:?}");
}

#[rstest]
#[tokio::test]
async fn a_rating_of_another_version_or_one_in_review_does_not_count(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let mut site = site;
    equipped(&mut site).await;
    site.host.assess();
    ask_for(&site, json!({})).await;
    // It names the OpenWOP agent without the version that was rated.
    let agent = enrol(&site, json!({"name": "echo", "openwop_agent": AGENT})).await;
    work(&site, &agent, "good", 36, "accepted").await;
    rate(&site, &agent).await;
    assert_eq!(unmet(&site).await, ["rating-version"]);
    // An agent's self-declared version does not assign the runs of all versions to that version.
    let path = format!("agents/{agent}");
    patched(&site, &path, json!({"version": VERSION})).await;
    rate(&site, &agent).await;
    assert_eq!(unmet(&site).await, ["rating-version"]);
    // A version named later does not change the earlier rating.
    let version = format!("{AGENT}@{VERSION}");
    patched(&site, &path, json!({"openwop_agent": version})).await;
    assert_eq!(unmet(&site).await, ["rating-version"]);
    rate(&site, &agent).await;
    assert_eq!(unmet(&site).await, [""; 0]);
    // The score dropped far: a person has to review it first.
    work(&site, &agent, "bad", 60, "rejected").await;
    let moved = rate(&site, &agent).await;
    assert_eq!(moved["review_required"], true, "{moved}");
    assert_eq!(unmet(&site).await, ["rating-review", "badge"]);
    // A rating of an archived agent does not satisfy a gate.
    let archived = site.send(Method::DELETE, &path, None).await;
    assert_eq!(archived.status, StatusCode::NO_CONTENT, "{archived:?}");
    assert_eq!(unmet(&site).await, ["rating-enrolled"]);
}

#[rstest]
#[tokio::test]
async fn a_gate_asks_who_recorded_the_evidence(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let mut site = site;
    equipped(&mut site).await;
    site.host.assess();
    let version = format!("{AGENT}@{VERSION}");
    let agent = enrol(&site, json!({"name": "echo", "openwop_agent": version})).await;
    work(&site, &agent, "good", 36, "accepted").await;
    rate(&site, &agent).await;
    ask_for(&site, json!({"evidenceSources": ["organization"]})).await;
    assert_eq!(unmet(&site).await, [""; 0]);
    ask_for(&site, json!({"evidenceSources": ["host", "person"]})).await;
    assert_eq!(unmet(&site).await, ["rating-evidence"]);
    let least = json!({"evidenceSources": ["host"], "minimumEvidencePercent": 1});
    ask_for(&site, least).await;
    assert_eq!(unmet(&site).await, ["rating-evidence"]);
    let policy = json!({"policy": {"rating": {"minimumEvidencePercent": 50}}});
    let set = site.host.post("/v1/host/touchstone/gates", &policy).await;
    assert_eq!(set.status, StatusCode::BAD_REQUEST, "{set:?}");
    assert!(set.text().contains("evidenceSources"), "{set:?}");
}

#[tokio::test]
async fn a_tier_of_the_other_axis_is_refused_when_the_policy_is_set() {
    site!(Engine::Sqlite => site);
    let policy = json!({"policy": {"rating": {"minimumPerformanceTier": "Versatile"}}});
    let set = site.host.post("/v1/host/touchstone/gates", &policy).await;
    assert_eq!(set.status, StatusCode::BAD_REQUEST, "{set:?}");
    assert!(set.text().contains("minimumPerformanceTier"), "{set:?}");
}
