//! `RunSnapshot` (OpenWOP run-snapshot): a view of record and fold.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::fold::{RunState, RunStatus};
use super::fork::{Fork, Provenance};
use super::record::RunRecord;
use crate::protocol::openwop::events::{ENGINE_VERSION, Owner, RunError};

/// Version of the event log's schema.
pub const EVENT_LOG_SCHEMA_VERSION: u32 = 2;

/// A run as it is shown.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot<'a> {
    run_id: &'a str,
    workflow_id: &'a str,
    status: RunStatus,
    owner: Owner,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fork: Option<Provenance>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<jiff::Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<jiff::Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RunError>,
    engine_version: &'static str,
    event_log_schema_version: u32,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    configurable: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Value>,
}

/// The snapshot of a run. `cancel_requested` shows as `cancelling` until the log has the terminal event.
pub fn snapshot<'a>(
    record: &'a RunRecord,
    state: &'a RunState,
    cancel_requested: bool,
) -> RunSnapshot<'a> {
    RunSnapshot {
        run_id: record.run_id.as_str(),
        workflow_id: &record.spec.workflow_id,
        status: visible_status(state, cancel_requested),
        owner: Owner {
            tenant: record.tenant.to_string(),
            principal: Some(record.principal.clone()),
        },
        agent: record
            .spec
            .eval()
            .map(|eval| json!({"agentId": eval.agent_id, "version": eval.agent_version})),
        fork: record.fork.as_ref().map(Fork::provenance),
        started_at: state.started_at,
        completed_at: state.completed_at,
        error: state.error.as_ref(),
        engine_version: ENGINE_VERSION,
        event_log_schema_version: EVENT_LOG_SCHEMA_VERSION,
        tags: &record.spec.tags,
        metadata: &record.spec.metadata,
        configurable: &record.spec.configurable,
        metrics: cost_metrics(state),
    }
}

/// The status to show.
pub fn visible_status(state: &RunState, cancel_requested: bool) -> RunStatus {
    if cancel_requested && !state.status.is_terminal() {
        RunStatus::Cancelling
    } else {
        state.status
    }
}

fn cost_metrics(state: &RunState) -> Option<Value> {
    let (provider, model) = state.model.as_ref()?;
    let mut cost = json!({
        "usd": state.eval.total_cost,
        "tokens": {"input": state.tokens.0, "output": state.tokens.1},
        "model": model,
        "provider": provider,
    });
    if let (Some(from), Some(to), Some(members)) =
        (state.started_at, state.completed_at, cost.as_object_mut())
    {
        members.insert(
            "duration_ms".to_owned(),
            json!(to.duration_since(from).as_millis().max(0)),
        );
    }
    Some(json!({"openwopCost": cost}))
}
