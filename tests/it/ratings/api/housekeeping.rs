//! Housekeeping jobs: each notification is sent once, expired records are deleted, and one replica
//! runs a job at a time.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use touchstone_host::service::jobs::Replica;
use touchstone_host::store::jobs as job_store;
use touchstone_kit::ids::RunId;
use touchstone_ratings::ports::stress_tests::{StressOutcome, StressResult};
use touchstone_ratings::service::housekeeping::Housekeeper;
use touchstone_ratings::store as rating_store;

use super::appeals;
use super::assessments::{assessed, collecting_for, ordered, tasks};
use super::{Engine, Site, site};
use crate::support::clock::Told;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

struct House {
    keeper: Housekeeper,
    clock: Arc<Told>,
}

impl House {
    fn of(site: &Site) -> Self {
        let clock = Told::at(Timestamp::now());
        let keeper = keeper(site, clock.clone());
        Self { keeper, clock }
    }

    /// Moves the clock and runs the housekeeping jobs.
    async fn keep(&self, seconds: i64) {
        self.clock.advance(seconds);
        keep_house(&self.keeper).await;
    }
}

pub fn keeper(site: &Site, clock: Arc<Told>) -> Housekeeper {
    Housekeeper::new(Replica {
        store: site.host.store.clone(),
        clock,
        owner: "keeper".to_owned(),
    })
}

/// Runs all housekeeping jobs.
pub async fn keep_house(keeper: &Housekeeper) {
    let shutdown = CancellationToken::new();
    keeper.send_notices(&shutdown).await.unwrap();
    keeper.delete(&shutdown).await.unwrap();
}

/// A rated agent's id and its assessment.
pub async fn rated(site: &Site) -> (String, Value) {
    site.host.assess();
    let agent = site.enrol("triage").await;
    collecting_for(site, &agent, 31).await;
    let batch = tasks(&agent, "good", 36, "accepted");
    site.post("events/batch", &batch).await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let found = assessed(site, &order).await;
    assert_eq!(found["status"], "completed", "{found}");
    (agent, found)
}

/// Records tasks completed from now on.
async fn complete(site: &Site, agent: &str, name: &str, many: usize) {
    let soon = Timestamp::now() + SignedDuration::from_secs(2);
    let event = |n| {
        json!({"agent_id": agent, "type": "task_completed", "timestamp": soon,
        "data": {"task_id": format!("{name}-{n}"), "completion_status": "accepted", "time_to_complete_seconds": 60,
            "revision_count": 0, "errors": []}})
    };
    let events: Vec<Value> = (0..many).map(event).collect();
    let recorded = site.post("events/batch", &json!({"events": events})).await;
    assert_eq!(recorded.json()["accepted"], many, "{recorded:?}");
}

/// Subscribes a receiver to these events (to all events if the list is empty) and returns the
/// address of its deliveries.
pub async fn listener(site: &Site, events: &[&str]) -> String {
    let mut body = json!({"url": "http://127.0.0.1:65535/"});
    if !events.is_empty() {
        body["events"] = json!(events);
    }
    let made = site.post("webhooks", &body).await.json();
    format!("webhooks/{}/deliveries", made["id"].as_str().unwrap())
}

pub async fn listed(site: &Site, path: &str) -> Vec<Value> {
    let listed = site.get(path).await.json();
    listed["data"].as_array().unwrap().clone()
}

#[rstest]
#[tokio::test]
async fn fifty_new_tasks_are_notified_once_per_rating(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let path = listener(&site, &["evidence.threshold_reached"]).await;
    let (agent, _) = rated(&site).await;
    let house = House::of(&site);
    complete(&site, &agent, "new", 49).await;
    house.keep(0).await;
    assert_eq!(listed(&site, &path).await, [] as [Value; 0]);
    // A task that was completed twice counts once.
    complete(&site, &agent, "new", 10).await;
    house.keep(2 * HOUR).await;
    assert_eq!(listed(&site, &path).await, [] as [Value; 0]);
    complete(&site, &agent, "newer", 1).await;
    for _ in 0..2 {
        house.keep(2 * HOUR).await;
        let told = listed(&site, &path).await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["event"], "evidence.threshold_reached");
    }
}

