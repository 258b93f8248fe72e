//! An organization with a rated agent, an appeal, notices, and agent cards.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use touchstone_host::access::Scope;
use touchstone_host::system::SystemClock;

use super::{Shown, Viewer, with_content, without_content};
use crate::agent_cards::wire::agent::Agent as CardAgent;
use crate::console::support::Names;
use crate::ratings::api::Site;
use crate::ratings::api::appeals::{filed, rated};
use crate::ratings::api::assessments::ordered;

const CARDS: &str = "/v1/host/touchstone/agent-cards";

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Adds the content; returns a person of the organization, and the agent whose card is scored.
pub async fn seed(site: &Site, names: &mut Names) -> (Viewer, CardAgent) {
    let key = site.host.issue(|issue| {
        issue.tenant = site.ours.id.as_str().into();
        issue.scopes = Scope::within_tenant().collect();
        issue.principal = Some("kim".to_owned());
    });
    let key = key.await;
    site.host.tell(Arc::new(SystemClock));
    let hook = json!({"url": "http://127.0.0.1:9999/notices"});
    let hook = text(&site.post("webhooks", &hook).await.json()["id"]);
    let assessment = rated(site).await;
    let appeal = filed(site, &assessment, &["speed"]).await;
    names.rated = text(&assessment["agent_id"]);
    names.assessment = text(&assessment["id"]);
    names.appeal = text(&appeal["id"]);
    ordered(site, &names.rated).await;
    let deliveries = format!("webhooks/{hook}/deliveries");
    names.delivery = loop {
        let listed = site.get(&deliveries).await.json();
        if let Some(first) = listed["data"].as_array().and_then(|all| all.first()) {
            break text(&first["id"]);
        }
        crate::support::pause().await;
    };
    names.notice = hook;
    let card = cards(site, &key).await;
    let badge = format!("/api/v1/badges/{}/verify", text(&assessment["badge_id"]));
    let badges = without_content([badge, "/api/v1/badges/none/verify".to_owned()]);
    let pages = [pages(names), card_pages(&card), badges].concat();
    (Viewer { key, pages }, card)
}

/// A watched card that was scored twice. Its texts are markup.
async fn cards(site: &Site, key: &str) -> CardAgent {
    let agent = CardAgent::start(&["card-of-markup"]).await;
    site.host.outside.open(&agent.place());
    let url = agent.base();
    for (what, body) in [
        ("score", json!({"url": url, "live": true})),
        ("score", json!({"url": url})),
        ("watches", json!({"url": url, "everyHours": 24})),
    ] {
        let call = site.host.request(Method::POST, &format!("{CARDS}/{what}"));
        let reply = call.key(key).json(&body).send().await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    }
    agent
}

fn card_pages(agent: &CardAgent) -> Vec<Shown> {
    let url: String = url::form_urlencoded::byte_serialize(agent.base().as_bytes()).collect();
    with_content([
        "/console/cards".to_owned(),
        format!("/console/cards/history?url={url}"),
    ])
}

fn pages(names: &Names) -> Vec<Shown> {
    let agent = format!("/console/ratings/{}", names.rated);
    with_content([
        "/console/ratings".to_owned(),
        "/console/ratings?sort=capability".to_owned(),
        agent.clone(),
        format!("{agent}/dimensions/accuracy"),
        format!("{agent}/dimensions/task_completion_rate"),
        format!("{agent}/assessments/{}", names.assessment),
        "/console/notices".to_owned(),
        format!("/console/notices/{}", names.notice),
    ])
}
