//! `RunSnapshot` (OpenWOP run-snapshot): a view of record and fold.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::fold::{RunState, RunStatus};
use super::fork::{Fork, Provenance};
use super::record::{RunRecord, WorkflowSpec};
use crate::rules::kind::Kinds;
use touchstone_kit::ids::NodeId;
use touchstone_openwop::events::{ENGINE_VERSION, Owner, RunError};

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
    replayed_from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fork: Option<Provenance>,
    #[serde(flatten)]
    kind: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_node_id: Option<&'a NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_states: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    variables: Option<Map<String, Value>>,
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

/// The agent of a run: the evaluated agent, or the agent of the first workflow node that has one
/// (agent-ref).
fn agent(record: &RunRecord) -> Option<Value> {
    if let Some(eval) = record.spec.eval() {
        return Some(json!({"agentId": eval.agent_id, "version": eval.agent_version}));
    }
    let bound = record.spec.workflow()?.agents.first()?;
    let mut agent = json!({"agentId": bound.agent_id});
    if let (Some(version), Some(members)) = (&bound.version, agent.as_object_mut()) {
        members.insert("version".to_owned(), json!(version));
    }
    Some(agent)
}

/// The snapshot of a run. `cancel_requested` shows as `cancelling` until the log has the terminal
/// event.
pub fn snapshot<'a>(
    kinds: Kinds,
    record: &'a RunRecord,
    state: &'a RunState,
    cancel_requested: bool,
) -> RunSnapshot<'a> {
    let workflow = record.spec.workflow();
    RunSnapshot {
        run_id: record.run_id.as_str(),
        workflow_id: &record.spec.workflow_id,
        status: visible_status(state, cancel_requested),
        owner: Owner {
            tenant: record.tenant.to_string(),
            principal: Some(record.principal.clone()),
        },
        agent: agent(record),
        replayed_from: record
            .spec
            .eval()
            .and_then(|eval| eval.execution.replayed_from.as_deref()),
        fork: Fork::provenance(record),
        kind: of_kind(kinds, record, state).into_iter().collect(),
        current_node_id: state.flow.pending().map(|(node, _)| node),
        node_states: workflow.map(|spec| node_states(spec, state)),
        variables: workflow.map(|spec| variables(record, spec, state)),
        started_at: state.started_at,
        completed_at: state.completed_at,
        error: state.error.as_ref(),
        engine_version: ENGINE_VERSION,
        event_log_schema_version: record.log.era(),
        tags: &record.spec.tags,
        metadata: &record.spec.metadata,
        configurable: &record.spec.configurable,
        metrics: cost_metrics(state),
    }
}

/// The member of the run's kind.
fn of_kind(kinds: Kinds, record: &RunRecord, state: &RunState) -> Option<(String, Value)> {
    let kind = kinds.of(record.spec.eval()?)?;
    let member = kind.snapshot(&record.run_id, &state.eval)?;
    Some((kind.name().to_owned(), member))
}

fn node_states(spec: &WorkflowSpec, state: &RunState) -> Map<String, Value> {
    let nodes = spec.definition.nodes.iter();
    let shown = nodes.map(|node| {
        let facts = state.flow.node(&node.id);
        let status = facts.map(|facts| facts.status).unwrap_or_default();
        let mut shown = json!({"status": status.as_str(), "typeId": node.type_id});
        if let (Some(facts), Some(members)) = (facts, shown.as_object_mut()) {
            members.insert("attempt".to_owned(), json!(facts.attempt));
            if let Some(error) = &facts.error {
                members.insert("error".to_owned(), json!(error));
            }
        }
        (node.id.to_string(), shown)
    });
    shown.collect()
}

/// The inputs of a workflow, and the results of its nodes.
fn variables(record: &RunRecord, spec: &WorkflowSpec, state: &RunState) -> Map<String, Value> {
    let mut variables = record.spec.inputs.clone();
    for node in &spec.definition.nodes {
        let outputs = state.flow.node(&node.id).map(|facts| &facts.outputs);
        if let Some(outputs) = outputs.filter(|outputs| !outputs.is_empty()) {
            variables.insert(node.id.to_string(), Value::Object(outputs.clone()));
        }
    }
    variables
}

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
        "tokens": {"input": state.tokens.0, "output": state.tokens.1},
        "model": model,
        "provider": provider,
    });
    if let (Some(usd), Some(members)) = (state.eval.total_cost.known(), cost.as_object_mut()) {
        members.insert("usd".to_owned(), json!(usd));
    }
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
