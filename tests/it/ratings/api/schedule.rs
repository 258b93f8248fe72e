//! Assessments that the host requests on an organization's schedule.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use touchstone_ratings::service::assessments::schedule::Scheduler;

use super::assessments::{assessed, ended};
use super::housekeeping::{listed, listener, rated};
use super::{Engine, Site, refusal, site};

const ORDERED: &str = "reassessment.ordered";
const FAILED: &str = "reassessment.failed";

/// Runs the scheduler as a replica would, this many days from now.
async fn look(site: &Site, replica: &str, days: i64) {
    site.host.clock.ahead(days);
    let scheduler = Scheduler::new(site.host.ratings.clone(), replica.to_owned());
    scheduler.run(&CancellationToken::new()).await.unwrap();
}

async fn configure(site: &Site, settings: &Value) {
    let path = format!("organizations/{}/config", site.ours.id);
    let set = site.send(Method::PATCH, &path, Some(settings)).await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
}

async fn assessments(site: &Site, agent: &str) -> Vec<Value> {
    listed(site, &format!("assessments?agent_id={agent}")).await
}

async fn told(site: &Site, path: &str) -> Vec<String> {
    let told = listed(site, path).await;
    let events = told.iter().map(|it| it["event"].as_str().unwrap());
    events.map(str::to_owned).collect()
}

#[rstest]
#[tokio::test]
async fn an_assessment_is_ordered_once_when_the_interval_is_over(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let path = listener(&site, &[ORDERED, FAILED]).await;
    let unrated = site.enrol("unrated").await;
    let (agent, first) = rated(&site).await;
    look(&site, "a", 8).await;
    assert_eq!(assessments(&site, &agent).await.len(), 1, "no schedule");
    configure(&site, &json!({"reassessment_interval_days": 10})).await;
    look(&site, "a", 9).await;
    assert_eq!(assessments(&site, &agent).await.len(), 1, "not due");
    tokio::join!(look(&site, "a", 10), look(&site, "b", 10));
    let all = assessments(&site, &agent).await;
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(
        (&all[1]["triggered_by"], &all[1]["type"]),
        (&json!("schedule"), &first["type"])
    );
    let id = all[1]["id"].as_str().unwrap();
    let second = ended(&site, id).await;
    assert_eq!(second["status"], "completed", "{second}");
    assert_eq!(told(&site, &path).await, [ORDERED]);
    // From then on, the interval starts at the new rating.
    look(&site, "b", 19).await;
    assert_eq!(assessments(&site, &agent).await.len(), 2);
    look(&site, "b", 20).await;
    assert_eq!(assessments(&site, &agent).await.len(), 3);
    assert_eq!(told(&site, &path).await, [ORDERED, ORDERED]);
    assert_eq!(assessments(&site, &unrated).await, [] as [Value; 0]);
}

#[rstest]
#[tokio::test]
async fn an_assessment_is_ordered_before_the_badge_ends(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let settings = json!({"validity_period_days": 10, "reassessment_days_before_expiry": 3});
    configure(&site, &settings).await;
    let (agent, first) = rated(&site).await;
    assert_eq!(first["badge_state"], "issued", "{first}");
    look(&site, "a", 6).await;
    assert_eq!(assessments(&site, &agent).await.len(), 1);
    look(&site, "a", 8).await;
    assert_eq!(assessments(&site, &agent).await.len(), 2);

    let path = format!("organizations/{}/config", site.ours.id);
    let always_due = json!({"reassessment_days_before_expiry": 10});
    let refused = site.send(Method::PATCH, &path, Some(&always_due)).await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::BAD_REQUEST, "INVALID_REQUEST".to_owned())
    );
}

#[rstest]
#[tokio::test]
async fn a_badge_that_ends_is_renewed_once_even_if_a_newer_rating_has_none(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let settings = json!({"validity_period_days": 10, "reassessment_days_before_expiry": 3});
    configure(&site, &settings).await;
    let (agent, first) = rated(&site).await;
    assert_eq!(first["badge_state"], "issued", "{first}");
    // The badges of all later ratings wait for a review.
    configure(&site, &json!({"review_policy": "always"})).await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let second = assessed(&site, &order).await;
    assert_eq!(second["badge_state"], "withheld", "{second}");
    look(&site, "a", 6).await;
    assert_eq!(assessments(&site, &agent).await.len(), 2);
    look(&site, "a", 8).await;
    let all = assessments(&site, &agent).await;
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(all[2]["triggered_by"], "schedule");
    let third = ended(&site, all[2]["id"].as_str().unwrap()).await;
    assert_eq!(third["badge_state"], "withheld", "{third}");
    for days in [9, 12] {
        look(&site, "a", days).await;
        let many = assessments(&site, &agent).await.len();
        assert_eq!(many, 3, "after {days} days: it was assessed for this badge");
    }
}

#[rstest]
#[tokio::test]
async fn a_refused_scheduled_assessment_is_notified_once(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let path = listener(&site, &[ORDERED, FAILED]).await;
    let (agent, _) = rated(&site).await;
    configure(&site, &json!({"reassessment_interval_days": 30})).await;
    // By then, all evidence is older than the window.
    for days in [40, 41, 44, 50] {
        look(&site, "a", days).await;
        assert_eq!(told(&site, &path).await, [FAILED], "after {days} days");
    }
    assert_eq!(assessments(&site, &agent).await.len(), 1);
}

#[tokio::test]
async fn a_suspended_agent_is_not_assessed_by_schedule() {
    site!(Engine::Sqlite => site);
    let path = listener(&site, &[ORDERED, FAILED]).await;
    let (agent, _) = rated(&site).await;
    configure(&site, &json!({"reassessment_interval_days": 7})).await;
    let change = async |status: &str| {
        let body = json!({"status": status});
        let path = format!("agents/{agent}");
        let changed = site.send(Method::PATCH, &path, Some(&body)).await;
        assert_eq!(changed.status, StatusCode::OK, "{changed:?}");
    };
    change("suspended").await;
    look(&site, "a", 8).await;
    assert_eq!(told(&site, &path).await, [] as [&str; 0]);
    change("active").await;
    look(&site, "a", 9).await;
    assert_eq!(told(&site, &path).await, [ORDERED]);
}
