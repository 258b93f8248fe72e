//! Suspended and archived organizations: no work is done for them, nothing is signed in their name,
//! and they receive no events until they are active again.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::system::SystemClock;

use crate::ratings::api::assessments::{assessed, collecting_for, ordered, tasks};
use crate::ratings::api::badges::certified;
use crate::ratings::api::housekeeping::{keep_house, keeper};
use crate::ratings::api::{Engine, Organization, Site, site};
use crate::support::clock::Told;
use crate::webhooks::receiver::{Answer, Receiver};

async fn becomes(site: &Site, status: &str) {
    let path = format!("/api/v1/organizations/{}", site.ours.id);
    let operator = site.host.request(Method::PATCH, &path);
    let changed = operator.json(&json!({"status": status})).send().await;
    assert_eq!(changed.status, StatusCode::OK, "{changed:?}");
    assert_eq!(changed.json()["status"], status);
}

/// Runs an assessment of another organization, requested after ours, to its end.
async fn others_are_served(site: &Site) {
    let send = |method, path: String, body: Option<Value>| async move {
        let sent = site.send_as(&site.theirs, method, &path, body.as_ref());
        sent.await.json()
    };
    let enrolled = send(
        Method::POST,
        "agents".to_owned(),
        Some(json!({"name": "theirs"})),
    );
    let agent = enrolled.await["id"].as_str().unwrap().to_owned();
    let batch = tasks(&agent, "good", 36, "accepted");
    send(Method::POST, "events/batch".to_owned(), Some(batch)).await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let asked = send(Method::POST, "assessments".to_owned(), Some(order)).await;
    let path = format!("assessments/{}", asked["id"].as_str().unwrap());
    let wait = async {
        while send(Method::GET, path.clone(), None).await["status"] != "completed" {
            crate::support::pause().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait)
        .await
        .unwrap();
}

async fn webhook_of(site: &Site, who: &Organization, url: &str) {
    let body = json!({"url": url});
    let made = site
        .send_as(who, Method::POST, "webhooks", Some(&body))
        .await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
}

#[rstest]
#[tokio::test]
async fn an_assessment_waits_until_its_organization_is_active_again(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[values("suspended", "archived")] status: &str,
) {
    site!(engine => site);
    let (ours, theirs) = (
        Receiver::start(Answer::Status(204)).await,
        Receiver::start(Answer::Status(204)).await,
    );
    webhook_of(&site, &site.ours, &ours.url()).await;
    webhook_of(&site, &site.theirs, &theirs.url()).await;
    let agent = site.enrol("triage").await;
    let waiting = ordered(&site, &agent).await;
    becomes(&site, status).await;
    site.host.assess();
    site.host.tell(Arc::new(SystemClock));
    others_are_served(&site).await;
    theirs.wait_for(2).await;
    assert!(
        ours.got().is_empty(),
        "the suspended organization receives nothing"
    );
    becomes(&site, "active").await;
    ours.wait_for(2).await;
    let found = site.get(&format!("assessments/{waiting}")).await.json();
    assert_eq!(found["status"], "completed", "{found}");
}

/// Queued messages are not delivered either.
#[rstest]
#[tokio::test]
async fn queued_deliveries_wait_too(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    site!(engine => site);
    let (ours, theirs) = (
        Receiver::start(Answer::Status(204)).await,
        Receiver::start(Answer::Status(204)).await,
    );
    webhook_of(&site, &site.ours, &ours.url()).await;
    webhook_of(&site, &site.theirs, &theirs.url()).await;
    certified(&site, "invoice-reader").await;
    becomes(&site, "suspended").await;
    site.host.assess();
    site.host.tell(Arc::new(SystemClock));
    others_are_served(&site).await;
    theirs.wait_for(2).await;
    assert!(
        ours.got().is_empty(),
        "the suspended organization receives nothing"
    );
    becomes(&site, "active").await;
    ours.wait_for(2).await;
}

#[rstest]
#[tokio::test]
async fn expiry_of_a_badge_is_notified_once_its_organization_is_active_again(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let body = json!({"url": "http://127.0.0.1:65535/",
        "events": ["badge.expiring", "evidence.threshold_reached"]});
    let made = site.post("webhooks", &body).await.json();
    let deliveries = format!("webhooks/{}/deliveries", made["id"].as_str().unwrap());
    site.host.assess();
    let agent = site.enrol("triage").await;
    collecting_for(&site, &agent, 31).await;
    site.post("events/batch", &tasks(&agent, "good", 36, "accepted"))
        .await;
    assessed(&site, &json!({"agent_id": agent, "type": "passive_only"})).await;
    let clock = Told::at(Timestamp::now());
    let keeper = keeper(&site, clock.clone());
    becomes(&site, "suspended").await;
    clock.advance(89 * 86_400);
    keep_house(&keeper).await;
    becomes(&site, "active").await;
    assert_eq!(site.get(&deliveries).await.json()["data"], json!([]));
    clock.advance(2 * 3600);
    keep_house(&keeper).await;
    let told = site.get(&deliveries).await.json();
    assert_eq!(told["data"][0]["event"], "badge.expiring", "{told}");
}
