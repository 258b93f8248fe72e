//! Assessments: requested, computed in the background, deduplicated, and reviewed by a second
//! person.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_ratings::ports::assessments::AssessmentClaim;
use touchstone_ratings::ports::events::{NewEvent, Origin};
use touchstone_ratings::rules::evidence::Recorder;
use touchstone_ratings::rules::{Assessment, Config, Event, score};
use touchstone_ratings::store as rating_store;

use super::{Engine, Site, refusal, site};
use crate::support::evidence::collecting;

fn ago(seconds: i64) -> String {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    (now - SignedDuration::from_secs(seconds)).to_string()
}

/// Tasks with the fields that most dimensions use.
pub fn tasks(agent: &str, name: &str, tasks: usize, status: &str) -> Value {
    tasks_since(agent, name, tasks, status, 40_000)
}

/// Like [`tasks`], with the first task started this many seconds ago.
pub fn tasks_since(agent: &str, name: &str, tasks: usize, status: &str, since: i64) -> Value {
    // One moment, so that a task takes exactly its time.
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let ago = |seconds: i64| (now - SignedDuration::from_secs(seconds)).to_string();
    let mut events = Vec::new();
    for n in 0..tasks {
        let task = format!("{name}-{n}");
        let began = since - i64::try_from(n).unwrap() * 60;
        events.push(json!({"agent_id": agent, "type": "task_assigned", "timestamp": ago(began),
            "data": {"task_id": task, "complexity_level": n % 3 + 1, "domain": "code", "assigned_at": ago(began)}}));
        events.push(json!({"agent_id": agent, "type": "task_completed", "timestamp": ago(began - 300),
            "data": {"task_id": task, "completion_status": status, "time_to_complete_seconds": 300, "revision_count": 0,
                "errors": [], "autonomy_level": 2, "review_checklist": {"format": true, "tests": n % 4 != 0},
                "tools_used": [{"tool": "grep", "invocations": 4, "successes": 3, "unnecessary": 1, "errors_recovered": 1}]}}));
    }
    json!({"events": events})
}

/// Makes evidence collection for an agent look this many days old.
pub async fn collecting_for(site: &Site, agent: &str, days: i64) {
    collecting(&site.host.store, &site.ours.id, agent, days).await;
}

pub async fn work(site: &Site, agent: &str, name: &str, many: usize, status: &str) {
    collecting_for(site, agent, 31).await;
    let batch = tasks(agent, name, many, status);
    let recorded = site.post("events/batch", &batch).await;
    assert_eq!(recorded.json()["rejected"], 0, "{recorded:?}");
}

/// A requested assessment that no worker has claimed.
pub async fn ordered(site: &Site, agent: &str) -> String {
    let event = json!({"agent_id": agent, "type": "tool_invoked", "timestamp": ago(60), "data": {"task_id": "t",
        "tool": "grep", "success": true, "unnecessary": false, "error_recovered": null}});
    site.post("events", &event).await;
    let order =
        json!({"agent_id": agent, "type": "single_dimension", "dimension": "tool_proficiency"});
    let ordered = site.post("assessments", &order).await;
    assert_eq!(ordered.status, StatusCode::ACCEPTED, "{ordered:?}");
    ordered.json()["id"].as_str().unwrap().to_owned()
}

/// Requests an assessment and waits until it has ended.
pub async fn assessed(site: &Site, order: &Value) -> Value {
    let asked = site.post("assessments", order).await;
    assert_eq!(asked.status, StatusCode::ACCEPTED, "{asked:?}");
    let id = asked.json()["id"].as_str().unwrap().to_owned();
    ended(site, &id).await
}

pub async fn ended(site: &Site, id: &str) -> Value {
    loop {
        let reply = site.get(&format!("assessments/{id}")).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        let now = reply.json();
        if ["completed", "failed"].contains(&now["status"].as_str().unwrap()) {
            return now;
        }
        crate::support::pause().await;
    }
}

