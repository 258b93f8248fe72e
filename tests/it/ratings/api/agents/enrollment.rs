//! Agents: enrolling, listing in pages, changing and archiving.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::json;

use crate::ratings::api::{Engine, refusal, site};

#[rstest]
#[tokio::test]
async fn an_agent_is_enrolled_changed_and_archived(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let asked = json!({"name": "triage", "description": "Sorts tickets.", "domains": ["communication", "analysis"],
        "tools": ["search"]});
    let enrolled = site.post("agents", &asked).await;
    assert_eq!(enrolled.status, StatusCode::CREATED);
    let agent = enrolled.json();
    assert_eq!(
        (
            &agent["organization_id"],
            &agent["status"],
            &agent["domains"]
        ),
        (&json!(site.ours.id), &json!("enrolled"), &asked["domains"])
    );
    let path = format!("agents/{}", agent["id"].as_str().unwrap());
    assert_eq!(site.get(&path).await.json(), agent);
    let taken = site.post("agents", &asked).await;
    assert_eq!(
        refusal(&taken),
        (StatusCode::CONFLICT, "CONFLICT".to_owned())
    );
    let elsewhere = site
        .send_as(&site.theirs, Method::POST, "agents", Some(&asked))
        .await;
    assert_eq!(
        elsewhere.status,
        StatusCode::CREATED,
        "names are unique per organization"
    );
    site.enrol("writer").await;
    let rename = json!({"name": "writer"});
    let taken = site.send(Method::PATCH, &path, Some(&rename)).await;
    assert_eq!(taken.status, StatusCode::CONFLICT);
    let change = json!({"name": "triage-2", "tools": ["search", "label"], "description": ""});
    let changed = site.send(Method::PATCH, &path, Some(&change)).await.json();
    assert_eq!(
        (
            &changed["name"],
            &changed["tools"],
            &changed["description"],
            &changed["domains"]
        ),
        (
            &json!("triage-2"),
            &change["tools"],
            &json!(null),
            &asked["domains"]
        )
    );
    for _ in 0..2 {
        let archived = site.send(Method::DELETE, &path, None).await;
        assert_eq!(archived.status, StatusCode::NO_CONTENT);
    }
    assert_eq!(site.get(&path).await.json()["status"], "archived");
    let change = site
        .send(Method::PATCH, &path, Some(&json!({"version": "2"})))
        .await;
    assert_eq!(change.status, StatusCode::CONFLICT);
    site.enrol("triage-2").await;
    let archived = site.get("agents?status=archived").await.json();
    assert_eq!(archived["data"].as_array().unwrap().len(), 1);
}

#[rstest]
#[tokio::test]
async fn a_list_is_walked_page_by_page_and_each_agent_is_seen_once(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let mut enrolled = Vec::new();
    for n in 0..7 {
        enrolled.push(site.enrol(&format!("agent-{n}")).await);
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = site.get(&format!("agents?limit=3{cursor}")).await.json();
        let data = page["data"].as_array().unwrap();
        assert!(data.len() <= 3);
        seen.extend(data.iter().map(|it| it["id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, enrolled);
    let whole = site.get("agents?limit=7").await.json();
    assert_eq!(
        whole["next_cursor"],
        json!(null),
        "the last page is not empty"
    );
    let own = site
        .get(&format!("agents?org_id={}", site.ours.id))
        .await
        .json();
    assert_eq!(own["data"].as_array().unwrap().len(), 7);
    let foreign = site.get(&format!("agents?org_id={}", site.theirs.id)).await;
    assert_eq!(foreign.json(), json!({"data": [], "next_cursor": null}));
}

#[tokio::test]
async fn a_request_that_is_repeated_under_its_key_enrols_once() {
    site!(Engine::Sqlite => site);
    let ask = async || {
        let call = site.host.request(Method::POST, "/api/v1/agents");
        let call = call.key(&site.ours.key).header("idempotency-key", "k");
        call.json(&json!({"name": "triage"})).send().await
    };
    let first = ask().await;
    let again = ask().await;
    assert_eq!((again.status, again.json()), (first.status, first.json()));
    assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
}
