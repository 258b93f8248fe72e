//! The examples of the specification's section 6, verbatim: paths, bodies and the stated members of
//! responses.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::access::Scope;

use super::assessments::{ended, tasks, work};
use super::{Engine, Organization, refusal, site};

/// The body of `POST /api/v1/organizations`.
fn organization() -> Value {
    json!({
      "name": "Witness Civilization",
      "domain_taxonomy": ["research", "code", "security", "testing", "design",
                           "documentation", "communication", "orchestration",
                           "analysis", "content", "infrastructure", "legal"],
      "performance_weights": {
        "task_completion_rate": 0.25,
        "accuracy": 0.25,
        "speed": 0.15,
        "consistency": 0.20,
        "review_compliance": 0.15
      },
      "capability_weights": {
        "domain_breadth": 0.15,
        "complexity_ceiling": 0.20,
        "tool_proficiency": 0.15,
        "autonomy_level": 0.10,
        "learning_rate": 0.10,
        "delegation_capability": 0.15,
        "orchestration_skills": 0.15
      },
      "assessment_window_days": 30,
      "validity_period_days": 90,
      "minimum_tasks_performance": 20,
      "minimum_tasks_capability": 30
    })
}

fn text(of: &Value) -> String {
    of.as_str().unwrap_or_else(|| panic!("{of}")).to_owned()
}

#[rstest]
#[tokio::test]
async fn an_organization_is_registered_and_configured_in_one_call(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let made = site
        .host
        .post("/api/v1/organizations", &organization())
        .await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let made = made.json();
    assert_eq!(made["name"], "Witness Civilization");
    assert!(made["created_at"].is_string());
    let witness = Organization {
        id: text(&made["id"]),
        key: text(&made["api_key"]),
    };
    assert!(witness.key.starts_with("ak_"));
    let config = format!("organizations/{}/config", witness.id);
    let shown = site.send_as(&witness, Method::GET, &config, None).await;
    let mut stated = organization();
    stated.as_object_mut().unwrap().remove("name");
    for (setting, value) in stated.as_object().unwrap() {
        assert_eq!(&shown.json()[setting], value, "{setting}");
    }

    let mut other = organization();
    other["assessment_window_days"] = json!(14);
    other["domain_taxonomy"] = json!(["code"]);
    let made = site.host.post("/api/v1/organizations", &other).await.json();
    let config = format!("/api/v1/organizations/{}/config", text(&made["id"]));
    let shown = site.host.get(&config).await.json();
    assert_eq!(shown["assessment_window_days"], 14);
    assert_eq!(shown["domain_taxonomy"], json!(["code"]));
}

#[rstest]
#[case("performance_weights", json!({"task_completion_rate": 0.25, "accuracy": 0.25, "speed": 0.15, "consistency": 0.2,
    "review_compliance": 0.16}), 422, "WEIGHT_SUM_INVALID")]
#[case("capability_weights", json!({"domain_breadth": 1}), 400, "INVALID_REQUEST")]
#[case("assessment_window_days", json!(0), 400, "INVALID_REQUEST")]
#[case("assessment_window_days", json!(null), 400, "INVALID_REQUEST")]
#[case("domain_taxonomy", json!([]), 400, "INVALID_REQUEST")]
#[tokio::test]
async fn an_organization_whose_settings_are_unsound_is_not_made(
    #[case] setting: &str,
    #[case] value: Value,
    #[case] status: u16,
    #[case] code: &str,
) {
    site!(Engine::Sqlite => site);
    let mut body = organization();
    body["tenant"] = json!("witness");
    let sound = body.clone();
    body[setting] = value;
    let refused = site.host.post("/api/v1/organizations", &body).await;
    let (said, its_code) = refusal(&refused);
    assert_eq!((said.as_u16(), its_code.as_str()), (status, code));
    assert_eq!(refused.json()["error"]["details"]["field"], setting);
    let made = site.host.post("/api/v1/organizations", &sound).await;
    assert_eq!(made.status, StatusCode::CREATED, "nothing was stored");
}

