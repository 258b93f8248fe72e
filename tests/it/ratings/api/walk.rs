//! Calls every operation of the AAAF API without a key, without the scope, and as another
//! organization. A new operation is included, or the test fails until its parameters are given
//! here.

use std::sync::LazyLock;

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone::http::rating_operations;
use touchstone_host::access::Scope;
use touchstone_host::http::routes::Operation;

use super::{Engine, Site, refusal, site};
use crate::http::support::host::Reply;

/// Values for the path parameters.
#[derive(Clone)]
struct Names {
    organization: String,
    agent: String,
    assessment: String,
    badge: String,
    suite: String,
    /// An assessment with an appeal.
    appealed: String,
    appeal: String,
    webhook: String,
    delivery: String,
    stress_test: String,
}

/// One moment, so that two bodies differ only in their ids.
static NOW: LazyLock<jiff::Timestamp> = LazyLock::new(jiff::Timestamp::now);

const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

impl Names {
    fn nothing() -> Self {
        Self {
            organization: NOBODY.to_owned(),
            agent: NOBODY.to_owned(),
            assessment: NOBODY.to_owned(),
            badge: NOBODY.to_owned(),
            suite: "acme.evals.nothing".to_owned(),
            appealed: NOBODY.to_owned(),
            appeal: NOBODY.to_owned(),
            webhook: NOBODY.to_owned(),
            delivery: NOBODY.to_owned(),
            stress_test: NOBODY.to_owned(),
        }
    }

    fn profile(&self) -> String {
        format!("profiles/{}/1.0.0", self.suite)
    }
}

/// A profile is identified by its suite, so any organization may have one.
const SET_PROFILE: (&str, &str) = ("PUT", "/api/v1/profiles/{suiteId}/{suiteVersion}");

fn profile(suite: &str) -> Value {
    json!({"suiteId": suite, "suiteVersion": "1.0.0", "defaults": {"domain": "code", "complexityLevel": 1}})
}

fn stress_test(input: &str) -> Value {
    json!({"dimension": "autonomy_level", "task_definition": {"input": input},
        "expected_outcome": {"strategy": "contains", "value": "x"}})
}

/// Creates one resource of every kind for the first organization.
async fn furnish(site: &Site) -> Names {
    let agent = site.enrol("canary-agent").await;
    let event = json!({"id": "canary-event", "agent_id": agent, "type": "tool_invoked",
        "timestamp": jiff::Timestamp::now(), "data": {"task_id": "canary-task", "tool": "canary-tool", "success": true,
            "unnecessary": false, "error_recovered": null}});
    let recorded = site.post("events", &event).await;
    assert_eq!(recorded.status, StatusCode::CREATED, "{recorded:?}");
    // Public badges are visible to everyone, so these are private.
    let badge = super::badges::certified(site, "canary-certified").await;
    super::badges::keep_private(site).await;
    let certified = site.get(&format!("badges/{badge}")).await.json();
    let certified = json!({"id": certified["assessment_id"]});
    let appeal = super::appeals::filed(site, &certified, &["accuracy"]).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let busy = site.enrol("canary-busy").await;
    let assessment = super::assessments::ordered(site, &busy).await;
    let (webhook, delivery) = crate::ratings::api::organizations::webhooks::told(site).await;
    let set = site
        .send(
            Method::PUT,
            "config/taxonomy",
            Some(&json!({"domain_taxonomy": ["canary-domain"]})),
        )
        .await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
    let task = site
        .post("stress-tests", &stress_test("canary-input"))
        .await;
    assert_eq!(task.status, StatusCode::CREATED, "{task:?}");
    let names = Names {
        organization: site.ours.id.clone(),
        agent,
        assessment,
        badge,
        suite: "acme.evals.canary".to_owned(),
        appealed: text(&certified["id"]),
        appeal: text(&appeal["id"]),
        webhook,
        delivery,
        stress_test: text(&task.json()["id"]),
    };
    let set = site
        .send(Method::PUT, &names.profile(), Some(&profile(&names.suite)))
        .await;
    assert_eq!(set.status, StatusCode::CREATED, "{set:?}");
    names
}

fn path(operation: Operation, names: &Names) -> String {
    let path = operation
        .path
        .replace("{organizationId}", &names.organization)
        .replace("{agentId}", &names.agent)
        .replace(
            "{assessmentId}/appeals",
            &format!("{}/appeals", names.appealed),
        )
        .replace("{appealId}", &names.appeal)
        .replace("{assessmentId}", &names.assessment)
        .replace("{badgeId}", &names.badge)
        .replace("{suiteId}", &names.suite)
        .replace("{suiteVersion}", "1.0.0")
        .replace("{webhookId}", &names.webhook)
        .replace("{deliveryId}", &names.delivery)
        .replace("{stressTestId}", &names.stress_test);
    assert!(
        !path.contains('{'),
        "add values for the parameters of {path}"
    );
    path
}

