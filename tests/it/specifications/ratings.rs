//! Section 6 of the AI Agent Assessment Framework over the API, with the badge of section 4.5.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_host::http::HttpSettings;
use touchstone_ratings::rules::badge::host_url::HostUrl;

use super::{assert_as_printed, document, printed, text, with_ids};
use crate::http::support::host::{Lab, Reply, TestHost, UNLIMITED};
use crate::store::{Engine, TestStore};
use crate::support::evidence::collecting_since;
use crate::webhooks::receiver::{Answer, Receiver};

fn at(moment: &str) -> Timestamp {
    moment.parse().unwrap()
}

/// The printed organization with its agent, on a host whose clock is fixed at the printed times.
struct Witness {
    host: TestHost,
    organization: String,
    key: String,
    agent: String,
    _database: TestStore,
}

impl Witness {
    /// Registers both with the printed requests and checks the responses; `None` without this
    /// database.
    async fn registered(engine: Engine) -> Option<Self> {
        let database = engine.database().await?;
        let place = HostUrl::public("https://assess.example.com").unwrap();
        let host = TestHost::lab(
            database.open().await,
            HttpSettings::default(),
            place,
            Lab::limited(UNLIMITED),
        )
        .await;
        host.clock.stop_at(at("2026-04-16T12:00:00Z"));

        let call = host.request(Method::POST, "/api/v1/organizations");
        let body = printed("aaaf/organization.request.json");
        let made = call.raw("application/json", body).send().await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
        let made = made.json();
        let (organization, key) = (text(&made["id"]), text(&made["api_key"]));
        assert!(key.starts_with("ak_"), "{key}");
        let ids = [
            ("org_uuid", organization.as_str()),
            ("ak_...", key.as_str()),
        ];
        let stated = document(&with_ids("aaaf/organization.answer.json", &ids));
        let same = ["/id", "/name", "/api_key", "/created_at"];
        assert_as_printed(&stated, &made, &same);

        let mut witness = Self {
            host,
            organization,
            key,
            agent: String::new(),
            _database: database,
        };
        let body = with_ids("aaaf/agent.request.json", &witness.ids(""));
        let made = witness.send(Method::POST, "agents", Some(body)).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
        let made = made.json();
        witness.agent = text(&made["id"]);
        let stated = document(&with_ids("aaaf/agent.answer.json", &witness.ids("")));
        let same = ["/id", "/organization_id", "/name", "/status", "/created_at"];
        assert_as_printed(&stated, &made, &same);
        Some(witness)
    }