#[rstest]
#[tokio::test]
async fn weights_and_taxonomy_are_read_and_set_below_their_organization(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let stated = organization();
    let weights = json!({"performance_weights": stated["performance_weights"],
        "capability_weights": stated["capability_weights"]});
    for (part, body) in [
        ("weights", weights),
        ("taxonomy", json!({"domain_taxonomy": ["security", "code"]})),
    ] {
        let path = format!("organizations/{}/config/{part}", site.ours.id);
        let set = site.send(Method::PUT, &path, Some(&body)).await;
        assert_eq!((set.status, set.json()), (StatusCode::OK, body.clone()));
        assert_eq!(site.get(&path).await.json(), body);
        assert_eq!(site.get(&format!("config/{part}")).await.json(), body);
        for method in [Method::GET, Method::PUT] {
            let sent = (method == Method::PUT).then_some(&body);
            let foreign = site.send_as(&site.theirs, method, &path, sent).await;
            assert_eq!(refusal(&foreign).0, StatusCode::NOT_FOUND);
        }
        let unknown = site
            .send(Method::PUT, &path, Some(&json!({"speed": 1})))
            .await;
        assert_eq!(unknown.json()["error"]["details"]["field"], "speed");
    }
}

#[rstest]
#[tokio::test]
async fn an_appeal_is_filed_by_the_stated_body(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let found = super::appeals::rated(&site).await;
    let path = format!("assessments/{}/appeals", text(&found["id"]));
    // Delegation has no rating, and only a scored dimension can be appealed.
    let body = json!({
      "dimensions_challenged": ["accuracy", "delegation_capability"],
      "justification": "Accuracy score penalized for revisions that were scope changes, not errors.",
      "counter_evidence": [
        {
          "task_id": "task_uuid",
          "claim": "Revision was requested scope expansion, not correction of error."
        }
      ]
    });
    let filed = site.post(&path, &body).await;
    assert_eq!(filed.status, StatusCode::CREATED, "{filed:?}");
    let filed = filed.json();
    assert_eq!(
        filed["dimensions_challenged"],
        body["dimensions_challenged"]
    );
    assert_eq!(filed["dimensions"], body["dimensions_challenged"]);
    assert_eq!(filed["status"], "filed");
    let one = format!("{path}/{}", text(&filed["id"]));
    assert_eq!(site.get(&one).await.json(), filed);
    let mut both = body;
    both["dimensions"] = json!(["accuracy"]);
    let refused = site.post(&path, &both).await;
    let field = &refused.json()["error"]["details"]["field"];
    assert_eq!(field, "dimensions_challenged");
}

#[rstest]
#[tokio::test]
async fn a_webhook_is_registered_for_the_stated_event_types(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let body = json!({"url": "http://127.0.0.1:65535/", "event_types": ["assessment.started", "assessment.completed",
        "assessment.failed", "badge.expiring", "badge.expired", "appeal.filed", "appeal.resolved",
        "evidence.threshold_reached"]});
    let made = site.post("webhooks", &body).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let made = made.json();
    assert_eq!(made["event_types"], body["event_types"]);
    assert_eq!(made["events"], body["event_types"]);
    let path = format!("webhooks/{}", text(&made["id"]));
    let listed = site.get("webhooks").await.json();
    assert_eq!(listed["data"][0]["event_types"], body["event_types"]);
    let removed = site.send(Method::DELETE, &path, None).await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT);
}