#[rstest]
#[tokio::test]
async fn an_old_rating_is_notified_once(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let path = listener(&site, &["evidence.threshold_reached"]).await;
    let (_, found) = rated(&site).await;
    let house = House::of(&site);
    let since: Timestamp = found["created_at"].as_str().unwrap().parse().unwrap();
    house.keep(90 * DAY - HOUR).await;
    assert_eq!(listed(&site, &path).await, [] as [Value; 0], "{since}");
    for _ in 0..2 {
        house.keep(2 * HOUR).await;
        assert_eq!(listed(&site, &path).await.len(), 1);
    }
    // Another organization has an agent too and receives no event about this one.
    let body = json!({"url": "http://127.0.0.1:65535/"});
    let theirs = site.send_as(
        &site.theirs,
        axum::http::Method::POST,
        "webhooks",
        Some(&body),
    );
    let theirs = theirs.await.json()["id"].as_str().unwrap().to_owned();
    house.keep(2 * HOUR).await;
    let theirs = format!("webhooks/{theirs}/deliveries");
    let theirs = site.send_as(&site.theirs, axum::http::Method::GET, &theirs, None);
    assert_eq!(theirs.await.json()["data"], json!([]));
}

#[rstest]
#[tokio::test]
async fn evidence_is_deleted_after_half_a_year_but_not_under_an_assessment(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let (busy, idle) = (site.enrol("busy").await, site.enrol("idle").await);
    for agent in [&busy, &idle] {
        let batch = tasks(agent, "t", 40, "accepted");
        site.post("events/batch", &batch).await;
    }
    ordered(&site, &busy).await;
    let house = House::of(&site);
    let events = async |agent: &str| {
        let path = format!("events?agent_id={agent}&limit=200");
        listed(&site, &path).await.len()
    };
    house.keep(179 * DAY).await;
    assert_eq!((events(&busy).await, events(&idle).await), (81, 80));
    house.keep(2 * DAY).await;
    assert_eq!((events(&busy).await, events(&idle).await), (81, 0));
    // The assessment has ended and no longer keeps evidence.
    site.host.assess();
    let path = format!("assessments?agent_id={busy}");
    while listed(&site, &path).await[0]["completed_at"].is_null() {
        crate::support::pause().await;
    }
    house.keep(2 * DAY).await;
    assert_eq!(events(&busy).await, 0);
}

#[rstest]
#[tokio::test]
async fn evidence_under_an_open_appeal_is_kept_until_it_is_decided(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let assessment = appeals::rated(&site).await;
    let appeal = appeals::filed(&site, &assessment, &["speed"]).await;
    let house = House::of(&site);
    let path = format!(
        "events?agent_id={}&limit=200",
        assessment["agent_id"].as_str().unwrap()
    );
    let before = listed(&site, &path).await.len();
    assert!(before > 0);
    house.keep(181 * DAY).await;
    assert_eq!(listed(&site, &path).await.len(), before);
    appeals::reject(&site, &appeal).await;
    house.keep(2 * DAY).await;
    assert_eq!(listed(&site, &path).await.len(), 0);
}

#[rstest]
#[tokio::test]
async fn results_of_stress_tests_are_deleted_after_a_year(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let agent = site.enrol("triage").await;
    let assessment = ordered(&site, &agent).await;
    let organization =
        rating_store::organizations::organization(&site.host.store, &site.ours.id).await;
    let organization = organization.unwrap().unwrap().number;
    let result = |task: &str| StressResult {
        test: "domain-breadth".to_owned(),
        task: task.to_owned(),
        run_id: RunId::from("run_1"),
        outcome: StressOutcome::Pass,
        score: 1.0,
    };
    let (store, now) = (&site.host.store, Timestamp::now());
    let results = [result("a"), result("b")];
    let recorded = rating_store::stress_tests::record_stress_results(
        store,
        organization,
        &assessment,
        &results,
        now,
    );
    recorded.await.unwrap();
    let path = format!("assessments/{assessment}/stress-test");
    let house = House::of(&site);
    house.keep(364 * DAY).await;
    assert_eq!(listed(&site, &path).await.len(), 2);
    house.keep(2 * DAY).await;
    assert_eq!(listed(&site, &path).await.len(), 0);
}

/// Evidence is deleted at its retention limit; the results computed from it are kept.
#[rstest]
#[tokio::test]
async fn assessments_scores_badges_and_appeals_outlive_every_retention(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let assessment = appeals::rated(&site).await;
    let appeal = appeals::filed(&site, &assessment, &["speed"]).await;
    appeals::reject(&site, &appeal).await;
    let text = |of: &Value, name: &str| of[name].as_str().unwrap().to_owned();
    let (id, agent) = (text(&assessment, "id"), text(&assessment, "agent_id"));
    let badge = text(&assessment, "badge_id");
    let paths = [
        format!("assessments/{id}"),
        format!("assessments?agent_id={agent}"),
        format!("assessments/{id}/appeals"),
        format!("assessments/{id}/appeals/{}", text(&appeal, "id")),
        format!("badges/{badge}"),
        format!("badges/{badge}/credential"),
        format!("badges/{badge}/verify"),
    ];
    let served = async || {
        let mut served = Vec::new();
        for path in &paths {
            let reply = site.get(path).await;
            assert_eq!(reply.status, 200, "{path}: {reply:?}");
            served.push(reply.json());
        }
        served
    };
    let before = served().await;
    let accuracy = &before[0]["result"]["performance"]["dimensions"]["accuracy"];
    assert!(accuracy["score"].is_number(), "{accuracy}");
    let house = House::of(&site);
    for years in [1, 10, 100] {
        house.keep(years * 366 * DAY).await;
        let path = format!("events?agent_id={agent}");
        assert_eq!(listed(&site, &path).await, [] as [Value; 0]);
        let after = served().await;
        for (path, (before, after)) in paths.iter().zip(before.iter().zip(&after)) {
            assert_eq!(before, after, "{path}");
        }
    }
}

