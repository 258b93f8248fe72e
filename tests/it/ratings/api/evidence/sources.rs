//! The weight of an event depends on who recorded it (ADR 0030).

use axum::http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_kit::ids::TenantId;
use touchstone_kit::money::NanoUsd;
use touchstone_runs::rules::eval::rubric::attempt::{Attempt, Status};
use touchstone_runs::rules::eval::rubric::calibration::Calibration;
use touchstone_runs::store as run_store;

use crate::http::support::host::{Reply, id_of};
use crate::ratings::api::assessments::{assessed, tasks, work};
use crate::ratings::api::{Engine, Site, refusal, site};

/// A key of the first organization with the scope to record evidence, and a principal if one is
/// given.
pub async fn key_of(site: &Site, principal: Option<&str>) -> String {
    let tenant = site.ours.id.clone();
    let key = site.host.issue(|issue| {
        issue.tenant = tenant.as_str().into();
        issue.scopes = vec![Scope::EventsWrite];
        issue.principal = principal.map(str::to_owned);
    });
    key.await
}

async fn record(site: &Site, key: &str, body: &Value) -> Reply {
    let path = match body.get("events") {
        Some(_) => "/api/v1/events/batch",
        None => "/api/v1/events",
    };
    let call = site.host.request(Method::POST, path).key(key);
    let reply = call.json(body).send().await;
    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    reply
}

fn ago(seconds: i64) -> String {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    (now - SignedDuration::from_secs(seconds)).to_string()
}

fn completed(agent: &str, task: &str, status: &str, seconds_ago: i64) -> Value {
    json!({"agent_id": agent, "type": "task_completed", "timestamp": ago(seconds_ago), "data": {"task_id": task,
        "completion_status": status, "time_to_complete_seconds": 60, "revision_count": 0, "errors": []}})
}

fn called(agent: &str, task: &str, tool: &str, success: bool) -> Value {
    json!({"agent_id": agent, "type": "tool_invoked", "timestamp": ago(50), "data": {"task_id": task, "tool": tool,
        "success": success, "unnecessary": false, "error_recovered": null}})
}

async fn dimension(site: &Site, agent: &str, name: &str) -> Value {
    let order = json!({"agent_id": agent, "type": "single_dimension", "dimension": name});
    assessed(site, &order).await["result"].clone()
}

#[rstest]
#[case::by_its_id(true)]
#[case::by_its_name(false)]
#[tokio::test]
async fn an_agent_does_not_rate_itself(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[case] by_id: bool,
) {
    site!(engine => site);
    let agent = site.enrol("triage").await;
    let principal = if by_id { &agent } else { "triage" };
    let own = key_of(&site, Some(principal)).await;
    record(&site, &own, &tasks(&agent, "t", 40, "accepted")).await;
    let kept = site.get(&format!("events?agent_id={agent}&limit=1")).await;
    let kept = &kept.json()["data"][0];
    assert_eq!(
        (&kept["recorder"], &kept["recorded_by"]),
        (&json!("agent"), &json!(principal))
    );
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let refused = site.post("assessments", &order).await;
    assert_eq!(
        refusal(&refused),
        (
            StatusCode::UNPROCESSABLE_ENTITY,
            "INSUFFICIENT_EVIDENCE".to_owned()
        )
    );
    let details = refused.json()["error"]["details"].clone();
    assert_eq!(details["current_count"], 0, "{details}");
}