#[rstest]
#[tokio::test]
async fn an_assessment_is_reproducible_from_the_stored_evidence(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    work(&site, &agent, "good", 36, "accepted").await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let found = assessed(&site, &order).await;
    assert_eq!(
        (&found["status"], &found["error"]),
        (&json!("completed"), &json!(null)),
        "{found}"
    );
    assert_eq!(
        found["review_required"], false,
        "the first assessment has no comparison"
    );
    let result = &found["result"];
    assert_eq!(result["tasks_performance"], 36);
    for axis in ["performance", "capability"] {
        assert!(result[axis]["tier"].is_string(), "{result}");
    }
    let listed = site
        .get(&format!("assessments?agent_id={agent}&status=completed"))
        .await
        .json();
    assert_eq!(listed["data"], json!([found]));

    // Anyone with the evidence and the snapshot computes the same result.
    let events = site
        .get(&format!("events?agent_id={agent}&limit=200"))
        .await
        .json();
    let events: Vec<Event> = events["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let recorder = serde_json::from_value(it["recorder"].clone()).unwrap();
            Event::read(it).unwrap().recorded_by(recorder)
        })
        .collect();
    let config = Config::read(&found["config_snapshot"]).unwrap();
    let assessment = json!({"id": found["id"], "type": "passive_only", "window_start": found["window_start"],
        "window_end": found["window_end"]});
    let assessment: Assessment = serde_json::from_value(assessment).unwrap();
    let again = score(&events, &assessment, &config, &[]).unwrap();
    let again = serde_json::to_value(&again).unwrap();
    assert_eq!(again.to_string(), result.to_string());
}

#[rstest]
#[tokio::test]
async fn every_score_has_an_interval_and_a_move_says_whether_it_is_noise(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    work(&site, &agent, "good", 36, "accepted").await;
    let order = json!({"agent_id": agent, "type": "full", "include_stress_test": false});
    let first = assessed(&site, &order).await;
    let mut scored = 0;
    for axis in ["performance", "capability"] {
        for (name, measure) in first["result"][axis]["dimensions"].as_object().unwrap() {
            let Some(score) = measure["score"].as_f64() else {
                assert_eq!(first["intervals"].get(name), None, "{name}");
                continue;
            };
            let interval = &first["intervals"][name];
            let [low, high] = ["low", "high"].map(|it| interval[it].as_f64().unwrap());
            assert!(low <= score && score <= high, "{name}: {interval}");
            assert_eq!(interval["within_noise"], json!(null), "{name}");
            scored += 1;
        }
    }
    assert!(scored > 2, "{first}");
    let areas = first["improvement_areas"].as_array().unwrap();
    assert!(
        areas
            .iter()
            .any(|it| it["dimension"] == "orchestration_skills" && it["score"].is_null()),
        "{areas:?}"
    );

    work(&site, &agent, "bad", 60, "rejected").await;
    let second = assessed(&site, &order).await;
    let completion = &second["intervals"]["task_completion_rate"];
    assert_eq!(
        completion["previous"],
        first["intervals"]["task_completion_rate"]["score"]
    );
    assert_eq!(completion["within_noise"], false, "{completion}");
    let third = assessed(&site, &order).await;
    let completion = &third["intervals"]["task_completion_rate"];
    assert_eq!(completion["within_noise"], true, "{completion}");
}