/// A valid request body, if the operation takes one.
fn body(operation: Operation, names: &Names) -> Option<Value> {
    let event = json!({"agent_id": names.agent, "type": "task_revised", "timestamp": *NOW,
        "data": {"task_id": "t", "revision_number": 1, "reason_code": "minor", "changes": null}});
    Some(match (operation.method, operation.path) {
        ("GET" | "DELETE", _) => return None,
        (_, "/api/v1/organizations" | "/api/v1/agents") => json!({"name": "x"}),
        ("PATCH", "/api/v1/organizations/{organizationId}" | "/api/v1/agents/{agentId}") => {
            json!({"name": "y"})
        }
        (_, "/api/v1/organizations/{organizationId}/config") => {
            json!({"assessment_window_days": 7})
        }
        (_, "/api/v1/organizations/{organizationId}/issuer-keys/rotate") => {
            json!({"compromised": true})
        }
        (_, path) if path.ends_with("/config/weights") => json!({"performance_weights": null}),
        (_, path) if path.ends_with("/config/taxonomy") => json!({"domain_taxonomy": null}),
        (_, "/api/v1/assessments") => {
            json!({"agent_id": names.agent, "type": "single_dimension", "dimension": "tool_proficiency"})
        }
        (_, path) if path.ends_with("/assessments/{assessmentId}/review") => {
            json!({"decision": "approve"})
        }
        (_, "/api/v1/assessments/{assessmentId}/appeals") => super::appeals::filing(&["speed"]),
        (_, "/api/v1/assessments/{assessmentId}/appeals/{appealId}/resolve") => {
            json!({"decision": "review"})
        }
        (_, "/api/v1/badges/{badgeId}/revoke") => json!({"reason": "withdrawn"}),
        (_, "/api/v1/agents/{agentId}/stress-test") => json!({"dimension": "domain_breadth"}),
        (_, "/api/v1/assessments/{assessmentId}/stress-test") => json!({}),
        (_, "/api/v1/stress-tests") => stress_test("x"),
        SET_PROFILE => profile(&names.suite),
        (_, "/api/v1/events/collect") => json!({"from": "2026-01-01T00:00:00Z"}),
        (_, "/api/v1/webhooks") => {
            json!({"url": "http://127.0.0.1:65535/x", "events": ["badge.expired"]})
        }
        (_, path) if path.starts_with("/api/v1/webhooks/") => json!({}),
        (_, "/api/v1/events") => event,
        (_, "/api/v1/events/batch") => json!({"events": [event]}),
        (method, path) => panic!("add a body for {method} {path}"),
    })
}

async fn send(site: &Site, operation: Operation, names: &Names, key: Option<&str>) -> Reply {
    let method = operation.method.parse().unwrap();
    let call = site.host.request(method, &path(operation, names));
    let call = match key {
        Some(key) => call.key(key),
        None => call.anonymous(),
    };
    match body(operation, names) {
        Some(body) => call.json(&body).send().await,
        None => call.send().await,
    }
}

/// The observable part of a response, without values that differ between any two.
fn seen(reply: &Reply) -> (StatusCode, String, Vec<(String, usize)>) {
    let headers = reply.headers.iter();
    let headers = headers.map(|(name, value)| (name.to_string(), value.len()));
    (reply.status, reply.text(), headers.collect())
}

/// Every response, whether a list, a record or an error, contains nothing of the first
/// organization.
#[rstest]
#[tokio::test]
async fn requests_for_resources_of_another_organization_get_404(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let names = furnish(&site).await;
    let before = seen_by_ourselves(&site).await;
    // The scopes of `key create --scope all`: a 404 cannot be caused by a missing scope.
    let tenant = site.theirs.id.clone();
    let key = site
        .host
        .issue(|issue| {
            issue.tenant = tenant.as_str().into();
            issue.scopes = Scope::within_tenant().collect();
        })
        .await;
    let key = Some(key.as_str());
    let mut walked = 0;
    for operation in rating_operations() {
        let foreign = send(&site, operation, &names, key).await;
        walked += 1;
        if (operation.method, operation.path) == SET_PROFILE {
            assert_eq!(
                foreign.status,
                StatusCode::CREATED,
                "the other organization's resource is separate"
            );
            continue;
        }
        let text = foreign.text();
        for ours in ["canary", &site.ours.id, &names.agent] {
            assert!(!text.contains(ours), "{operation:?}: {text}");
        }
        // The body may name an id that the path does not; that id does not exist either.
        let nothing = send(&site, operation, &Names::nothing(), key).await;
        if operation.path.contains('{') {
            assert_eq!(seen(&foreign), seen(&nothing), "{operation:?}");
            assert_eq!(
                refusal(&foreign),
                (StatusCode::NOT_FOUND, "NOT_FOUND".to_owned()),
                "{operation:?}"
            );
        } else if body(operation, &names) != body(operation, &Names::nothing()) {
            assert_eq!(foreign.status, nothing.status, "{operation:?}");
        }
    }
    assert_eq!(walked, rating_operations().len());
    assert_eq!(
        seen_by_ourselves(&site).await,
        before,
        "our resources are unchanged"
    );
}