#[rstest]
#[tokio::test]
async fn events_are_attributed_to_the_agent_by_any_of_its_keys_and_names(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let agent = site.enrol("triage").await;
    let path = format!("agents/{agent}");
    let unnamed = key_of(&site, None).await;
    let named = key_of(&site, Some("dana")).await;
    let keys = [&unnamed, &named].map(|key| id_of(key).to_string());
    let change =
        json!({"name": "sorter", "openwop_agent": "acme.agents.triage@1.0.0", "keys": keys});
    let changed = site.send(Method::PATCH, &path, Some(&change)).await;
    assert_eq!(changed.json()["keys"], json!(keys), "{changed:?}");
    let mut own = vec![unnamed, named];
    for principal in ["triage", "Sorter", "acme.agents.triage"] {
        own.push(key_of(&site, Some(principal)).await);
    }
    for (n, key) in own.iter().enumerate() {
        let event = completed(&agent, &format!("t{n}"), "accepted", 100);
        let kept = record(&site, key, &event).await.json();
        assert_eq!(kept["recorder"], "agent", "{n}: {kept}");
    }
    let other = key_of(&site, Some("erin")).await;
    let kept = record(&site, &other, &completed(&agent, "t", "accepted", 100)).await;
    assert_eq!(kept.json()["recorder"], "person", "{kept:?}");

    let foreign = site.host.keys_of(&site.theirs.id).await;
    for unknown in ["3f9c2ab81d4e5f60a7b8", foreign[0].id.as_str()] {
        let refused = site
            .send(Method::PATCH, &path, Some(&json!({"keys": [unknown]})))
            .await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
        assert_eq!(refused.json()["error"]["details"]["field"], "keys");
    }
}

#[rstest]
#[tokio::test]
async fn an_agents_key_changes_nothing_that_its_rating_rests_on(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let badge = crate::ratings::api::badges::certified(&site, "triage").await;
    let agents = site.get("agents").await.json();
    let agent = agents["data"][0]["id"].as_str().unwrap().to_owned();
    let suite = "profiles/acme.evals.triage/1.0.0";
    let profile = json!({"suiteId": "acme.evals.triage", "suiteVersion": "1.0.0"});
    let set = site.send(Method::PUT, suite, Some(&profile)).await;
    assert_eq!(set.status, StatusCode::CREATED, "{set:?}");
    let tenant = site.ours.id.clone();
    let key = site.host.issue(|issue| {
        issue.tenant = tenant.as_str().into();
        issue.scopes = Scope::ALL.to_vec();
        issue.principal = Some(agent.clone());
    });
    let key = key.await;
    let path = format!("agents/{agent}");
    let revoke = format!("badges/{badge}/revoke");
    for (method, path, body) in [
        (Method::POST, "agents", Some(json!({"name": "dana"}))),
        (Method::PATCH, path.as_str(), Some(json!({"name": "dana"}))),
        (Method::PATCH, path.as_str(), Some(json!({"keys": []}))),
        (Method::DELETE, path.as_str(), None),
        (Method::DELETE, suite, None),
        (Method::PUT, suite, Some(profile.clone())),
        (
            Method::POST,
            revoke.as_str(),
            Some(json!({"reason": "withdrawn"})),
        ),
    ] {
        let call = site
            .host
            .request(method.clone(), &format!("/api/v1/{path}"));
        let call = call.key(&key);
        let refused = match &body {
            Some(body) => call.json(body).send().await,
            None => call.send().await,
        };
        assert_eq!(
            refusal(&refused),
            (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned()),
            "{method} {path}"
        );
    }
    assert_eq!(site.get(&path).await.json()["name"], "triage");
    let path = format!("/api/v1/badges/{badge}/verify");
    let verified = site.anonymous(&path);
    assert_eq!(verified.await.json()["valid"], true);
}

#[rstest]
#[tokio::test]
async fn another_agents_key_cannot_rate(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let agent = site.enrol("triage").await;
    let friend = site.enrol("friend").await;
    let path = format!("agents/{friend}");
    let archived = site.send(Method::DELETE, &path, None).await;
    assert_eq!(archived.status, StatusCode::NO_CONTENT);
    let key = key_of(&site, Some(&friend)).await;
    record(&site, &key, &tasks(&agent, "t", 40, "accepted")).await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let refused = site.post("assessments", &order).await;
    assert_eq!(refusal(&refused).1, "INSUFFICIENT_EVIDENCE");
}

