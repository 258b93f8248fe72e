//! Appeals: the filing deadline, resolution by a second person, and recomputation of the challenged
//! dimension only.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;

use super::assessments::{assessed, work};
use super::{Engine, Site, refusal, site};
use crate::http::support::host::Reply;

/// An agent with some rejected tasks, and its completed assessment.
pub async fn rated(site: &Site) -> Value {
    let assessing = site.host.assess();
    let agent = site.enrol("triage").await;
    work(site, &agent, "good", 36, "accepted").await;
    work(site, &agent, "bad", 4, "rejected").await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let found = assessed(site, &order).await;
    assessing.cancel();
    assert_eq!(found["badge_state"], "issued", "{found}");
    found
}

pub fn filing(dimensions: &[&str]) -> Value {
    json!({"dimensions": dimensions, "justification": "The specification was wrong.",
        "counter_evidence": [{"task_id": "bad-0", "claim": "The task was impossible."}]})
}

fn path(assessment: &Value) -> String {
    format!("assessments/{}/appeals", assessment["id"].as_str().unwrap())
}

pub async fn filed(site: &Site, assessment: &Value, dimensions: &[&str]) -> Value {
    let filed = site.post(&path(assessment), &filing(dimensions)).await;
    assert_eq!(filed.status, StatusCode::CREATED, "{filed:?}");
    filed.json()
}

/// Resolves with a separate key that has the scope to decide appeals.
pub async fn resolve(site: &Site, appeal: &Value, principal: &str, ruling: &Value) -> Reply {
    let tenant = site.ours.id.clone();
    let key = site.host.issue(|issue| {
        issue.tenant = tenant.as_str().into();
        issue.scopes = vec![Scope::AppealsReview];
        issue.principal = Some(principal.to_owned());
    });
    let path = format!(
        "/api/v1/assessments/{}/appeals/{}/resolve",
        appeal["assessment_id"].as_str().unwrap(),
        appeal["id"].as_str().unwrap()
    );
    let call = site.host.request(Method::POST, &path).key(&key.await);
    call.json(ruling).send().await
}

async fn found(site: &Site, assessment: &Value) -> Value {
    let path = format!("assessments/{}", assessment["id"].as_str().unwrap());
    site.get(&path).await.json()
}

async fn verified(site: &Site, badge: &Value) -> Value {
    let path = format!("/api/v1/badges/{}/verify", badge.as_str().unwrap());
    site.anonymous(&path).await.json()
}

/// A filed appeal that has not been resolved.
pub async fn open(site: &Site) -> Value {
    let assessment = rated(site).await;
    filed(site, &assessment, &["speed"]).await
}

/// A rejected appeal.
pub async fn rejected(site: &Site) -> Value {
    let assessment = rated(site).await;
    let appeal = filed(site, &assessment, &["speed"]).await;
    reject(site, &appeal).await;
    appeal
}

/// Rejects an appeal as a second principal.
pub async fn reject(site: &Site, appeal: &Value) {
    let reject = json!({"decision": "reject", "reason": "The task was possible."});
    let ruled = resolve(site, appeal, "dana", &reject).await;
    assert_eq!(ruled.json()["status"], "rejected", "{ruled:?}");
}

fn exclude(tasks: std::ops::Range<usize>) -> Value {
    let tasks = tasks.map(|n| json!({"type": "exclude_task", "task_id": format!("bad-{n}")}));
    tasks.collect()
}