#[tokio::test]
async fn assignments_before_the_window_still_count() {
    site!(Engine::Sqlite => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    let mut events = Vec::new();
    for n in 0..3 {
        let task = format!("t{n}");
        events.push(json!({"agent_id": agent, "type": "task_assigned", "timestamp": ago(40 * 86_400),
            "data": {"task_id": task, "complexity_level": 5, "domain": "legal", "assigned_at": ago(40 * 86_400)}}));
        events.push(json!({"agent_id": agent, "type": "task_completed", "timestamp": ago(100),
            "data": {"task_id": task, "completion_status": "accepted", "time_to_complete_seconds": 60, "revision_count": 0,
                "errors": []}}));
    }
    site.post("events/batch", &json!({"events": events})).await;
    let order =
        json!({"agent_id": agent, "type": "single_dimension", "dimension": "complexity_ceiling"});
    let found = assessed(&site, &order).await;
    assert_eq!(found["result"]["result"]["score"], 1.0, "{found}");
}

#[tokio::test]
async fn too_little_evidence_is_refused_at_once_and_nothing_is_recorded() {
    site!(Engine::Sqlite => site);
    let agent = site.enrol("triage").await;
    work(&site, &agent, "few", 19, "accepted").await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let refused = site.post("assessments", &order).await;
    assert_eq!(
        refusal(&refused),
        (
            StatusCode::UNPROCESSABLE_ENTITY,
            "INSUFFICIENT_EVIDENCE".to_owned()
        )
    );
    let details = &refused.json()["error"]["details"];
    assert_eq!(
        (
            &details["axis"],
            &details["current_count"],
            &details["required_count"]
        ),
        (&json!("performance"), &json!(19), &json!(20))
    );
    let nothing =
        json!({"agent_id": agent, "type": "single_dimension", "dimension": "orchestration_skills"});
    let refused = site.post("assessments", &nothing).await;
    assert_eq!(refusal(&refused).1, "INSUFFICIENT_EVIDENCE");
    assert_eq!(site.get("assessments").await.json()["data"], json!([]));
}

#[rstest]
#[case(json!({"type": "passive_only", "include_stress_test": true}), "include_stress_test")]
#[case(json!({"type": "stress_test_only"}), "include_stress_test")]
#[case(json!({"type": "stress_test_only", "include_stress_test": false}), "include_stress_test")]
#[case(json!({"type": "everything"}), "type")]
#[case(json!({"type": "single_dimension"}), "dimension")]
#[case(json!({"type": "single_dimension", "dimension": "charm"}), "dimension")]
#[case(json!({"type": "passive_only", "dimension": "speed"}), "dimension")]
#[case(json!({"type": "passive_only", "window_end": "2999-01-01T00:00:00Z"}), "window_end")]
#[case(json!({"type": "passive_only", "window_start": "2999-01-01T00:00:00Z"}), "window_start")]
#[case(json!({"type": "passive_only", "window_start": "soon"}), "window_start")]
#[tokio::test]
async fn invalid_assessment_requests_are_refused_by_field(
    #[case] order: Value,
    #[case] field: &str,
) {
    site!(Engine::Sqlite => site);
    let agent = site.enrol("triage").await;
    let mut order = order;
    order["agent_id"] = json!(agent);
    let refused = site.post("assessments", &order).await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::BAD_REQUEST, "INVALID_REQUEST".to_owned())
    );
    assert_eq!(refused.json()["error"]["details"]["field"], field);
}

/// Stress tests supplement recorded evidence: an agent that no host can run is assessed without
/// them.
#[rstest]
#[tokio::test]
async fn a_remote_agent_is_assessed_from_recorded_events(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[values(json!({}), json!({"type": "full"}), json!({"type": "full", "include_stress_test": true}))]
    order: Value,
) {
    site!(engine => site);
    let agent = site.enrol("triage").await;
    let mut order = order;
    order["agent_id"] = json!(agent);
    let refused = site.post("assessments", &order).await;
    assert_eq!(
        refusal(&refused),
        (
            StatusCode::UNPROCESSABLE_ENTITY,
            "INSUFFICIENT_EVIDENCE".to_owned()
        )
    );
    let why = &refused.json()["error"]["details"]["stress_test_omitted"];
    assert!(why.as_str().unwrap().contains("openwop_agent"), "{why}");
    site.host.assess();
    work(&site, &agent, "good", 36, "accepted").await;
    let found = assessed(&site, &order).await;
    assert_eq!(
        (&found["status"], &found["type"], &found["badge_state"]),
        (&json!("completed"), &json!("full"), &json!("issued")),
        "{found}"
    );
    assert_eq!(found["include_stress_test"], false);
    assert_eq!(&found["stress_test_omitted"], why);
}