#[rstest]
#[tokio::test]
async fn an_agents_claims_do_not_outweigh_what_others_recorded_and_its_tool_calls_count(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    let own = key_of(&site, Some(&agent)).await;
    // Claims a higher difficulty before the task is assigned.
    let boast = json!({"agent_id": agent, "type": "task_assigned", "timestamp": ago(1000), "data": {"task_id": "t0",
        "complexity_level": 5, "domain": "legal", "assigned_at": ago(1000), "baseline_seconds": 1e6}});
    record(&site, &own, &boast).await;
    for n in 0..4 {
        let task = format!("t{n}");
        let assigned = json!({"agent_id": agent, "type": "task_assigned", "timestamp": ago(900), "data": {"task_id": task,
            "complexity_level": 1, "domain": "code", "assigned_at": ago(900)}});
        record(&site, &site.ours.key, &assigned).await;
        let rejected = completed(&agent, &task, "rejected", 200);
        record(&site, &site.ours.key, &rejected).await;
        // A final status for a task, and an excuse.
        record(&site, &own, &completed(&agent, &task, "accepted", 100)).await;
        let excuse = json!({"agent_id": agent, "type": "task_revised", "timestamp": ago(90), "data": {"task_id": task,
            "revision_number": 1, "reason_code": "minor", "changes": null, "cause": "preference"}});
        record(&site, &own, &excuse).await;
    }
    let rate = dimension(&site, &agent, "task_completion_rate").await;
    assert_eq!(rate["result"]["score"], 0.0, "{rate}");
    let ceiling = dimension(&site, &agent, "complexity_ceiling").await;
    assert_eq!(ceiling["result"]["score"], 0.0, "{ceiling}");

    // Self-reported tool calls count unless another source reports calls for the task; then that
    // source wins. A task that only the agent reports does not count.
    record(&site, &own, &called(&agent, "t0", "search", true)).await;
    record(&site, &own, &called(&agent, "t1", "grep", true)).await;
    record(&site, &site.ours.key, &called(&agent, "t1", "grep", false)).await;
    record(&site, &own, &called(&agent, "invented", "write", true)).await;
    let tools = dimension(&site, &agent, "tool_proficiency").await;
    let per_tool = tools["result"]["per_tool"].as_object().unwrap();
    let names: Vec<&str> = per_tool.keys().map(String::as_str).collect();
    assert_eq!(names, ["grep", "search"], "{tools}");
    assert_eq!(per_tool["search"], 1.0);
    assert!(per_tool["grep"].as_f64().unwrap() < 0.5, "{tools}");
    let sources = &tools["evidence"]["sources"];
    assert_eq!(sources["organization"], 9, "{tools}");
    assert!(sources["agent"].as_u64().unwrap() > 0, "{tools}");
}

