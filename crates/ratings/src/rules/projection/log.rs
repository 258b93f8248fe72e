//! The part of a run's log that matters as evidence.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    /// Sequence number in the log.
    pub sequence: u64,
    #[serde(rename = "type")]
    pub kind: String,
    /// As written in the log.
    pub timestamp: String,
    /// `eval:<task>` in evals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    #[serde(default)]
    pub payload: Value,
}

/// An event whose payload does not match its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {sequence} of the run is not a valid `{kind}`: {reason}")]
pub struct LogFault {
    pub sequence: u64,
    /// The expected type.
    pub kind: String,
    pub reason: String,
}

/// A parsed event.
pub struct Entry<'a> {
    pub sequence: u64,
    pub timestamp: &'a str,
    pub at: Timestamp,
    node_id: Option<&'a str>,
    pub kind: EntryKind,
}

pub enum EntryKind {
    EvalStarted(EvalStarted),
    /// Belongs to the run, not to a task.
    RunLevel,
    InvocationStarted(InvocationStarted),
    InvocationCompleted(InvocationCompleted),
    ToolCalled(ToolCalled),
    ToolReturned(ToolReturned),
    Handoff(Handoff),
    Decided(Decided),
    Verified(Verified),
    /// A person intervened.
    HumanIntervention,
    Scored(Scored),
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalStarted {
    pub suite_id: String,
    pub suite_version: String,
    #[serde(default)]
    pub modes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvocationStarted {
    pub memory_bound: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvocationCompleted {
    pub agent_id: String,
    pub outcome: String,
    pub schema_validated: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCalled {
    pub agent_id: String,
    pub tool_name: String,
    pub call_id: String,
    pub args_hash: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReturned {
    pub call_id: String,
    pub status: Option<String>,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handoff {
    pub from_agent_id: String,
    pub to_agent_id: String,
    pub reason: Option<String>,
}

#[derive(Deserialize)]
pub struct Decided {
    pub decision: NextStep,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NextStep {
    pub kind: String,
    #[serde(default)]
    pub next_worker_ids: Vec<String>,
}

#[derive(Deserialize)]
pub struct Verified {
    pub verdict: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scored {
    task_id: String,
    pub score: f64,
    pub passed: bool,
    pub cost_usd: Option<f64>,
    pub latency_ms: Option<f64>,
    pub schema_valid: Option<bool>,
    pub safety_finding_count: Option<u64>,
}

impl ToolReturned {
    /// Whether the call succeeded.
    pub fn succeeded(&self) -> bool {
        let fault = match &self.error {
            Value::Null | Value::Bool(false) => false,
            Value::Object(members) => !members.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => true,
        };
        self.status.as_deref().unwrap_or("ok") == "ok" && !fault
    }

    /// Whether the call was not allowed.
    pub fn is_forbidden(&self) -> bool {
        self.status.as_deref() == Some("forbidden")
    }
}

/// Reads the log and sorts it.
pub fn read(events: &[RunEvent]) -> Result<Vec<Entry<'_>>, LogFault> {
    let mut entries = events.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(|it| it.sequence);
    Ok(entries)
}

fn entry(event: &RunEvent) -> Result<Entry<'_>, LogFault> {
    let at = event.timestamp.parse().map_err(|_| LogFault {
        sequence: event.sequence,
        kind: event.kind.clone(),
        reason: "its timestamp is invalid".to_owned(),
    })?;
    let kind = match event.kind.as_str() {
        "eval.started" => EntryKind::EvalStarted(payload(event)?),
        "eval.completed" | "run.started" | "run.completed" => EntryKind::RunLevel,
        "agent.invocation.started" => EntryKind::InvocationStarted(payload(event)?),
        "agent.invocation.completed" => EntryKind::InvocationCompleted(payload(event)?),
        "agent.toolCalled" => EntryKind::ToolCalled(payload(event)?),
        "agent.toolReturned" => EntryKind::ToolReturned(payload(event)?),
        "agent.handoff" => EntryKind::Handoff(payload(event)?),
        "runOrchestrator.decided" => EntryKind::Decided(payload(event)?),
        "agent.verified" => EntryKind::Verified(payload(event)?),
        "interrupt.resolved"
        | "clarification.resolved"
        | "approval.received"
        | "approval.granted"
        | "approval.overridden" => EntryKind::HumanIntervention,
        "eval.scored" => EntryKind::Scored(payload(event)?),
        _ => EntryKind::Other,
    };
    Ok(Entry {
        sequence: event.sequence,
        timestamp: &event.timestamp,
        at,
        node_id: event.node_id.as_deref(),
        kind,
    })
}

fn payload<T: DeserializeOwned>(event: &RunEvent) -> Result<T, LogFault> {
    T::deserialize(&event.payload).map_err(|fault| LogFault {
        sequence: event.sequence,
        kind: event.kind.clone(),
        reason: fault.to_string(),
    })
}

/// Groups entries by task: by their node id, or without one by what lies between two judgments.
pub fn by_task<'a>(entries: &'a [Entry<'a>]) -> Vec<(String, Vec<&'a Entry<'a>>)> {
    let mut tasks: Vec<(String, Vec<&Entry<'_>>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    let mut add = |name: &str, more: Vec<&'a Entry<'a>>| {
        let place = *places.entry(name.to_owned()).or_insert_with(|| {
            tasks.push((name.to_owned(), Vec::new()));
            tasks.len() - 1
        });
        if let Some((_, entries)) = tasks.get_mut(place) {
            entries.extend(more);
        }
    };
    let mut between = Vec::new();
    for entry in entries {
        if matches!(entry.kind, EntryKind::RunLevel | EntryKind::EvalStarted(_)) {
            continue;
        }
        if let Some(task) = entry.node_id.and_then(|node| node.strip_prefix("eval:")) {
            add(task, vec![entry]);
            continue;
        }
        between.push(entry);
        if let EntryKind::Scored(scored) = &entry.kind {
            add(&scored.task_id, std::mem::take(&mut between));
        }
    }
    tasks
}