#[rstest]
#[tokio::test]
async fn an_assessment_is_ordered_and_answered_as_stated(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    site.host.assess();
    let agent = site.enrol("security-auditor").await;
    work(&site, &agent, "good", 36, "accepted").await;
    let now = jiff::Timestamp::now();
    let body = json!({
      "agent_id": agent,
      "type": "full",
      "include_stress_test": true,
      "window_start": now - jiff::SignedDuration::from_hours(24 * 30),
      "window_end": now
    });
    let accepted = site.post("assessments", &body).await;
    assert_eq!(accepted.status, StatusCode::ACCEPTED, "{accepted:?}");
    let accepted = accepted.json();
    assert_eq!(accepted["agent_id"], json!(agent));
    assert_eq!(accepted["status"], "in_progress");
    let moment = |of: &Value| text(of).parse::<jiff::Timestamp>().unwrap();
    assert!(moment(&accepted["estimated_completion"]) > moment(&accepted["created_at"]));

    let found = ended(&site, &text(&accepted["id"])).await;
    assert_eq!(found["status"], "completed", "{found}");
    assert_eq!(found["estimated_completion"], Value::Null);
    for axis in ["performance", "capability"] {
        let rated = &found[axis];
        assert!(rated["composite_score"].is_f64(), "{rated}");
        assert!(rated["tier"].is_string(), "{rated}");
        assert_eq!(rated, &found["result"][axis]);
    }
    let accuracy = &found["performance"]["dimensions"]["accuracy"];
    for member in ["score", "sample_size", "evidence_count"] {
        assert!(accuracy[member].is_number(), "{accuracy}");
    }
    let breadth = &found["capability"]["dimensions"]["domain_breadth"];
    for member in ["score", "qualified_domains", "total_domains"] {
        assert!(breadth[member].is_number(), "{breadth}");
    }
    let address = format!(
        "https://assess.example.org/api/v1/badges/{}",
        text(&found["id"])
    );
    assert_eq!(
        found["badge_urls"],
        json!({"svg": format!("{address}.svg"), "png": format!("{address}.png"), "json": format!("{address}.json")})
    );
    let badge = site
        .get(&format!("badges/{}", text(&found["badge_id"])))
        .await;
    assert_eq!(found["valid_until"], badge.json()["valid_until"]);
    assert!(found["completed_at"].is_string());
    let listed = format!("assessments?agent_id={agent}&status=completed");
    assert_eq!(site.get(&listed).await.json()["data"], json!([found]));
    // No host can run this agent: the specified path exists and returns the reason.
    let path = format!("assessments/{}/stress-test", text(&found["id"]));
    let refused = site.post(&path, &json!({})).await;
    assert_eq!(
        refused.json()["error"]["details"]["field"],
        "include_stress_test"
    );
}

#[rstest]
#[tokio::test]
async fn a_badge_is_named_by_its_assessment_and_says_what_is_stated(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let found = super::appeals::rated(&site).await;
    let (id, badge_id) = (text(&found["id"]), text(&found["badge_id"]));
    let shown = async |named: &str| {
        let shown = site.anonymous(&format!("/api/v1/badges/{named}")).await;
        assert_eq!(shown.status, StatusCode::OK, "{shown:?}");
        shown
    };
    for (extension, kind) in [(".svg", "image/svg+xml"), (".png", "image/png")] {
        let picture = shown(&format!("{id}{extension}")).await;
        assert_eq!(picture.header("content-type"), Some(kind));
        let same = shown(&format!("{badge_id}{extension}")).await;
        assert_eq!(picture.body, same.body);
    }
    let badge = shown(&format!("{id}.json")).await.json();
    assert_eq!(badge["type"], "AgentAssessmentBadge");
    assert_eq!(badge["version"], "1.0.0");
    assert_eq!(
        badge["agent"],
        json!({"id": found["agent_id"], "name": "triage", "organization_id": site.ours.id})
    );
    let assessment = &badge["assessment"];
    assert_eq!(
        (&assessment["id"], &assessment["valid_until"]),
        (&found["id"], &found["valid_until"])
    );
    let moment = |of: &Value| text(of).parse::<jiff::Timestamp>().unwrap().as_second();
    for member in ["window_start", "window_end"] {
        assert_eq!(
            moment(&assessment[member]),
            moment(&found[member]),
            "{member}"
        );
    }
    assert!(assessment["timestamp"].is_string());
    for axis in ["performance", "capability"] {
        let (said, rated) = (&badge[axis], &found[axis]);
        assert_eq!(said["tier"], rated["tier"]);
        let gap =
            said["composite_score"].as_f64().unwrap() - rated["composite_score"].as_f64().unwrap();
        assert!(gap.abs() < 0.01, "{said} {rated}");
    }
    for (axis, dimension) in [
        ("performance", "task_completion_rate"),
        ("capability", "domain_breadth"),
    ] {
        let score = &badge[axis]["dimensions"][dimension];
        assert!(score.is_number(), "{score}");
    }
    assert_eq!(
        badge["standards_alignment"],
        json!([
            "NIST AI 100-1",
            "ISO/IEC 42001:2023",
            "ISO/IEC 25059:2023",
            "ISO/IEC 22989:2022"
        ])
    );
    assert!(badge["verification_url"].is_string());
    let record = shown(&id).await.json();
    assert_eq!(
        (&record["state"], &record["badge_id"]),
        (&json!("issued"), &json!(badge_id))
    );

    let verified = shown(&format!("{id}/verify")).await.json();
    for (member, value) in [
        ("valid", json!(true)),
        ("assessment_id", json!(id)),
        ("agent_name", json!("triage")),
        ("organization", json!("Acme Evaluations")),
        ("performance_tier", found["performance"]["tier"].clone()),
        ("capability_tier", found["capability"]["tier"].clone()),
        ("issued", badge["certified_date"].clone()),
        ("valid_until", found["valid_until"].clone()),
        ("expired", json!(false)),
    ] {
        assert_eq!(verified[member], value, "{member}");
    }
    // Under its own id, it keeps its original types.
    let own = shown(&format!("{badge_id}.json")).await.json();
    assert!(own["performance"]["dimensions"]["task_completion_rate"].is_string());
    let own = shown(&format!("{badge_id}/verify")).await.json();
    assert_eq!(
        own["organization"],
        json!({"id": site.ours.id, "name": "Acme Evaluations"})
    );

    super::badges::keep_private(&site).await;
    for extension in ["", ".json", ".svg", ".png", "/verify"] {
        let path = format!("/api/v1/badges/{id}{extension}");
        let hidden = refusal(&site.anonymous(&path).await);
        assert_eq!(hidden, (StatusCode::NOT_FOUND, "NOT_FOUND".to_owned()));
    }
}

