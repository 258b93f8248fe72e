//! Third-party auditors can read and decide only what the organizations that name them allow.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone::http::rating_operations;
use touchstone_host::access::Scope;

use crate::http::support::host::Reply;
use crate::ratings::api::assessments::{assessed, work};
use crate::ratings::api::{Engine, Site, refusal, site};

const AUDITORS: &str = "auditors-ltd";

/// A key of a tenant without resources on this host.
async fn key(site: &Site, tenant: &str, principal: &str) -> String {
    let issued = site.host.issue(|issue| {
        issue.tenant = tenant.into();
        issue.scopes = Scope::within_tenant().collect();
        issue.principal = Some(principal.to_owned());
    });
    issued.await
}

async fn send(site: &Site, key: &str, method: Method, path: &str, body: Option<&Value>) -> Reply {
    let path = format!("/api/v1/{path}");
    let call = site.host.request(method, &path).key(key);
    match body {
        Some(body) => call.json(body).send().await,
        None => call.send().await,
    }
}

/// Sets the auditors of our organization.
async fn name(site: &Site, auditors: Value) -> Reply {
    let path = format!("organizations/{}", site.ours.id);
    let body = json!({"auditors": auditors});
    site.send(Method::PATCH, &path, Some(&body)).await
}

/// One of our assessments that waits for a review.
async fn waiting(site: &Site) -> Value {
    let config = format!("organizations/{}/config", site.ours.id);
    let always = json!({"review_policy": "always"});
    site.send(Method::PATCH, &config, Some(&always)).await;
    let assessing = site.host.assess();
    let agent = site.enrol("triage").await;
    work(site, &agent, "good", 36, "accepted").await;
    let order = json!({"agent_id": agent, "type": "passive_only"});
    let found = assessed(site, &order).await;
    assessing.cancel();
    assert_eq!(found["badge_state"], "withheld", "{found}");
    found
}

fn not_there() -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, "NOT_FOUND".to_owned())
}

#[rstest]
#[tokio::test]
async fn an_auditor_of_another_tenant_reads_and_reviews_the_organization_that_names_it(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let found = waiting(&site).await;
    let kim = key(&site, AUDITORS, "kim").await;
    let id = found["id"].as_str().unwrap();
    let list = format!("audits/{}/assessments", site.ours.id);
    let one = format!("{list}/{id}");
    let review = format!("{one}/review");
    let approve = json!({"decision": "approve", "reason": "The evidence supports it."});
    let refused = send(&site, &kim, Method::GET, &list, None).await;
    assert_eq!(refusal(&refused), not_there(), "kim is not an auditor");

    let own = json!([{"tenant": site.ours.id, "principal": "kim"}]);
    let refused = name(&site, own).await;
    let field = &refused.json()["error"]["details"]["field"];
    assert_eq!(field, "auditors.tenant", "an auditor is external");
    let named = json!([{"tenant": AUDITORS, "principal": "kim"}]);
    assert_eq!(name(&site, named.clone()).await.json()["auditors"], named);
    let listed = send(&site, &kim, Method::GET, &list, None).await.json();
    assert_eq!(listed["data"], json!([found]));
    let read = send(&site, &kim, Method::GET, &one, None).await.json();
    assert_eq!(read, found, "with its scores and counts of evidence");

    let reviewed = send(&site, &kim, Method::POST, &review, Some(&approve)).await;
    assert_eq!(reviewed.status, StatusCode::OK, "{reviewed:?}");
    let reviewed = reviewed.json();
    assert_eq!(
        (
            &reviewed["badge_state"],
            &reviewed["review"]["by"],
            &reviewed["review"]["auditor_tenant"]
        ),
        (&json!("issued"), &json!("kim"), &json!(AUDITORS)),
        "{reviewed}"
    );
    let kept = site.get(&format!("assessments/{id}")).await.json();
    assert_eq!(kept, reviewed);
    let twice = send(&site, &kim, Method::POST, &review, Some(&approve)).await;
    assert_eq!(
        refusal(&twice),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );
    let store = &site.host.store;
    let tenant = site.ours.id.as_str().into();
    let audit = store.audit_entries(&tenant, 0, 100).await.unwrap();
    let external = "\"principal\":\"external:auditors-ltd/kim\"";
    let decided = audit.iter().find(|it| it.body.contains(external));
    let decided = &decided.unwrap().body;
    assert!(decided.contains("assessments:approve") && decided.contains(id));

    // An auditor who is removed loses access.
    name(&site, json!([])).await;
    let refused = send(&site, &kim, Method::GET, &one, None).await;
    assert_eq!(refusal(&refused), not_there());
}