#[rstest]
#[tokio::test]
async fn an_accepted_appeal_changes_what_was_challenged_and_the_badge(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let before = rated(&site).await;
    let agent = before["agent_id"].as_str().unwrap().to_owned();
    let appeal = filed(&site, &before, &["task_completion_rate"]).await;
    assert_eq!(
        (&appeal["status"], &appeal["reviewed_by"]),
        (&json!("filed"), &Value::Null)
    );
    let old = verified(&site, &before["badge_id"]).await;
    assert_eq!(
        (&old["valid"], &old["appeal_open"]),
        (&json!(true), &json!(true))
    );
    // Events recorded later, even with earlier timestamps, do not change the assessment.
    work(&site, &agent, "late", 20, "rejected").await;

    let looked = resolve(&site, &appeal, "dana", &json!({"decision": "review"}))
        .await
        .json();
    assert_eq!(
        (&looked["status"], &looked["reviewed_by"]),
        (&json!("under_review"), &json!("dana"))
    );
    let accept = json!({"decision": "accept", "reason": "Indeed.", "overrides": exclude(0..4)});
    let accepted = resolve(&site, &appeal, "dana", &accept).await;
    assert_eq!(accepted.status, StatusCode::OK, "{accepted:?}");
    let accepted = accepted.json();
    assert_eq!(
        (
            &accepted["status"],
            &accepted["changed_dimensions"],
            &accepted["evidence_differs"]
        ),
        (
            &json!("accepted"),
            &json!(["task_completion_rate"]),
            &json!(false)
        )
    );
    let kept = site
        .get(&format!(
            "{}/{}",
            path(&before),
            appeal["id"].as_str().unwrap()
        ))
        .await;
    assert_eq!(kept.json(), accepted);

    let after = found(&site, &before).await;
    let dimension =
        |of: &Value, name: &str| of["result"]["performance"]["dimensions"][name].clone();
    assert_eq!(
        dimension(&after, "accuracy"),
        dimension(&before, "accuracy")
    );
    assert_eq!(
        after["result"]["capability"],
        before["result"]["capability"]
    );
    let (then, now) = (
        dimension(&before, "task_completion_rate"),
        dimension(&after, "task_completion_rate"),
    );
    assert_eq!(
        (&now["score"], &now["previous_score"]),
        (&json!(1.0), &then["score"])
    );
    assert_eq!(now["appeal_id"], appeal["id"]);
    let composite = |of: &Value| {
        of["result"]["performance"]["composite_score"]
            .as_f64()
            .unwrap()
    };
    assert!(composite(&after) > composite(&before));

    assert_eq!(
        (&after["badge_id"], &after["badge_state"]),
        (&accepted["badge_id"], &json!("issued"))
    );
    let old = verified(&site, &before["badge_id"]).await;
    assert_eq!(
        (&old["valid"], &old["revoke_reason"], &old["appeal_open"]),
        (&json!(false), &json!("superseded"), &json!(false))
    );
    let new = verified(&site, &after["badge_id"]).await;
    assert_eq!(
        (&new["valid"], &new["valid_until"]),
        (&json!(true), &old["valid_until"])
    );
    let badge = format!("badges/{}", after["badge_id"].as_str().unwrap());
    assert_eq!(site.get(&badge).await.json()["revision"], 2);

    // A second appeal starts from the evidence as changed by the first.
    let second = filed(&site, &before, &["accuracy"]).await;
    let same = json!({"decision": "accept", "overrides": exclude(0..1)});
    let again = resolve(&site, &second, "dana", &same).await.json();
    assert_eq!(again["changed_dimensions"], json!(["accuracy"]), "{again}");
    let last = found(&site, &before).await;
    assert_eq!(
        dimension(&last, "task_completion_rate"),
        dimension(&after, "task_completion_rate")
    );
    let listed = site.get(&path(&before)).await.json();
    let listed: Vec<&Value> = listed["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["id"])
        .collect();
    assert_eq!(listed, [&appeal["id"], &second["id"]]);
    let audit = site
        .host
        .store
        .audit_entries(&site.ours.id.as_str().into(), 0, 100)
        .await;
    let audit: Vec<String> = audit.unwrap().into_iter().map(|it| it.body).collect();
    for action in ["appeals:file", "appeals:review", "appeals:accept"] {
        assert!(audit.iter().any(|it| it.contains(action)), "{action}");
    }
}

#[rstest]
#[tokio::test]
async fn a_rejected_appeal_changes_nothing(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let before = rated(&site).await;
    let appeal = filed(&site, &before, &["speed", "accuracy"]).await;
    let twice = site.post(&path(&before), &filing(&["accuracy"])).await;
    assert_eq!(
        refusal(&twice),
        (StatusCode::CONFLICT, "APPEAL_OPEN".to_owned())
    );
    let other = filed(&site, &before, &["consistency"]).await;
    let reject = json!({"decision": "reject", "reason": "The task was possible."});
    let filer = appeal["filed_by"].as_str().unwrap();
    for principal in [filer, before["agent_id"].as_str().unwrap()] {
        let refused = resolve(&site, &appeal, principal, &reject).await;
        assert_eq!(
            refusal(&refused),
            (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned())
        );
    }
    let rejected = resolve(&site, &appeal, "dana", &reject).await.json();
    assert_eq!(
        (&rejected["status"], &rejected["overrides"]),
        (&json!("rejected"), &Value::Null)
    );
    for ruling in [&reject, &json!({"decision": "review"})] {
        let twice = resolve(&site, &appeal, "dana", ruling).await;
        assert_eq!(
            refusal(&twice),
            (StatusCode::CONFLICT, "CONFLICT".to_owned())
        );
    }
    assert_eq!(found(&site, &before).await, before);
    assert_eq!(
        verified(&site, &before["badge_id"]).await["appeal_open"],
        true,
        "the other one"
    );
    resolve(&site, &other, "dana", &reject).await;
    assert_eq!(
        verified(&site, &before["badge_id"]).await["appeal_open"],
        false
    );
    filed(&site, &before, &["accuracy"]).await;
}

#[rstest]
#[tokio::test]
async fn a_dimension_is_appealed_three_times_at_most(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let assessment = rated(&site).await;
    for _ in 0..3 {
        let appeal = filed(&site, &assessment, &["speed", "accuracy"]).await;
        reject(&site, &appeal).await;
    }
    let again = site.post(&path(&assessment), &filing(&["accuracy"])).await;
    assert_eq!(
        refusal(&again),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );
    let details = &again.json()["error"]["details"];
    assert_eq!(
        (&details["dimension"], &details["limit"]),
        (&json!("accuracy"), &json!(3))
    );
    filed(&site, &assessment, &["consistency"]).await;
}

#[tokio::test]
async fn invalid_overrides_are_refused_and_the_appeal_stays_open() {
    site!(Engine::Sqlite => site);
    let before = rated(&site).await;
    let events = format!(
        "events?agent_id={}&type=task_completed",
        before["agent_id"].as_str().unwrap()
    );
    let events = site.get(&events).await.json();
    let event = &events["data"][0]["id"];
    let appeal = filed(&site, &before, &["task_completion_rate"]).await;
    let broken = json!({"decision": "accept", "overrides": [{"type": "set_field", "event_id": event,
        "field": "completion_status", "value": "splendid"}]});
    let refused = resolve(&site, &appeal, "dana", &broken).await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::BAD_REQUEST, "INVALID_REQUEST".to_owned())
    );
    assert_eq!(refused.json()["error"]["details"]["field"], "overrides");
    // A mistake in an override could not be undone once the appeal is resolved.
    let set = |event: &Value, field: &str| json!({"type": "set_field", "event_id": event, "field": field, "value": "accepted"});
    let revision = |task: &str, number: u32| json!({"type": "revision_not_error", "task_id": task, "revision_number": number});
    for (idle, said) in [
        (exclude(7..8)[0].clone(), "bad-7"),
        (revision("bad-7", 1), "bad-7"),
        (revision("bad-1", 1), "revision 1"),
        (set(&json!("unheard-of"), "completion_status"), "unheard-of"),
        (set(event, "completion_stats"), "completion_stats"),
        (set(event, "tool"), "task_completed"),
    ] {
        let overrides = json!([exclude(0..1)[0], idle]);
        let accept = json!({"decision": "accept", "overrides": overrides});
        let refused = resolve(&site, &appeal, "dana", &accept).await;
        assert_eq!(
            refusal(&refused),
            (StatusCode::BAD_REQUEST, "INVALID_REQUEST".to_owned())
        );
        let error = refused.json()["error"].clone();
        assert_eq!(error["details"]["field"], "overrides");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("position 1") && message.contains(said),
            "{message}"
        );
    }
    assert_eq!(found(&site, &before).await, before);
    // The appeal is still open.
    let accept = json!({"decision": "accept", "overrides": [set(event, "completion_status")]});
    let accepted = resolve(&site, &appeal, "dana", &accept).await;
    assert_eq!(accepted.json()["status"], "accepted", "{accepted:?}");
}

#[tokio::test]
async fn appeals_require_an_open_window_and_a_completed_assessment() {
    site!(Engine::Sqlite => site);
    let before = rated(&site).await;
    site.host.clock.ahead(15);
    let late = site.post(&path(&before), &filing(&["accuracy"])).await;
    assert_eq!(
        refusal(&late),
        (
            StatusCode::UNPROCESSABLE_ENTITY,
            "APPEAL_WINDOW_CLOSED".to_owned()
        )
    );
    site.host.clock.ahead(13);
    filed(&site, &before, &["accuracy"]).await;
    site.host.clock.ahead(0);
    let agent = site.enrol("other").await;
    let pending = super::assessments::ordered(&site, &agent).await;
    let pending = site
        .post(
            &format!("assessments/{pending}/appeals"),
            &filing(&["accuracy"]),
        )
        .await;
    assert_eq!(
        refusal(&pending),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );
}