#[rstest]
#[tokio::test]
async fn an_agent_has_one_open_assessment_which_fails_when_lost_twice(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let listener = json!({"url": "http://127.0.0.1:65535/", "event_types": ["assessment.failed"]});
    let listener = site.post("webhooks", &listener).await.json();
    let agent = site.enrol("triage").await;
    let id = ordered(&site, &agent).await;
    let order =
        json!({"agent_id": agent, "type": "single_dimension", "dimension": "tool_proficiency"});
    let second = site.post("assessments", &order).await;
    assert_eq!(
        refusal(&second),
        (StatusCode::CONFLICT, "ASSESSMENT_IN_PROGRESS".to_owned())
    );
    // Two workers that claimed it are gone: their leases expire at once.
    for claim in [1, 2] {
        let lost = rating_store::assessments::claim_assessment(
            &site.host.store,
            "gone",
            None,
            Duration::ZERO,
            Timestamp::now(),
        )
        .await;
        let lost = lost.unwrap().unwrap();
        assert_eq!(
            (lost.record.id.as_str(), lost.fence.0),
            (id.as_str(), claim)
        );
    }
    assert_eq!(
        site.get(&format!("assessments/{id}")).await.json()["status"],
        "in_progress"
    );
    let other = site.enrol("other").await;
    let other = ordered(&site, &other).await;
    site.host.assess();
    let found = ended(&site, &id).await;
    assert_eq!(
        (&found["status"], &found["error"]["code"]),
        (&json!("failed"), &json!("INTERNAL_ERROR"))
    );
    let told = format!("webhooks/{}/deliveries", listener["id"].as_str().unwrap());
    let told = site.get(&told).await.json();
    assert_eq!(told["data"].as_array().unwrap().len(), 1, "{told}");
    assert_eq!(told["data"][0]["event"], "assessment.failed");
    assert_eq!(
        ended(&site, &other).await["status"],
        "completed",
        "other agents are not blocked"
    );
    let again = assessed(&site, &order).await;
    assert_eq!(again["status"], "completed", "a new one may be asked for");
}

#[rstest]
#[tokio::test]
async fn large_score_changes_require_review_in_every_later_assessment(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    work(&site, &agent, "good", 36, "accepted").await;
    let order = json!({"agent_id": agent, "type": "full", "include_stress_test": false});
    assessed(&site, &order).await;
    work(&site, &agent, "bad", 60, "rejected").await;
    let tenant = site.ours.id.clone();
    let reviewer = site.host.issue(|issue| {
        issue.tenant = tenant.as_str().into();
        issue.scopes = vec![Scope::AssessmentsReview];
        issue.principal = Some("dana".to_owned());
    });
    let reviewer = reviewer.await;
    let review = async |of: &Value, decision: Value| {
        let path = format!("/api/v1/assessments/{}/review", of["id"].as_str().unwrap());
        let call = site.host.request(Method::POST, &path).key(&reviewer);
        let reviewed = call.json(&decision).send().await;
        assert_eq!(reviewed.status, StatusCode::OK, "{reviewed:?}");
    };
    let flags = async || {
        let found = assessed(&site, &order).await;
        let flags = found["calibration"]["flags"].clone();
        assert_eq!(found["review_required"], flags != json!([]), "{found}");
        (found, flags)
    };
    let (moved, flagged) = flags().await;
    assert_ne!(flagged, json!([]), "{moved}");
    let (again, same) = flags().await;
    assert_eq!(same, flagged, "flags stay until a review: {again}");
    let reject = json!({"decision": "reject", "reason": "It was another agent."});
    review(&moved, reject.clone()).await;
    review(&again, reject).await;
    let (third, same) = flags().await;
    assert_eq!(same, flagged, "they were rejected: {third}");
    review(&third, json!({"decision": "approve"})).await;
    let (last, quiet) = flags().await;
    assert_eq!(quiet, json!([]), "they were approved: {last}");
}