    /// Replacements for the printed ids.
    fn ids<'a>(&'a self, assessment: &'a str) -> [(&'static str, &'a str); 6] {
        [
            ("org_uuid", self.organization.as_str()),
            ("agent_uuid", self.agent.as_str()),
            ("assessment_uuid", assessment),
            ("uuid-of-org", self.organization.as_str()),
            ("uuid-of-agent", self.agent.as_str()),
            ("uuid-of-assessment", assessment),
        ]
    }

    async fn send(&self, method: Method, path: &str, body: Option<String>) -> Reply {
        let path = format!("/api/v1/{path}");
        let call = self.host.request(method, &path).key(&self.key);
        match body {
            Some(body) => call.raw("application/json", body).send().await,
            None => call.send().await,
        }
    }

    async fn get(&self, path: &str) -> Value {
        let answered = self.send(Method::GET, path, None).await;
        assert_eq!(answered.status, StatusCode::OK, "{path}: {answered:?}");
        answered.json()
    }

    /// Requests a public resource without a key.
    async fn seen(&self, path: &str) -> Value {
        let call = self.host.request(Method::GET, &format!("/api/v1/{path}"));
        let seen = call.anonymous().send().await;
        assert_eq!(seen.status, StatusCode::OK, "{path}: {seen:?}");
        seen.json()
    }

    /// Makes a person record evidence of every dimension within the printed window.
    async fn work(&self) {
        let since = at("2026-03-16T00:00:00Z");
        let store = &*self.host.store;
        collecting_since(store, &self.organization, &self.agent, since).await;
        let tenant = self.organization.clone();
        let key = self.host.issue(|issue| {
            issue.tenant = tenant.as_str().into();
            issue.scopes = vec![Scope::EventsWrite];
            issue.principal = Some("dana".to_owned());
        });
        let key = key.await;
        for events in evidence(&self.agent).chunks(50) {
            let call = self.host.request(Method::POST, "/api/v1/events/batch");
            let batch = json!({"events": events});
            let recorded = call.key(&key).json(&batch).send().await;
            assert_eq!(recorded.json()["rejected"], 0, "{recorded:?}");
        }
    }

    /// Requests the printed assessment.
    async fn order(&self) -> Reply {
        let body = with_ids("aaaf/assessment.request.json", &self.ids(""));
        self.send(Method::POST, "assessments", Some(body)).await
    }

    /// The printed assessment, completed at the printed time.
    async fn assessed(&self) -> Value {
        self.work().await;
        let ordered = self.order().await;
        assert_eq!(ordered.status, StatusCode::ACCEPTED, "{ordered:?}");
        let ordered = ordered.json();
        let id = text(&ordered["id"]);
        let stated = document(&with_ids("aaaf/assessment.accepted.json", &self.ids(&id)));
        let same = ["/id", "/agent_id", "/status", "/created_at"];
        assert_as_printed(&stated, &ordered, &same);
        self.host.clock.stop_at(at("2026-04-16T13:45:00Z"));
        self.host.assess();
        let path = format!("assessments/{id}");
        loop {
            let found = self.get(&path).await;
            if found["completed_at"].is_string() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The evidence of a vector in which every dimension is assessed, moved into the printed window.
fn evidence(agent: &str) -> Vec<Value> {
    let vector = document(include_str!("../ratings/vectors/full-assessment.json"));
    let moved = |of: &Value, active: bool| {
        let days = SignedDuration::from_hours(24 * 75 + 12);
        let day = SignedDuration::from_hours(if active { 24 } else { 0 });
        json!(at(of.as_str().unwrap()) - days - day)
    };
    let mut events = vector["input"]["events"].as_array().unwrap().clone();
    for event in &mut events {
        // The specification's stress-test event arrives here as an ordinary event.
        let data = event["data"].as_object_mut().unwrap();
        let active = data.remove("assessment_id").is_some();
        if let Some(assigned) = data.get("assigned_at").cloned() {
            data.insert("assigned_at".to_owned(), moved(&assigned, active));
        }
        event["timestamp"] = moved(&event["timestamp"], active);
        event["agent_id"] = json!(agent);
    }
    events
}

macro_rules! witness {
    ($engine:expr => $witness:ident) => {
        let Some($witness) = Witness::registered($engine).await else {
            return;
        };
    };
}

#[rstest]
#[tokio::test]
async fn organization_and_agent_are_registered_as_printed(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    witness!(engine => witness);
    let config = format!("organizations/{}/config", witness.organization);
    let config = witness.get(&config).await;
    let stated = document(&printed("aaaf/organization.request.json"));
    for (setting, value) in stated.as_object().unwrap() {
        if setting != "name" {
            assert_eq!(&config[setting], value, "{setting}");
        }
    }
    let agent = witness.get(&format!("agents/{}", witness.agent)).await;
    let stated = document(&with_ids("aaaf/agent.request.json", &witness.ids("")));
    for (member, value) in stated.as_object().unwrap() {
        assert_eq!(&agent[member], value, "{member}");
    }
}

#[rstest]
#[tokio::test]
async fn the_printed_event_is_recorded_and_found(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    witness!(engine => witness);
    let body = with_ids("aaaf/event.request.json", &witness.ids(""));
    // At 12:00 this timestamp is still in the future.
    let refused = witness
        .send(Method::POST, "events", Some(body.clone()))
        .await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    witness.host.clock.stop_at(at("2026-04-16T14:30:00Z"));
    let recorded = witness
        .send(Method::POST, "events", Some(body.clone()))
        .await;
    assert_eq!(recorded.status, StatusCode::CREATED, "{recorded:?}");
    let path = format!("events?agent_id={}&type=task_completed", witness.agent);
    let found = witness.get(&path).await;
    let found = &found["data"][0];
    let stated = document(&body);
    for member in ["agent_id", "type"] {
        assert_eq!(found[member], stated[member], "{member}");
    }
    assert_eq!(found["data"]["task_id"], "task_uuid");
    let decided = &found["data"]["delegation_decisions"];
    assert_eq!(decided.as_array().unwrap().len(), 2, "{found}");
}

/// A value for a printed field of an event.
fn value(field: &str) -> Value {
    match field {
        "complexity_level" => json!(3),
        "assigned_at" => json!("2026-04-16T11:00:00Z"),
        "completion_status" => json!("accepted"),
        "time_to_complete_seconds" => json!(1847),
        "revision_count" => json!(0),
        "errors" => json!([]),
        "revision_number" | "failures_injected" | "failures_recovered" => json!(1),
        "reason_code" => json!("critical"),
        "success" | "error_recovered" => json!(true),
        "unnecessary" | "revision_needed" => json!(false),
        "decision" | "ground_truth" => json!("delegate"),
        "outcome" => json!("success"),
        "agents_involved" => json!(["a", "b"]),
        "dependency_graph" => json!({"a": [], "b": ["a"]}),
        "parallel_groups" => json!([["a"], ["b"]]),
        "synthesis_quality_score" => json!(0.8),
        // task_id, domain, changes, tool, task_fragment, delegate_to, delegate_agent_id
        text => json!(text),
    }
}

#[tokio::test]
async fn an_event_of_each_printed_type_needs_the_printed_fields_alone() {
    witness!(Engine::Sqlite => witness);
    let types = document(&printed("aaaf/event-types.json"));
    assert_eq!(types.as_object().unwrap().len(), 8);
    for (kind, fields) in types.as_object().unwrap() {
        let fields = fields.as_array().unwrap().iter().map(text);
        let data: Value = fields.map(|field| (field.clone(), value(&field))).collect();
        let event = |data: &Value| {
            json!({"agent_id": witness.agent, "type": kind, "timestamp": "2026-04-16T11:30:00Z", "data": data})
                .to_string()
        };
        let body = event(&data);
        let recorded = witness.send(Method::POST, "events", Some(body)).await;
        assert_eq!(recorded.status, StatusCode::CREATED, "{kind}: {recorded:?}");
        let mut less = data;
        less.as_object_mut().unwrap().remove("task_id");
        let body = event(&less);
        let refused = witness.send(Method::POST, "events", Some(body)).await;
        assert_eq!(
            refused.status,
            StatusCode::BAD_REQUEST,
            "{kind}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn a_batch_is_answered_as_printed() {
    witness!(Engine::Sqlite => witness);
    let event = |n: usize| {
        let mut event = json!({"agent_id": witness.agent, "type": "task_completed", "timestamp": "2026-04-16T11:00:00Z",
            "data": {"task_id": format!("t{n}"), "completion_status": "accepted", "time_to_complete_seconds": 60,
                "revision_count": 0, "errors": []}});
        match n {
            12 => event["type"] = json!("task_dreamt_of"),
            23 => drop(event.as_object_mut().unwrap().remove("agent_id")),
            41 => event["timestamp"] = json!("2026-04-17T11:00:00Z"),
            _ => {}
        }
        event
    };
    let events: Vec<Value> = (0..50).map(event).collect();
    let body = json!({"events": events}).to_string();
    let recorded = witness.send(Method::POST, "events/batch", Some(body)).await;
    assert_eq!(recorded.status, StatusCode::CREATED, "{recorded:?}");
    let (stated, recorded) = (
        document(&printed("aaaf/batch.answer.json")),
        recorded.json(),
    );
    let same = [
        "/accepted",
        "/rejected",
        "/errors/0/index",
        "/errors/1/index",
        "/errors/2/index",
    ];
    assert_as_printed(&stated, &recorded, &same);
    for (n, error) in stated["errors"].as_array().unwrap().iter().enumerate() {
        let ours = text(&recorded["errors"][n]["error"]);
        assert!(ours.starts_with(&text(&error["error"])), "{ours}");
    }
    // The printed body has dots instead of event values, so each of its events is rejected
    // individually.
    let body = printed("aaaf/batch.request.json");
    let refused = witness.send(Method::POST, "events/batch", Some(body)).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    let details = &refused.json()["error"]["details"];
    assert_eq!(details["rejected"], 2);
    for n in 0..2 {
        assert_eq!(details["errors"][n]["index"], n, "{details}");
    }
}

#[rstest]
#[tokio::test]
async fn an_assessment_its_badge_and_its_appeal_are_answered_as_printed(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    witness!(engine => witness);
    let found = witness.assessed().await;
    let id = text(&found["id"]);
    let ids = witness.ids(&id);
    let stated = document(&with_ids("aaaf/assessment.answer.json", &ids));
    let same = [
        "/id",
        "/agent_id",
        "/status",
        "/capability/dimensions/domain_breadth/total_domains",
        "/valid_until",
        "/created_at",
        "/completed_at",
    ];
    assert_as_printed(&stated, &found, &same);
    for format in ["svg", "png", "json"] {
        let ours = text(&found["badge_urls"][format]);
        let stated = text(&stated["badge_urls"][format]);
        let (host, path) = stated.split_at("https://assess.example.com".len());
        assert!(ours.starts_with(host) && ours.ends_with(path), "{ours}");
    }

    // The certification time is the completion of the assessment (4.3), an hour and three quarters
    // after the printed time.
    let badge = witness.seen(&format!("badges/{id}.json")).await;
    let stated = document(&with_ids("aaaf/badge.answer.json", &ids));
    let same = [
        "/type",
        "/version",
        "/agent",
        "/assessment/id",
        "/assessment/valid_until",
        "/assessment/window_start",
        "/assessment/window_end",
        "/standards_alignment",
    ];
    assert_as_printed(&stated, &badge, &same);
    let verified = witness.seen(&format!("badges/{id}/verify")).await;
    let stated = document(&with_ids("aaaf/verify.answer.json", &ids));
    let same = [
        "/valid",
        "/assessment_id",
        "/agent_name",
        "/organization",
        "/valid_until",
        "/expired",
    ];
    assert_as_printed(&stated, &verified, &same);
    for issued in [&badge["assessment"]["timestamp"], &verified["issued"]] {
        assert_eq!(super::moment(issued), super::moment(&found["completed_at"]));
    }

    let appeals = format!("assessments/{id}/appeals");
    let body = printed("aaaf/appeal.request.json");
    let filed = witness.send(Method::POST, &appeals, Some(body)).await;
    assert_eq!(filed.status, StatusCode::CREATED, "{filed:?}");
    let stated = document(&printed("aaaf/appeal.request.json"));
    let same = [
        "/dimensions_challenged",
        "/justification",
        "/counter_evidence",
    ];
    assert_as_printed(&stated, &filed.json(), &same);
}

#[rstest]
#[tokio::test]
async fn webhook_deliveries_have_the_printed_form(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    witness!(engine => witness);
    let receiver = Receiver::start(Answer::Status(204)).await;
    let types = document(&printed("aaaf/webhook-events.json"));
    let every = json!({"url": "http://127.0.0.1:65535/", "event_types": types}).to_string();
    let made = witness.send(Method::POST, "webhooks", Some(every)).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    assert_eq!(made.json()["event_types"], types);
    let path = format!("webhooks/{}", text(&made.json()["id"]));
    let removed = witness.send(Method::DELETE, &path, None).await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT);

    let one = json!({"url": receiver.url(), "event_types": ["assessment.completed"]}).to_string();
    let made = witness.send(Method::POST, "webhooks", Some(one)).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let found = witness.assessed().await;
    witness.host.tell(witness.host.clock.clone());
    let told = receiver.wait_for(1).await[0].json();
    let id = text(&found["id"]);
    let stated = document(&with_ids("aaaf/webhook.delivery.json", &witness.ids(&id)));
    let same = [
        "/event",
        "/timestamp",
        "/data/assessment_id",
        "/data/agent_id",
    ];
    assert_as_printed(&stated, &told, &same);
    for axis in ["performance", "capability"] {
        let tier = &told["data"][format!("{axis}_tier")];
        assert_eq!(tier, &found[axis]["tier"]);
    }
}

#[rstest]
#[tokio::test]
async fn too_little_evidence_is_refused_as_printed(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    witness!(engine => witness);
    let task = |n: usize| {
        json!({"agent_id": witness.agent, "type": "task_completed", "timestamp": "2026-04-10T11:00:00Z",
            "data": {"task_id": format!("t{n}"), "completion_status": "accepted", "time_to_complete_seconds": 60,
                "revision_count": 0, "errors": []}})
    };
    let events: Vec<Value> = (0..12).map(task).collect();
    let body = json!({"events": events}).to_string();
    let recorded = witness.send(Method::POST, "events/batch", Some(body)).await;
    assert_eq!(recorded.json()["accepted"], 12, "{recorded:?}");
    let refused = witness.order().await;
    assert_eq!(
        refused.status,
        StatusCode::UNPROCESSABLE_ENTITY,
        "{refused:?}"
    );
    let stated = document(&printed("aaaf/insufficient.error.json"));
    let same = ["/error/code", "/error/details"];
    let details = stated["error"]["details"].as_object().unwrap().keys();
    let details: Vec<String> = details.map(|it| format!("{}/{it}", same[1])).collect();
    let mut same = vec![same[0]];
    same.extend(details.iter().map(String::as_str));
    assert_as_printed(&stated, &refused.json(), &same);
}

/// A body for a printed operation without a printed body.
fn body(operation: &str) -> Option<String> {
    let stated = document(&printed("aaaf/organization.request.json"));
    let (method, path) = operation.split_once(' ').unwrap();
    let body = match (method, path.rsplit('/').next().unwrap()) {
        ("PATCH", "{org_id}") => json!({"name": stated["name"]}),
        ("PATCH", "{agent_id}") => json!({"claimed_domains": ["security"]}),
        ("PATCH", "config") => {
            json!({"assessment_window_days": stated["assessment_window_days"]})
        }
        ("PUT", "weights") => json!({"performance_weights": stated["performance_weights"],
            "capability_weights": stated["capability_weights"]}),
        ("PUT", "taxonomy") => json!({"domain_taxonomy": stated["domain_taxonomy"]}),
        ("POST", "stress-test") => json!({}),
        _ => return None,
    };
    Some(body.to_string())
}

#[rstest]
#[tokio::test]
async fn every_printed_path_is_answered(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    witness!(engine => witness);
    let assessment = text(&witness.assessed().await["id"]);
    let made = async |path: &str, body: String| {
        let made = witness.send(Method::POST, path, Some(body)).await;
        text(&made.json()["id"])
    };
    let appeals = format!("assessments/{assessment}/appeals");
    let appeal = made(&appeals, printed("aaaf/appeal.request.json")).await;
    let hook = json!({"url": "http://127.0.0.1:65535/", "event_types": ["badge.expired"]});
    let webhook = made("webhooks", hook.to_string()).await;
    let values = [
        ("{org_id}", witness.organization.as_str()),
        ("{agent_id}", witness.agent.as_str()),
        ("{assessment_id}", assessment.as_str()),
        ("{appeal_id}", appeal.as_str()),
        ("{webhook_id}", webhook.as_str()),
        ("{type}", "task_completed"),
        ("{status}", "completed"),
        ("from={iso_date}", "from=2026-03-17"),
        ("to={iso_date}", "to=2026-04-16"),
    ];
    // Other tests send the printed bodies.
    let sent = [
        "organizations",
        "agents",
        "events",
        "batch",
        "assessments",
        "appeals",
        "webhooks",
    ];
    let operations = printed("aaaf/endpoints.txt");
    assert_eq!(operations.lines().count(), 31);
    let is_sent =
        |line: &str| line.starts_with("POST ") && sent.contains(&line.rsplit('/').next().unwrap());
    let mut walked: Vec<&str> = operations.lines().filter(|line| !is_sent(line)).collect();
    // Paths that delete come last.
    walked.sort_by_key(|line| line.starts_with("DELETE "));
    assert_eq!(walked.len(), 31 - sent.len());
    for line in walked {
        let (method, path) = line.split_once(' ').unwrap();
        let path = values.iter().fold(path.to_owned(), |path, (name, value)| {
            path.replace(name, value)
        });
        let path = path.strip_prefix("/api/v1/").unwrap();
        let answered = witness
            .send(method.parse().unwrap(), path, body(line))
            .await;
        if line.ends_with("/stress-test") {
            // This agent runs outside this host: the response says that no host can run it.
            let details = &answered.json()["error"]["details"];
            assert_eq!(details["field"], "include_stress_test", "{answered:?}");
        } else {
            assert!(answered.status.is_success(), "{line}: {answered:?}");
        }
    }
}