async fn seen_by_ourselves(site: &Site) -> Vec<Value> {
    let mut seen = Vec::new();
    for path in [
        "agents",
        "events",
        "config/weights",
        "config/taxonomy",
        "assessments",
        "profiles",
        "profiles/acme.evals.canary/1.0.0",
        "stress-tests",
        "webhooks",
    ] {
        seen.push(site.get(path).await.json());
    }
    let organization = format!("organizations/{}", site.ours.id);
    seen.push(site.get(&organization).await.json());
    let keys = format!("/orgs/{}/did.json", site.ours.id);
    seen.push(site.anonymous(&keys).await.json());
    seen
}

#[tokio::test]
async fn every_operation_needs_a_key_with_the_scope() {
    site!(Engine::Sqlite => site);
    let names = furnish(&site).await;
    let before = seen_by_ourselves(&site).await;
    let tenant = site.ours.id.clone();
    for operation in rating_operations() {
        for names in [&names, &Names::nothing()] {
            let refused = send(&site, operation, names, None).await;
            if !operation.keyed {
                // A public operation without any public data.
                assert_eq!(
                    refusal(&refused),
                    (StatusCode::NOT_FOUND, "NOT_FOUND".to_owned()),
                    "{operation:?}"
                );
                continue;
            }
            assert_eq!(
                refusal(&refused),
                (StatusCode::UNAUTHORIZED, "UNAUTHORIZED".to_owned()),
                "{operation:?}"
            );
            assert_eq!(
                refused.header("www-authenticate"),
                Some("Bearer realm=\"touchstone\"")
            );
        }
        // If the required scope depends on the request, any of these is right.
        let needed = match operation.scope {
            Some(scope) => vec![scope],
            None if !operation.keyed => vec![Scope::BadgesRead],
            None => vec![
                Scope::ConfigRead,
                Scope::ConfigWrite,
                Scope::OrganizationsWrite,
            ],
        };
        let others = Scope::ALL
            .iter()
            .copied()
            .filter(|scope| !needed.contains(scope));
        let key = site
            .host
            .issue(|issue| {
                issue.tenant = tenant.as_str().into();
                issue.scopes = others.collect();
            })
            .await;
        let refused = send(&site, operation, &names, Some(&key)).await;
        assert_eq!(
            refusal(&refused),
            (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned()),
            "{operation:?}"
        );
        let required = &refused.json()["error"]["details"]["scope_required"];
        let required = Scope::parse(required.as_str().unwrap()).unwrap();
        assert!(needed.contains(&required), "{operation:?} {required}");
    }
    assert_eq!(seen_by_ourselves(&site).await, before, "nothing changed");
}

/// Strings that no store can hold, in every string member.
#[rstest]
#[tokio::test]
async fn hostile_text_in_requests_causes_no_server_error(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let names = furnish(&site).await;
    let hostile = Names {
        organization: "a%00b".to_owned(),
        agent: "a%00b".to_owned(),
        assessment: "a%00b".to_owned(),
        badge: "a%00b".to_owned(),
        suite: "a%00b".to_owned(),
        appealed: "a%00b".to_owned(),
        appeal: "a%00b".to_owned(),
        webhook: "a%00b".to_owned(),
        delivery: "a%00b".to_owned(),
        stress_test: "a%00b".to_owned(),
    };
    for operation in rating_operations() {
        let query = "agent_id=a%00b&org_id=a%00b&cursor=a%00b&type=a%00b&status=a%00b";
        for (names, query) in [(&hostile, ""), (&names, ""), (&names, query)] {
            let path = format!("{}?{query}", path(operation, names));
            let call = site.host.request(operation.method.parse().unwrap(), &path);
            let call = match body(operation, names) {
                Some(body) => {
                    let text = body.to_string().replace("\"t\"", "\"a\\u0000b\"");
                    let text = text
                        .replace("\"x\"", "\"a\\u0000b\"")
                        .replace("\"y\"", "\"a\\u0000b\"");
                    call.key(&site.ours.key).raw("application/json", text)
                }
                None => call.key(&site.ours.key),
            };
            let status = call.open().await.status();
            assert!(!status.is_server_error(), "{operation:?} {path} {status}");
        }
    }
}