/// The body of `POST /api/v1/agents`.
fn agent(organization: &str) -> Value {
    json!({
      "organization_id": organization,
      "name": "security-auditor",
      "claimed_domains": ["security", "code", "analysis"],
      "tools": ["bash", "grep", "web_search", "file_read", "file_write"],
      "description": "Identifies vulnerabilities, performs threat analysis, reviews code for security issues.",
      "metadata": {
        "model": "claude-sonnet-4-20250514",
        "version": "3.2"
      }
    })
}

#[rstest]
#[tokio::test]
async fn an_agent_is_registered_by_the_stated_body(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let body = agent(&site.ours.id);
    let made = site.post("agents", &body).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let made = made.json();
    for member in body.as_object().unwrap().keys() {
        assert_eq!(made[member], body[member], "{member}");
    }
    assert_eq!(made["status"], "enrolled");
    assert!(made["created_at"].is_string());
    let path = format!("agents/{}", text(&made["id"]));
    assert_eq!(site.get(&path).await.json(), made);
    let listed = site
        .get(&format!("agents?org_id={}", site.ours.id))
        .await
        .json();
    assert_eq!(listed["data"][0]["metadata"], body["metadata"]);
    let change = json!({"claimed_domains": ["code"], "metadata": {"model": "another"}});
    let changed = site.send(Method::PATCH, &path, Some(&change)).await.json();
    assert_eq!(
        (&changed["domains"], &changed["metadata"], &changed["tools"]),
        (
            &change["claimed_domains"],
            &change["metadata"],
            &body["tools"]
        )
    );
    // Whether another organization exists is not revealed.
    for other in [site.theirs.id.as_str(), "org_uuid"] {
        let mut body = agent(other);
        body["name"] = json!("another");
        let refused = site.post("agents", &body).await;
        assert_eq!(
            refusal(&refused),
            (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned())
        );
        let field = &refused.json()["error"]["details"]["field"];
        assert_eq!(field, "organization_id");
    }
}