/// A named auditor gains three operations on one organization, and only as the named principal of
/// the named tenant.
#[tokio::test]
async fn an_auditor_sees_nothing_else() {
    site!(Engine::Sqlite => site);
    let found = waiting(&site).await;
    name(&site, json!([{"tenant": AUDITORS, "principal": "kim"}])).await;
    let kim = key(&site, AUDITORS, "kim").await;
    let id = found["id"].as_str().unwrap();
    let agent = found["agent_id"].as_str().unwrap();
    let badge = found["badge_id"].as_str().unwrap();
    let mut opened = 0;
    for operation in rating_operations() {
        if operation.method != "GET" || !operation.keyed {
            continue;
        }
        let path = operation
            .path
            .replace("{organizationId}", &site.ours.id)
            .replace("{assessmentId}", id)
            .replace("{agentId}", agent)
            .replace("{badgeId}", badge)
            .replace(['{', '}'], "");
        let path = path.strip_prefix("/api/v1/").unwrap();
        let answer = send(&site, &kim, Method::GET, path, None).await;
        if operation.path.starts_with("/api/v1/audits/") {
            assert_eq!(answer.status, StatusCode::OK, "{operation:?}");
            opened += 1;
        } else {
            let text = answer.text();
            assert!(answer.status.is_client_error(), "{operation:?}: {text}");
            assert!(!text.contains(agent), "{operation:?}: {text}");
        }
    }
    assert_eq!(opened, 2);

    let list = format!("audits/{}/assessments", site.ours.id);
    let theirs = format!("audits/{}/assessments", site.theirs.id);
    let review = format!("{list}/{id}/review");
    let approve = json!({"decision": "approve"});
    for (tenant, principal, path) in [
        (AUDITORS, "lee", &list),
        ("others-ltd", "kim", &list),
        (site.theirs.id.as_str(), "kim", &list),
        (site.ours.id.as_str(), "kim", &list),
        (AUDITORS, "kim", &theirs),
    ] {
        let stranger = key(&site, tenant, principal).await;
        let refused = send(&site, &stranger, Method::GET, path, None).await;
        assert_eq!(refusal(&refused), not_there(), "{tenant} {principal}");
        if path == &list {
            let refused = send(&site, &stranger, Method::POST, &review, Some(&approve)).await;
            assert_eq!(refusal(&refused), not_there(), "{tenant} {principal}");
        }
    }
    let reader = site.host.issue(|issue| {
        issue.tenant = AUDITORS.into();
        issue.scopes = vec![Scope::AssessmentsRead];
        issue.principal = Some("kim".to_owned());
    });
    let refused = send(&site, &reader.await, Method::POST, &review, Some(&approve)).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{refused:?}");
    let kept = site.get(&format!("assessments/{id}")).await.json();
    assert_eq!(kept, found, "no decision was recorded");
}

#[tokio::test]
async fn an_auditor_reviews_neither_its_own_work_nor_as_an_agent() {
    site!(Engine::Sqlite => site);
    let found = waiting(&site).await;
    let asker = found["triggered_by"].as_str().unwrap();
    let agent = found["agent_id"].as_str().unwrap();
    let auditors = [asker, agent].map(|it| json!({"tenant": AUDITORS, "principal": it}));
    let named = name(&site, json!(auditors)).await;
    assert_eq!(named.status, StatusCode::OK, "{named:?}");
    let id = found["id"].as_str().unwrap();
    let review = format!("audits/{}/assessments/{id}/review", site.ours.id);
    let approve = json!({"decision": "approve"});
    for principal in [asker, agent] {
        let auditor = key(&site, AUDITORS, principal).await;
        let refused = send(&site, &auditor, Method::POST, &review, Some(&approve)).await;
        assert_eq!(
            refusal(&refused),
            (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned()),
            "{principal}"
        );
    }
}

#[tokio::test]
async fn a_suspended_organization_is_read_and_not_reviewed_by_its_auditor() {
    site!(Engine::Sqlite => site);
    let found = waiting(&site).await;
    name(&site, json!([{"tenant": AUDITORS, "principal": "kim"}])).await;
    let kim = key(&site, AUDITORS, "kim").await;
    let organization = format!("/api/v1/organizations/{}", site.ours.id);
    let operator = site.host.request(Method::PATCH, &organization);
    let suspended = operator.json(&json!({"status": "suspended"})).send().await;
    assert_eq!(suspended.status, StatusCode::OK, "{suspended:?}");
    let id = found["id"].as_str().unwrap();
    let one = format!("audits/{}/assessments/{id}", site.ours.id);
    let read = send(&site, &kim, Method::GET, &one, None).await;
    assert_eq!(read.status, StatusCode::OK, "{read:?}");
    let review = format!("{one}/review");
    let approve = json!({"decision": "approve"});
    let refused = send(&site, &kim, Method::POST, &review, Some(&approve)).await;
    assert_eq!(
        refusal(&refused),
        (StatusCode::FORBIDDEN, "FORBIDDEN".to_owned())
    );
}
