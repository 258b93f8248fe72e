//! Agents that are really asked, on loopback: each behaves in one way, and the scores say which.

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
use touchstone::app;
use touchstone::config::AgentCardSettings;
use touchstone::domain::card::Scorecard;
use touchstone::service::cards::{Asking, Cards, Fetched};

use agent::Agent;

/// What scores cards and may reach these places.
fn cards(allowed: &[String]) -> Arc<Cards> {
    let settings = AgentCardSettings {
        private_targets: allowed.to_vec(),
        ..AgentCardSettings::default()
    };
    Arc::new(app::cards(&settings).unwrap())
}

/// Asks an agent as its card has it.
async fn asked(agent: &Agent, card: &Value) -> Scorecard {
    let fetched = Fetched::at_hand(card.to_string().into_bytes());
    cards(&[agent.place()]).score(fetched, Asking::Agent).await
}

fn document(scorecard: &Scorecard) -> Value {
    serde_json::to_value(scorecard).unwrap()
}

/// The codes of what was found about availability.
fn codes(document: &Value) -> Vec<&str> {
    let issues = document["issues"].as_array().unwrap().iter();
    let about = issues.filter(|it| it["dimension"] == "availability");
    about.map(|it| it["code"].as_str().unwrap()).collect()
}