#[rstest]
#[tokio::test]
async fn an_agent_is_enrolled_active_suspended_and_archived(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let agent = site.enrol("security-auditor").await;
    let path = format!("agents/{agent}");
    let event = |task: &str| {
        json!({"agent_id": agent, "type": "tool_invoked", "timestamp": jiff::Timestamp::now(),
            "data": {"task_id": task, "tool": "grep", "success": true, "unnecessary": false, "error_recovered": null}})
    };
    let becomes = async |status: &str| {
        let change = json!({"status": status});
        let changed = site.send(Method::PATCH, &path, Some(&change)).await;
        assert_eq!(changed.status, StatusCode::OK, "{changed:?}");
        changed.json()["status"].clone()
    };
    let listed = async |status: &str| {
        let listed = site.get(&format!("agents?status={status}")).await.json();
        listed["data"].as_array().unwrap().len()
    };
    assert_eq!(site.get(&path).await.json()["status"], "enrolled");
    assert_eq!((listed("enrolled").await, listed("active").await), (1, 1));
    assert_eq!(
        site.post("events", &event("a")).await.status,
        StatusCode::CREATED
    );
    assert_eq!(site.get(&path).await.json()["status"], "active");
    assert_eq!((listed("enrolled").await, listed("active").await), (0, 1));

    assert_eq!(becomes("suspended").await, "suspended");
    assert_eq!((listed("suspended").await, listed("active").await), (1, 0));
    let refused = site.post("events", &event("b")).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    assert!(refused.text().contains("suspended"), "{refused:?}");
    let order =
        json!({"agent_id": agent, "type": "single_dimension", "dimension": "tool_proficiency"});
    let refused = site.post("assessments", &order).await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );
    assert!(refused.text().contains("suspended"), "{refused:?}");

    assert_eq!(becomes("active").await, "active");
    assert_eq!(
        site.post("events", &event("b")).await.status,
        StatusCode::CREATED
    );
    let ordered = site.post("assessments", &order).await;
    assert_eq!(ordered.status, StatusCode::ACCEPTED, "{ordered:?}");
    let refused = json!({"status": "enrolled"});
    let refused = site.send(Method::PATCH, &path, Some(&refused)).await;
    assert_eq!(refused.json()["error"]["details"]["field"], "status");
    assert_eq!(becomes("archived").await, "archived");
    assert_eq!((listed("archived").await, listed("active").await), (1, 0));
    site.enrol("security-auditor").await;
}

#[rstest]
#[tokio::test]
async fn ratings_and_badges_are_published_to_the_agents_profile(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let found = super::appeals::rated(&site).await;
    let path = format!("agents/{}", text(&found["agent_id"]));
    let profile = site.get(&path).await.json();
    let axis = |axis: &str| json!({"composite_score": found[axis]["composite_score"], "tier": found[axis]["tier"]});
    assert_eq!(
        profile["rating"],
        json!({"assessment_id": found["id"], "performance": axis("performance"), "capability": axis("capability"),
            "review_required": false, "completed_at": found["completed_at"]})
    );
    assert_eq!(
        profile["badge"],
        json!({"id": found["badge_id"], "state": "issued", "urls": found["badge_urls"], "valid_until": found["valid_until"]})
    );
    // Scores need the scope to read assessments.
    let tenant = site.ours.id.clone();
    let key = site.host.issue(|issue| {
        issue.tenant = tenant.as_str().into();
        issue.scopes = vec![Scope::AgentsRead];
    });
    let key = key.await;
    let call = site.host.request(Method::GET, &format!("/api/v1/{path}"));
    let bare = call.key(&key).send().await.json();
    assert_eq!(
        (&bare["name"], &bare["rating"]),
        (&json!("triage"), &Value::Null)
    );
}

#[rstest]
#[tokio::test]
async fn progress_counts_the_tasks_that_an_assessment_would(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let agent = site.enrol("security-auditor").await;
    let path = format!("agents/{agent}/progress");
    let counted = async || {
        let progress = site.get(&path).await.json();
        [
            progress["performance"].clone(),
            progress["capability"].clone(),
        ]
    };
    let axis = |tasks: u64, required: u64| json!({"tasks": tasks, "required": required, "enough": tasks >= required});
    assert_eq!(counted().await, [axis(0, 20), axis(0, 30)]);
    work(&site, &agent, "first", 19, "accepted").await;
    assert_eq!(counted().await, [axis(19, 20), axis(19, 30)]);
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let refused = site.post("assessments", &order).await;
    assert_eq!(refused.json()["error"]["details"]["current_count"], 19);
    work(&site, &agent, "second", 11, "accepted").await;
    assert_eq!(counted().await, [axis(30, 20), axis(30, 30)]);
}

