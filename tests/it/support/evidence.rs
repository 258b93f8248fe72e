//! Evidence that a host has collected for a while, which no request can create.

use std::path::Path;

use super::host_keys;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use touchstone::database;
use touchstone_host::store::database::Database;
use touchstone_ratings::ports::events::{NewEvent, Origin};
use touchstone_ratings::rules::evidence::Recorder;
use touchstone_ratings::store as rating_store;

/// Makes evidence collection for an agent look this many days old.
pub async fn collecting(store: &Database, organization: &str, agent: &str, days: i64) {
    let then = Timestamp::now() - SignedDuration::from_hours(24 * days);
    collecting_since(store, organization, agent, then).await;
}

/// The same from a given time: an event with that time, recorded at that time.
pub async fn collecting_since(store: &Database, organization: &str, agent: &str, then: Timestamp) {
    let organization = rating_store::organizations::organization(store, organization)
        .await
        .unwrap()
        .unwrap();
    let agent = rating_store::agents::agent(store, organization.number, agent).await;
    let agent = agent.unwrap().unwrap();
    let data = json!({"task_id": "early", "tool": "grep", "success": true, "unnecessary": false,
        "error_recovered": null});
    let event = NewEvent {
        id: format!("early-{}", agent.id),
        agent: agent.number,
        kind: "tool_invoked",
        occurred_at: then,
        task: "early".to_owned(),
        assessment: None,
        data: data.to_string(),
    };
    let origin = Origin {
        source: "api",
        recorder: Recorder::Organization,
        principal: "ci",
    };
    let events = [event];
    let recorded =
        rating_store::events::record_events(store, organization.number, &events, origin, then);
    recorded.await.unwrap();
}

/// The same for a month, in the database of a data folder.
pub async fn collecting_in(folder: &Path, organization: &str, agent: &str) {
    let file = folder.join("touchstone.db");
    let store = database::open(file.to_str().unwrap(), host_keys::usual())
        .await
        .unwrap();
    collecting(&store, organization, agent, 31).await;
}