#[rstest]
#[tokio::test]
async fn large_score_changes_require_review_by_another_principal(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    work(&site, &agent, "good", 36, "accepted").await;
    let order = json!({"agent_id": agent, "type": "full", "include_stress_test": false});
    let first = assessed(&site, &order).await;
    assert_eq!(first["review_required"], false, "{first}");
    work(&site, &agent, "bad", 60, "rejected").await;
    let second = assessed(&site, &order).await;
    assert_eq!(
        (&second["status"], &second["review_required"]),
        (&json!("completed"), &json!(true)),
        "{second}"
    );
    let path = format!(
        "/api/v1/assessments/{}/review",
        second["id"].as_str().unwrap()
    );
    let tenant = site.ours.id.clone();
    let review = async |principal: Option<&str>, path: &str, body: &Value| {
        let key = site
            .host
            .issue(|issue| {
                issue.tenant = tenant.as_str().into();
                issue.scopes = vec![Scope::AssessmentsReview];
                issue.principal = principal.map(str::to_owned);
            })
            .await;
        let call = site.host.request(Method::POST, path).key(&key);
        call.json(body).send().await
    };
    let approve = json!({"decision": "approve", "reason": "A new version, and a bad one."});
    let by_the_key = site
        .send(
            Method::POST,
            path.strip_prefix("/api/v1/").unwrap(),
            Some(&approve),
        )
        .await;
    assert_eq!(
        refusal(&by_the_key),
        (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned())
    );
    let trigger = second["triggered_by"].as_str().unwrap();
    for principal in [trigger, &agent] {
        let refused = review(Some(principal), &path, &approve).await;
        assert_eq!(
            refusal(&refused),
            (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned())
        );
    }
    let refused = review(Some("dana"), &path, &json!({"decision": "reject"})).await;
    assert_eq!(refused.json()["error"]["details"]["field"], "reason");
    let reviewed = review(Some("dana"), &path, &approve).await;
    assert_eq!(reviewed.status, StatusCode::OK, "{reviewed:?}");
    let reviewed = reviewed.json();
    assert_eq!(
        (
            &reviewed["review"]["decision"],
            &reviewed["review"]["by"],
            &reviewed["review_required"]
        ),
        (&json!("approve"), &json!("dana"), &json!(false))
    );
    assert_eq!(
        reviewed["result"], second["result"],
        "a decision changes no score"
    );
    let kept = site
        .get(
            path.strip_prefix("/api/v1/")
                .unwrap()
                .strip_suffix("/review")
                .unwrap(),
        )
        .await;
    assert_eq!(kept.json(), reviewed);
    let twice = review(Some("dana"), &path, &approve).await;
    assert_eq!(
        refusal(&twice),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );
    let quiet = format!(
        "/api/v1/assessments/{}/review",
        first["id"].as_str().unwrap()
    );
    let quiet = review(Some("dana"), &quiet, &approve).await;
    assert_eq!(
        refusal(&quiet),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );
}

#[rstest]
#[tokio::test]
async fn an_assessment_waiting_for_its_stress_test_blocks_no_other(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let store = &site.host.store;
    let next = async || {
        let claim = rating_store::assessments::claim_assessment(
            store,
            "a",
            None,
            Duration::from_secs(60),
            Timestamp::now(),
        );
        claim.await.unwrap().unwrap()
    };
    let park = async |claim: &AssessmentClaim| {
        let parked = rating_store::assessments::park_assessment(
            store,
            &claim.record.id,
            claim.fence,
            Duration::ZERO,
        );
        parked.await.unwrap();
    };
    let mut waiting = Vec::new();
    for name in ["first", "second"] {
        let agent = site.enrol(name).await;
        waiting.push(ordered(&site, &agent).await);
    }
    for id in &waiting {
        let claim = next().await;
        assert_eq!(claim.record.id, *id);
        park(&claim).await;
    }
    let third = site.enrol("third").await;
    let third = ordered(&site, &third).await;
    let mut turns = Vec::new();
    for _ in 0..4 {
        let claim = next().await;
        park(&claim).await;
        turns.push(claim.record.id);
    }
    assert_eq!(
        turns,
        [&waiting[0], &waiting[1], &third, &waiting[0]].map(String::clone)
    );
}