#[tokio::test]
async fn progress_of_much_evidence_is_not_counted_for_every_call() {
    site!(Engine::Sqlite => site);
    let agent = site.enrol("security-auditor").await;
    let path = format!("agents/{agent}/progress");
    let counted = async || site.get(&path).await.json()["capability"]["tasks"].clone();
    for part in 0..6 {
        work(&site, &agent, &format!("part-{part}"), 500, "accepted").await;
    }
    assert_eq!(counted().await, 3000);
    work(&site, &agent, "later", 1, "accepted").await;
    assert_eq!(counted().await, 3000);
    // Other settings change the required number of tasks.
    let body = json!({"minimum_tasks_capability": 40});
    let config = format!("organizations/{}/config", site.ours.id);
    let changed = site.send(Method::PATCH, &config, Some(&body)).await;
    assert_eq!(changed.status, StatusCode::OK, "{changed:?}");
    let progress = site.get(&path).await.json()["capability"].clone();
    assert_eq!(
        progress,
        json!({"tasks": 3001, "required": 40, "enough": true})
    );
}

#[tokio::test]
async fn a_person_who_verifies_a_badge_sees_a_page_with_its_dimensions() {
    site!(Engine::Sqlite => site);
    let found = super::appeals::rated(&site).await;
    let path = format!("/api/v1/badges/{}/verify", text(&found["badge_id"]));
    let accepting = async |accept: &str| {
        let call = site.host.request(Method::GET, &path).anonymous();
        call.header("accept", accept).send().await
    };
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let page = accepting(browser).await;
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    let page = page.text();
    let tier = text(&found["performance"]["tier"]);
    for said in [
        "triage",
        "Acme Evaluations",
        "This badge is valid.",
        "Task Completion Rate",
        tier.as_str(),
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(
        page.contains("95 % interval") && page.contains("<time datetime="),
        "{page}"
    );
    // Other requests of tests must get JSON for an error.
    let missing = "/api/v1/badges/00000000-0000-4000-8000-000000000000/verify";
    let request = axum::http::Request::get(missing).header("accept", browser);
    let request = request.body(axum::body::Body::empty()).unwrap();
    let none = tower::ServiceExt::oneshot(site.host.router.clone(), request);
    let none = none.await.unwrap();
    assert_eq!(none.status(), StatusCode::NOT_FOUND);
    assert_eq!(none.headers()["content-type"], "text/html; charset=utf-8");
    assert!(none.headers().contains_key("content-security-policy"));
    let body = axum::body::to_bytes(none.into_body(), usize::MAX).await;
    assert!(String::from_utf8_lossy(&body.unwrap()).contains("No badge here"));
    let none = site.host.request(Method::GET, missing).anonymous();
    let none = none.header("accept", "application/json").send().await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
    assert_eq!(none.json()["error"]["code"], "NOT_FOUND");
    for accept in ["*/*", "application/json", "application/json, text/html"] {
        let answered = accepting(accept).await;
        assert_eq!(answered.json()["valid"], true, "{accept}");
    }
}

/// The event of `POST /api/v1/events`, timestamped just now.
fn event(agent: &str) -> Value {
    json!({
      "agent_id": agent,
      "type": "task_completed",
      "timestamp": jiff::Timestamp::now(),
      "data": {
        "task_id": "task_uuid",
        "complexity_level": 3,
        "domain": "security",
        "completion_status": "accepted",
        "time_to_complete_seconds": 1847,
        "revision_count": 0,
        "errors": [],
        "tools_used": [
          {"tool": "grep", "invocations": 12, "successes": 12, "unnecessary": 1},
          {"tool": "web_search", "invocations": 3, "successes": 3, "unnecessary": 0}
        ],
        "delegation_decisions": [
          {
            "task_fragment": "Review API endpoints for OWASP top 10",
            "decision": "self",
            "ground_truth": "self",
            "correct": true
          },
          {
            "task_fragment": "Generate architecture diagram",
            "decision": "delegate",
            "delegate_to": "doc-synthesizer",
            "ground_truth": "delegate",
            "correct": true
          }
        ],
        "autonomy_level": 2,
        "review_checklist": {
          "memory_search_performed": true,
          "output_format_correct": true,
          "verification_evidence_provided": true,
          "memory_written": true
        }
      }
    })
}

/// From the organization to the appeal, with one key, in the specification's order.
#[rstest]
#[tokio::test]
async fn the_sequence_of_the_examples_works_from_end_to_end(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    site.host.assess();
    let made = site
        .host
        .post("/api/v1/organizations", &organization())
        .await
        .json();
    let witness = Organization {
        id: text(&made["id"]),
        key: text(&made["api_key"]),
    };
    let send = async |method: Method, path: &str, body: Option<Value>, status: StatusCode| {
        let sent = site.send_as(&witness, method, path, body.as_ref()).await;
        assert_eq!(sent.status, status, "{path}: {sent:?}");
        sent.json()
    };
    let body = agent(&witness.id);
    let enrolled = send(Method::POST, "agents", Some(body), StatusCode::CREATED).await;
    let agent = text(&enrolled["id"]);
    crate::support::evidence::collecting(&site.host.store, &witness.id, &agent, 31).await;

    send(
        Method::POST,
        "events",
        Some(event(&agent)),
        StatusCode::CREATED,
    )
    .await;
    let mut batch = tasks(&agent, "task", 36, "accepted");
    let events = batch["events"].as_array_mut().unwrap();
    let sound = events.len();
    events.push(json!({"agent_id": agent, "type": "daydreamed", "timestamp": jiff::Timestamp::now(), "data": {}}));
    let recorded = send(
        Method::POST,
        "events/batch",
        Some(batch),
        StatusCode::CREATED,
    )
    .await;
    assert_eq!(
        (&recorded["accepted"], &recorded["rejected"]),
        (&json!(sound), &json!(1))
    );
    assert_eq!(recorded["errors"][0]["index"], json!(sound));
    assert!(recorded["errors"][0]["error"].is_string());
    let from = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24);
    let path =
        format!("events?agent_id={agent}&type=task_completed&from={from}&to=2999-01-01T00:00:00Z");
    let listed = send(Method::GET, &path, None, StatusCode::OK).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 37);

    let now = jiff::Timestamp::now();
    let order = json!({
      "agent_id": agent,
      "type": "full",
      "include_stress_test": true,
      "window_start": now - jiff::SignedDuration::from_hours(24 * 30),
      "window_end": now
    });
    let ordered = send(
        Method::POST,
        "assessments",
        Some(order),
        StatusCode::ACCEPTED,
    )
    .await;
    assert_eq!(ordered["status"], "in_progress");
    let id = text(&ordered["id"]);
    let path = format!("assessments/{id}");
    let found = loop {
        let found = send(Method::GET, &path, None, StatusCode::OK).await;
        if found["completed_at"].is_string() {
            break found;
        }
        crate::support::pause().await;
    };
    assert_eq!(found["status"], "completed", "{found}");
    assert!(
        found["performance"]["composite_score"].is_number(),
        "{found}"
    );

    for path in [format!("badges/{id}"), format!("badges/{id}.json")] {
        let badge = send(Method::GET, &path, None, StatusCode::OK).await;
        assert_eq!(badge["agent"]["organization_id"], json!(witness.id));
    }
    let verified = send(
        Method::GET,
        &format!("badges/{id}/verify"),
        None,
        StatusCode::OK,
    )
    .await;
    assert_eq!(
        (
            &verified["valid"],
            &verified["organization"],
            &verified["agent_name"]
        ),
        (
            &json!(true),
            &json!("Witness Civilization"),
            &json!("security-auditor")
        )
    );
    let appeal = json!({
      "dimensions_challenged": ["accuracy", "delegation_capability"],
      "justification": "Accuracy score penalized for revisions that were scope changes, not errors.",
      "counter_evidence": [
        {
          "task_id": "task_uuid",
          "claim": "Revision was requested scope expansion, not correction of error."
        }
      ]
    });
    let path = format!("assessments/{id}/appeals");
    let filed = send(Method::POST, &path, Some(appeal), StatusCode::CREATED).await;
    assert_eq!(filed["status"], "filed");
    for (path, member) in [
        (format!("organizations/{}", witness.id), "name"),
        (
            format!("organizations/{}/config", witness.id),
            "assessment_window_days",
        ),
        (
            format!("organizations/{}/config/weights", witness.id),
            "performance_weights",
        ),
        (
            format!("organizations/{}/config/taxonomy", witness.id),
            "domain_taxonomy",
        ),
    ] {
        let shown = send(Method::GET, &path, None, StatusCode::OK).await;
        assert_eq!(shown[member], organization()[member], "{path}");
    }
}