#[rstest]
#[case::a_person(Some("dana"), "person", true)]
#[case::a_system(None, "organization", false)]
#[case::an_unknown_grader(Some("sha256-q2hl"), "uncalibrated_grader", false)]
#[tokio::test]
async fn a_grade_counts_from_a_person_or_a_calibrated_grader_alone(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[case] principal: Option<&str>,
    #[case] recorder: &str,
    #[case] counts: bool,
) {
    site!(engine => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    let key = key_of(&site, principal).await;
    let mut events = Vec::new();
    for n in 0..3 {
        let mut event = completed(&agent, &format!("t{n}"), "accepted", 100);
        event["data"]["quality_score"] = json!(0.0);
        events.push(event);
    }
    record(&site, &key, &json!({"events": events})).await;
    let accuracy = dimension(&site, &agent, "accuracy").await;
    let expected = if counts { 0.6 } else { 1.0 };
    assert_eq!(accuracy["result"]["score"], expected, "{accuracy}");
    assert_eq!(
        accuracy["evidence"]["sources"],
        json!({recorder: 3}),
        "{accuracy}"
    );
}

/// Result of comparing a grader with people.
struct Compared {
    tenant: String,
    samples: usize,
    spearman: f64,
    days_ago: i64,
}

impl Compared {
    async fn keep(&self, site: &Site, grader: &str) {
        let then = Timestamp::now() - SignedDuration::from_hours(24 * self.days_ago);
        let until = then + SignedDuration::from_hours(24 * 90);
        let found: Calibration = serde_json::from_value(json!({
            "provider": "p", "model": "grader-1", "identity": grader, "suite": "a.evals.b@1.0.0",
            "samples": self.samples, "spearman": self.spearman, "ties": {"judge": 0, "human": 0}, "costUsd": 0.25,
            "calibratedAt": then, "validUntil": until,
        }))
        .unwrap();
        let mut attempt = Attempt {
            calibration_id: "calibration_1".to_owned(),
            status: Status::Running,
            judge: found.judge.clone(),
            suite: found.suite.clone(),
            samples: found.samples,
            judged: 0,
            cost_usd: Some(NanoUsd::ZERO),
            max_cost_usd: NanoUsd(1),
            started_at: then,
            ended_at: None,
            calibration: None,
            failure: None,
        };
        let decision = Decision {
            at: then,
            principal: "dana".to_owned(),
            action: "judge:calibrate".to_owned(),
            resource: grader.to_owned(),
            outcome: Outcome::Done,
            reasons: Vec::new(),
            decided_on: None,
            run_id: None,
        };
        let store = &site.host.store;
        let tenant = TenantId::from(self.tenant.as_str());
        let lease = std::time::Duration::from_secs(60);
        let begun = run_store::calibrations::begin_attempt(store, &tenant, &attempt, lease, None);
        begun.await.unwrap();
        attempt.end(Ok(found), then);
        let ended = run_store::calibrations::end_attempt(store, &tenant, &attempt, &decision);
        ended.await.unwrap();
    }
}

#[rstest]
#[case::calibrated(true, 100, 0.80, 0, true)]
#[case::agrees_too_little(true, 100, 0.79, 0, false)]
#[case::on_too_few_samples(true, 99, 1.0, 0, false)]
#[case::too_long_ago(true, 100, 1.0, 91, false)]
#[case::in_another_tenant(false, 100, 1.0, 0, false)]
#[tokio::test]
async fn a_graders_key_grades_while_the_grader_agrees_with_people(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[case] ours: bool,
    #[case] samples: usize,
    #[case] spearman: f64,
    #[case] days_ago: i64,
    #[case] counts: bool,
) {
    const GRADER: &str = "sha256-q2hl";
    site!(engine => site);
    site.host.assess();
    let agent = site.enrol("triage").await;
    let organization = if ours { &site.ours } else { &site.theirs };
    let compared = Compared {
        tenant: organization.id.clone(),
        samples,
        spearman,
        days_ago,
    };
    compared.keep(&site, GRADER).await;
    let key = key_of(&site, Some(GRADER)).await;
    let events = (0..3).map(|n| {
        let mut event = completed(&agent, &format!("t{n}"), "accepted", 100);
        event["data"]["quality_score"] = json!(0.0);
        event
    });
    let events: Vec<Value> = events.collect();
    record(&site, &key, &json!({"events": events})).await;
    // Outcomes count in both cases; without grades, they contain no errors.
    let accuracy = dimension(&site, &agent, "accuracy").await;
    let (score, recorder) = match counts {
        true => (0.6, "grader"),
        false => (1.0, "uncalibrated_grader"),
    };
    assert_eq!(accuracy["result"]["score"], score, "{accuracy}");
    assert_eq!(
        accuracy["evidence"]["sources"],
        json!({recorder: 3}),
        "{accuracy}"
    );
}

#[rstest]
#[tokio::test]
async fn an_agents_key_cannot_resolve_appeals(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let appeal = crate::ratings::api::appeals::open(&site).await;
    let friend = site.enrol("friend").await;
    let tenant = site.ours.id.clone();
    let key = site.host.issue(|issue| {
        issue.tenant = tenant.as_str().into();
        issue.scopes = vec![Scope::AppealsReview];
        issue.principal = Some(friend.clone());
    });
    let path = format!(
        "/api/v1/assessments/{}/appeals/{}/resolve",
        appeal["assessment_id"].as_str().unwrap(),
        appeal["id"].as_str().unwrap()
    );
    let call = site.host.request(Method::POST, &path).key(&key.await);
    let refused = call.json(&json!({"decision": "review"})).send().await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{refused:?}");
}

#[rstest]
#[tokio::test]
async fn an_appeal_gives_no_grade_that_its_reviewer_could_not_record(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let assessment = crate::ratings::api::appeals::rated(&site).await;
    let appeal = crate::ratings::api::appeals::filed(&site, &assessment, &["accuracy"]).await;
    let agent = assessment["agent_id"].as_str().unwrap();
    let path = format!("events?agent_id={agent}&type=task_completed");
    let events = site.get(&path).await.json();
    let accept = json!({"decision": "accept", "overrides": [{"type": "set_field",
        "event_id": events["data"][0]["id"], "field": "quality_score", "value": 0.5}]});
    let tenant = site.ours.id.clone();
    for principal in [None, Some("sha256-q2hl")] {
        let key = site.host.issue(|issue| {
            issue.tenant = tenant.as_str().into();
            issue.scopes = vec![Scope::AppealsReview];
            issue.principal = principal.map(str::to_owned);
        });
        let path = format!(
            "/api/v1/assessments/{}/appeals/{}/resolve",
            appeal["assessment_id"].as_str().unwrap(),
            appeal["id"].as_str().unwrap()
        );
        let call = site.host.request(Method::POST, &path).key(&key.await);
        let refused = call.json(&accept).send().await;
        assert_eq!(
            refusal(&refused),
            (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned())
        );
    }
    let accepted = crate::ratings::api::appeals::resolve(&site, &appeal, "dana", &accept).await;
    assert_eq!(accepted.json()["status"], "accepted", "{accepted:?}");
}

#[rstest]
#[tokio::test]
async fn a_badge_names_the_sources_of_its_evidence_in_every_form(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let badge = crate::ratings::api::badges::certified(&site, "invoice-reader").await;
    let path = format!("/api/v1/badges/{badge}");
    let shown = async |extension: &str| site.anonymous(&format!("{path}{extension}")).await;
    let record = shown("").await.json();
    assert_eq!(record["evidence_sources"], json!({"organization": 1.0}));
    let said = record["credential"]["evidence"][0]["description"].as_str();
    assert!(said.unwrap().contains("organization 72"), "{said:?}");
    for extension in [".svg", ".md"] {
        let text = shown(extension).await.text();
        assert!(text.contains("organization 100 %"), "{extension}: {text}");
    }
    assert_eq!(shown("/verify").await.json()["valid"], true);
}

#[rstest]
#[tokio::test]
async fn an_idempotency_key_that_the_agent_used_first_loses_no_event(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[values("events", "events/batch")] path: &str,
) {
    site!(engine => site);
    let agent = site.enrol("triage").await;
    let own = key_of(&site, Some(&agent)).await;
    let event = completed(&agent, "t0", "rejected", 100);
    let body = match path {
        "events" => event,
        _ => json!({"events": [event]}),
    };
    for key in [&own, &site.ours.key, &site.ours.key] {
        let call = site.host.request(Method::POST, &format!("/api/v1/{path}"));
        let call = call.key(key).header("idempotency-key", "run-42");
        let recorded = call.json(&body).send().await;
        assert_eq!(recorded.status, StatusCode::CREATED, "{recorded:?}");
    }
    let kept = site.get(&format!("events?agent_id={agent}")).await.json();
    let kept = kept["data"].as_array().unwrap();
    let mut recorders: Vec<&str> = kept
        .iter()
        .map(|it| it["recorder"].as_str().unwrap())
        .collect();
    recorders.sort_unstable();
    assert_eq!(recorders, ["agent", "organization"]);
}

#[tokio::test]
async fn a_repeated_event_from_a_stronger_source_needs_another_id() {
    site!(Engine::Sqlite => site);
    let agent = site.enrol("triage").await;
    let own = key_of(&site, Some(&agent)).await;
    let mut event = completed(&agent, "t0", "accepted", 100);
    event["id"] = json!("e1");
    let mut call = called(&agent, "t0", "grep", true);
    call["id"] = json!("e2");
    record(&site, &own, &event).await;
    record(&site, &own, &call).await;
    let taken = site.post("events", &event).await;
    assert_eq!(
        refusal(&taken),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );
    let same = site.post("events", &call).await;
    assert_eq!(
        same.status,
        StatusCode::OK,
        "the agent's own tool calls count"
    );
    work(&site, &agent, "more", 1, "accepted").await;
}