#[tokio::test]
async fn a_badge_requires_a_complete_window_that_ends_now() {
    site!(Engine::Sqlite => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    let long_ago = tasks_since(&agent, "good", 36, "accepted", 60 * 86_400);
    let recorded = site.post("events/batch", &long_ago).await;
    assert_eq!(recorded.json()["rejected"], 0, "{recorded:?}");
    work(&site, &agent, "new", 36, "accepted").await;
    let day = 86_400;
    for (start, end, badge) in [
        (80 * day, 40 * day, json!("none")),
        (day, 0, json!("none")),
        (40 * day, 0, json!("issued")),
    ] {
        let order = json!({"agent_id": agent, "type": "passive_only", "window_start": ago(start), "window_end": ago(end)});
        let found = assessed(&site, &order).await;
        assert_eq!(
            (&found["status"], &found["badge_state"]),
            (&json!("completed"), &badge),
            "{found}"
        );
    }
}

#[rstest]
#[tokio::test]
async fn active_evidence_counts_only_for_the_open_assessment_of_its_agent(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let agent = site.enrol("triage").await;
    let other = site.enrol("other").await;
    let assessment = ordered(&site, &agent).await;
    let active = |agent: &str, assessment: &str, id: &str| {
        json!({"id": id, "agent_id": agent, "type": "tool_invoked", "timestamp": ago(5),
            "data": {"task_id": "t", "tool": "grep", "success": true, "unnecessary": false, "error_recovered": null,
                "assessment_id": assessment}})
    };
    let nobodys = "5f0c3f0e-6d5e-4f3a-9a53-0f8f5f1f1f1f";
    let batch = json!({"events": [
        active(&agent, &assessment, "own"),
        active(&other, &assessment, "of another agent"),
        active(&agent, nobodys, "of none"),
    ]});
    let answer = site.post("events/batch", &batch).await.json();
    assert_eq!(answer["accepted"], 1, "{answer}");
    let refused: Vec<&Value> = answer["errors"].as_array().unwrap().iter().collect();
    let refused: Vec<u64> = refused
        .iter()
        .filter(|it| {
            it["error"]
                .as_str()
                .unwrap()
                .starts_with("Unknown assessment_id")
        })
        .map(|it| it["index"].as_u64().unwrap())
        .collect();
    assert_eq!(refused, [1, 2]);
    site.host.assess();
    ended(&site, &assessment).await;
    let late = site
        .post("events", &active(&agent, &assessment, "late"))
        .await;
    assert_eq!(late.status, StatusCode::BAD_REQUEST, "{late:?}");
}

#[rstest]
#[case::a_minute(0, false)]
#[case::a_day_less(29, false)]
#[case::a_month(31, true)]
#[tokio::test]
async fn a_badge_takes_a_whole_window_of_collection(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[case] days: i64,
    #[case] certified: bool,
) {
    site!(engine => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    collecting_for(&site, &agent, days).await;
    let batch = tasks(&agent, "good", 36, "accepted");
    assert_eq!(
        site.post("events/batch", &batch).await.json()["rejected"],
        0
    );
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let found = assessed(&site, &order).await;
    assert_eq!(found["status"], "completed", "{found}");
    let state = if certified { "issued" } else { "none" };
    assert_eq!(found["badge_state"], state, "{found}");
    let why = found["not_certified"].as_str().unwrap_or_default();
    assert_eq!(
        why.contains("30 days of evidence collection"),
        !certified,
        "{found}"
    );
}

/// Self-reported events do not start collection either.
#[rstest]
#[tokio::test]
async fn an_agents_own_events_begin_no_collection(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    let own = crate::ratings::api::evidence::sources::key_of(&site, Some(&agent)).await;
    site.host.clock.ahead(-40);
    let event = json!({"agent_id": agent, "type": "tool_invoked", "timestamp": ago(40 * 86_400), "data": {"task_id": "t",
        "tool": "grep", "success": true, "unnecessary": false, "error_recovered": null}});
    let call = site.host.request(Method::POST, "/api/v1/events").key(&own);
    let recorded = call.json(&event).send().await;
    assert_eq!(recorded.status, StatusCode::CREATED, "{recorded:?}");
    site.host.clock.ahead(0);
    let batch = tasks(&agent, "good", 36, "accepted");
    site.post("events/batch", &batch).await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let found = assessed(&site, &order).await;
    assert_eq!(found["badge_state"], "none", "{found}");
}

#[tokio::test]
async fn more_events_than_are_held_at_once_are_assessed() {
    site!(Engine::Sqlite => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    work(&site, &agent, "good", 36, "accepted").await;
    let store = &site.host.store;
    let organization = rating_store::organizations::organization(store, &site.ours.id)
        .await
        .unwrap()
        .unwrap();
    let number = rating_store::agents::agent(store, organization.number, &agent)
        .await
        .unwrap();
    let number = number.unwrap().number;
    let now = Timestamp::now();
    let origin = Origin {
        source: "api",
        recorder: Recorder::Organization,
        principal: "ci",
    };
    for batch in 0..101_i64 {
        let events: Vec<NewEvent> = (0..1000_i64)
            .map(|n| {
                let task = format!("many-{}", n % 50);
                let data = json!({"task_id": task, "tool": "grep", "success": n % 2 == 0, "unnecessary": false,
                    "error_recovered": null});
                NewEvent {
                    id: format!("many-{batch}-{n}"),
                    agent: number,
                    kind: "tool_invoked",
                    occurred_at: now - SignedDuration::from_secs(batch * 1000 + n + 1),
                    task,
                    assessment: None,
                    data: data.to_string(),
                }
            })
            .collect();
        let recorded =
            rating_store::events::record_events(store, organization.number, &events, origin, now);
        assert!(recorded.await.unwrap().iter().all(|new| *new));
    }
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let found = assessed(&site, &order).await;
    assert_eq!(found["status"], "completed", "{found}");
    assert_eq!(found["badge_state"], "issued", "{found}");
    assert_eq!(found["result"]["evidence"]["events"], 101_072, "{found}");
    assert_eq!(found["result"]["tasks_capability"], 86, "{found}");
    // An appeal recomputes with all of them.
    let appeal = super::appeals::filed(&site, &found, &["tool_proficiency"]).await;
    let accept =
        json!({"decision": "accept", "overrides": [{"type": "exclude_task", "task_id": "many-0"}]});
    let accepted = super::appeals::resolve(&site, &appeal, "dana", &accept).await;
    assert_eq!(accepted.status, StatusCode::OK, "{accepted:?}");
    assert_eq!(accepted.json()["evidence_differs"], false, "{accepted:?}");
}

/// Such work would be lost, and an assessment that is lost twice fails.
#[rstest]
#[tokio::test]
async fn assessments_are_not_processed_while_the_database_is_read_only(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let site = Site::over(&database).await;
    let agent = site.enrol("triage").await;
    let id = ordered(&site, &agent).await;
    database.fail_checks().await;
    site.host.store.report_outage();
    site.host.assess();
    // Many polling intervals of the assessor.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let waiting = site.get(&format!("assessments/{id}")).await.json();
    assert_eq!(waiting["status"], "pending");
    database.pass_checks().await;
    assert_eq!(ended(&site, &id).await["status"], "completed");
}

/// The lease clock restarts at zero, and all earlier processes are gone.
#[tokio::test]
async fn after_a_machine_restart_waiting_assessments_can_be_claimed() {
    let Some(database) = Engine::Sqlite.database().await else {
        return;
    };
    let site = Site::over(&database).await;
    let store = &site.host.store;
    let mut waiting = Vec::new();
    for name in ["first", "second"] {
        let agent = site.enrol(name).await;
        waiting.push(ordered(&site, &agent).await);
    }
    let hour = Duration::from_secs(3600);
    let dead = database.open().await;
    let claim =
        rating_store::assessments::claim_assessment(&dead, "a", None, hour, Timestamp::now());
    let lost = claim.await.unwrap().unwrap();
    let parked =
        rating_store::assessments::park_assessment(&dead, &lost.record.id, lost.fence, hour);
    parked.await.unwrap();
    drop(dead);
    let month = 30_i64 * 24 * 3600 * 1_000_000;
    database
        .execute(format!(
            "UPDATE rating_assessment SET lease_until = lease_until + {month}"
        ))
        .await;
    let agent = site.enrol("third").await;
    waiting.push(ordered(&site, &agent).await);
    let mut found = Vec::new();
    for _ in 0..3 {
        let claim =
            rating_store::assessments::claim_assessment(store, "b", None, hour, Timestamp::now());
        found.push(claim.await.unwrap().unwrap().record.id);
    }
    found.sort();
    waiting.sort();
    assert_eq!(found, waiting);
}

#[rstest]
#[tokio::test]
async fn a_command_claims_only_what_it_was_asked_for(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let store = &site.host.store;
    let first = site.enrol("first").await;
    ordered(&site, &first).await;
    let second = site.enrol("second").await;
    let own = [ordered(&site, &second).await];
    let claim = async |only: &[String]| {
        let minute = Duration::from_secs(60);
        let claim = rating_store::assessments::claim_assessment(
            store,
            "command",
            Some(only),
            minute,
            Timestamp::now(),
        );
        claim.await.unwrap().map(|claim| claim.record.id)
    };
    assert_eq!(claim(&[]).await, None);
    assert_eq!(claim(&own).await.as_ref(), Some(&own[0]));
    assert_eq!(claim(&own).await, None);
}

/// Records `events` tool calls, spread over `tasks` tasks, in the store.
async fn called(site: &Site, agent: &str, recorder: Recorder, events: i64, tasks: i64, said: &str) {
    let store = &site.host.store;
    let organization = rating_store::organizations::organization(store, &site.ours.id)
        .await
        .unwrap()
        .unwrap();
    let number = rating_store::agents::agent(store, organization.number, agent)
        .await
        .unwrap();
    let number = number.unwrap().number;
    let now = Timestamp::now();
    let origin = Origin {
        source: "api",
        recorder,
        principal: "somebody",
    };
    let made: Vec<NewEvent> = (0..events)
        .map(|n| {
            let task = format!("many-{}", n % tasks);
            let data = json!({"task_id": task, "tool": "grep", "success": true, "unnecessary": false,
                "error_recovered": null, "said": said});
            NewEvent {
                id: format!("{recorder}-{n}"),
                agent: number,
                kind: "tool_invoked",
                occurred_at: now - SignedDuration::from_secs(n + 1),
                task,
                assessment: None,
                data: data.to_string(),
            }
        })
        .collect();
    for batch in made.chunks(1000) {
        let recorded =
            rating_store::events::record_events(store, organization.number, batch, origin, now);
        recorded.await.unwrap();
    }
}

#[tokio::test]
async fn an_agent_cannot_keep_itself_from_being_rated_by_recording_too_much() {
    site!(Engine::Sqlite => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    work(&site, &agent, "good", 36, "accepted").await;
    called(&site, &agent, Recorder::Organization, 1, 1, "").await;
    called(&site, &agent, Recorder::Agent, 51_000, 1, "").await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let found = assessed(&site, &order).await;
    assert_eq!(found["status"], "completed", "{found}");
    assert_eq!(
        found["result"]["evidence"]["sources"]["agent"], 5000,
        "{found}"
    );
}

#[tokio::test]
async fn long_events_of_many_tasks_are_assessed() {
    site!(Engine::Sqlite => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    work(&site, &agent, "good", 36, "accepted").await;
    // More text than one task may have, spread over many tasks, in fewer events than one batch.
    let said = "x".repeat(15_000);
    called(&site, &agent, Recorder::Organization, 4800, 4800, &said).await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let found = assessed(&site, &order).await;
    assert_eq!(found["status"], "completed", "{found}");
}
