//! Real requests to agents on loopback: each agent has one behaviour, which the scores must show.

pub mod agent;
mod certificates;
mod command;
mod fetch;
mod grpc;
mod key_sets;
mod named_scenarios;
mod scenarios;
mod site;
mod world;

use std::sync::Arc;

use serde_json::Value;
use touchstone_agent_cards::config::AgentCardSettings;
use touchstone_agent_cards::rules::Scorecard;
use touchstone_agent_cards::service::fetch::Fetched;
use touchstone_agent_cards::service::{Cards, ContactPolicy};

use agent::Agent;

/// A scorer that may reach these addresses.
fn cards(allowed: &[String]) -> Arc<Cards> {
    let settings = AgentCardSettings {
        private_targets: allowed.to_vec(),
        ..AgentCardSettings::default()
    };
    Arc::new(settings.cards().unwrap())
}

/// Scores a card with requests to the agent.
async fn asked(agent: &Agent, card: &Value) -> Scorecard {
    let fetched = Fetched::at_hand(card.to_string().into_bytes());
    cards(&[agent.place()])
        .score(fetched, ContactPolicy::Agent)
        .await
}

fn document(scorecard: &Scorecard) -> Value {
    serde_json::to_value(scorecard).unwrap()
}

/// The codes of the availability findings.
fn codes(document: &Value) -> Vec<&str> {
    let issues = document["issues"].as_array().unwrap().iter();
    let about = issues.filter(|it| it["dimension"] == "availability");
    about.map(|it| it["code"].as_str().unwrap()).collect()
}