#[rstest]
#[tokio::test]
async fn deliveries_that_are_over_are_deleted_after_a_month(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let (webhook, delivery) = crate::ratings::api::organizations::webhooks::told(&site).await;
    let path = format!("webhooks/{webhook}/deliveries");
    let house = House::of(&site);
    house.keep(31 * DAY).await;
    assert_eq!(
        listed(&site, &path).await.len(),
        1,
        "the delivery is pending"
    );
    let store = &site.host.store;
    let now = Timestamp::now();
    let claim =
        rating_store::notices::claim_notice_webhook(store, "t", Duration::from_secs(60), now).await;
    let claim = claim.unwrap().unwrap();
    let over = touchstone_ratings::ports::notices::Attempted {
        id: delivery,
        at: now,
        outcome: "status_500".to_owned(),
        next: touchstone_ratings::rules::notice::schedule::NextStep::GiveUp,
    };
    let health = claim.webhook.health;
    rating_store::notices::attempted(store, &claim, &[over], &health, Duration::from_secs(60))
        .await
        .unwrap();
    house.keep(2 * DAY).await;
    assert_eq!(listed(&site, &path).await, [] as [Value; 0]);
}

#[rstest]
#[tokio::test]
async fn a_job_is_done_by_one_at_a_time_and_not_before_its_time(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let store = &site.host.store;
    let now = Timestamp::now();
    let (long, hour) = (Duration::from_secs(60), SignedDuration::from_hours(1));
    let begin = async |owner: &str, at: Timestamp, ttl| {
        job_store::begin_job(store, "j", owner, at - hour, ttl)
            .await
            .unwrap()
    };
    assert!(begin("a", now, long).await);
    assert!(!begin("b", now, long).await, "another worker runs the job");
    job_store::hold_job(store, "j", "a", Duration::ZERO)
        .await
        .unwrap();
    assert!(begin("b", now, long).await, "the earlier lease has expired");
    let lost = job_store::hold_job(store, "j", "a", long).await;
    assert!(matches!(
        lost,
        Err(touchstone_host::ports::store::StoreError::Fenced)
    ));
    job_store::end_job(store, "j", "a", now).await.unwrap();
    assert!(
        !begin("a", now, long).await,
        "only the lease holder ends the job"
    );
    job_store::end_job(store, "j", "b", now).await.unwrap();
    assert!(!begin("a", now, long).await, "it was done just now");
    assert!(begin("a", now + hour + hour, long).await);
}

#[rstest]
#[tokio::test]
async fn expiry_of_a_badge_is_notified_two_weeks_before_and_at_the_end(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let path = listener(&site, &["badge.expiring", "badge.expired"]).await;
    let (_, found) = rated(&site).await;
    assert_eq!(found["badge_state"], "issued", "{found}");
    let house = House::of(&site);
    let events = async || -> Vec<String> {
        let told = listed(&site, &path).await;
        let events = told
            .iter()
            .map(|it| it["event"].as_str().unwrap().to_owned());
        events.collect()
    };
    house.keep(75 * DAY).await;
    assert_eq!(events().await, [] as [String; 0]);
    for _ in 0..2 {
        house.keep(DAY + 2 * HOUR).await;
        assert_eq!(events().await, ["badge.expiring"]);
    }
    house.keep(13 * DAY).await;
    for _ in 0..2 {
        assert_eq!(events().await, ["badge.expiring", "badge.expired"]);
        house.keep(DAY).await;
    }
}

/// The expiry of a revoked badge causes no event.
#[tokio::test]
async fn expiry_of_a_revoked_badge_is_not_notified() {
    site!(Engine::Sqlite => site);
    let path = listener(&site, &[]).await;
    let (_, found) = rated(&site).await;
    let revoke = format!("badges/{}/revoke", found["badge_id"].as_str().unwrap());
    let revoked = site.post(&revoke, &json!({"reason": "withdrawn"})).await;
    assert_eq!(revoked.status, 200, "{revoked:?}");
    let before = listed(&site, &path).await.len();
    let house = House::of(&site);
    house.keep(89 * DAY).await;
    assert_eq!(listed(&site, &path).await.len(), before);
}
