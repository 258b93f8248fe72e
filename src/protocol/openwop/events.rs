//! Run events (OpenWOP run-event and run-event-payloads): typed payloads and the document around them.
//!
//! Writers are strict: only the members listed here are ever sent, so the `eval.*` payloads stay content-free (RFC 0081,
//! invariant `eval-summary-no-content-leak`). Readers are tolerant: an unknown type or member is passed over.
//!
//! Types of our own carry the prefix `touchstone.` and are content-free too: labels, ids and counts only.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::deployment::DeploymentState;
use super::flow_events::{
    ApprovalGranted, ApprovalOverridden, ApprovalReceived, ApprovalRejected, ApprovalRequested,
    ClarificationRequested, ClarificationResolved, InterruptRequested, InterruptResolved,
    MessageChunk, NodeCompleted, NodeFailed, NodeResumed, NodeStarted, NodeSuspended, RunPaused,
    RunResumed,
};
use super::suite::{EvalMode, ModelClass};
use super::summary::EvalSummary;
use crate::domain::ids::{AgentId, EventId, NodeId, RunId, TaskId};
use crate::domain::money::NanoUsd;

macro_rules! events {
    ($( $(#[$doc:meta])* $variant:ident($payload:ty) = $wire:literal; )*) => {
        /// What happened, with its payload.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event { $( $(#[$doc])* $variant($payload), )* }

        impl Event {
            /// Every type this host writes.
            pub const TYPES: &'static [&'static str] = &[$($wire,)*];

            /// The wire name of the type.
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $wire,)* }
            }

            /// Reads a payload by type. `Ok(None)` for a type this version does not know.
            ///
            /// # Errors
            /// The payload does not have the shape its type demands.
            pub fn parse(kind: &str, payload: &str) -> serde_json::Result<Option<Self>> {
                Ok(match kind {
                    $($wire => Some(Self::$variant(serde_json::from_str(payload)?)),)*
                    _ => None,
                })
            }
        }

        impl Serialize for Event {
            /// The payload alone; the type stands in the document around it.
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self { $(Self::$variant(payload) => payload.serialize(serializer),)* }
            }
        }
    };
}

events! {
    /// The run began.
    RunStarted(RunStarted) = "run.started";
    /// The run reached its end. A failing eval completes too.
    RunCompleted(RunCompleted) = "run.completed";
    /// The machinery broke.
    RunFailed(RunFailed) = "run.failed";
    /// The run was cancelled.
    RunCancelled(RunCancelled) = "run.cancelled";
    /// The run was paused.
    RunPaused(RunPaused) = "run.paused";
    /// A paused run goes on.
    RunResumed(RunResumed) = "run.resumed";
    /// A node began.
    NodeStarted(NodeStarted) = "node.started";
    /// A node ended well.
    NodeCompleted(NodeCompleted) = "node.completed";
    /// A node failed.
    NodeFailed(NodeFailed) = "node.failed";
    /// A node waits for an answer.
    NodeSuspended(NodeSuspended) = "node.suspended";
    /// A node got its answer.
    NodeResumed(NodeResumed) = "node.resumed";
    /// An answer from outside is asked for.
    InterruptRequested(InterruptRequested) = "interrupt.requested";
    /// It was given.
    InterruptResolved(InterruptResolved) = "interrupt.resolved";
    /// An approval is asked for.
    ApprovalRequested(ApprovalRequested) = "approval.requested";
    /// An approval was decided.
    ApprovalReceived(ApprovalReceived) = "approval.received";
    /// One of those who may approve did.
    ApprovalGranted(ApprovalGranted) = "approval.granted";
    /// One of those who may approve refused.
    ApprovalRejected(ApprovalRejected) = "approval.rejected";
    /// The quorum was overridden.
    ApprovalOverridden(ApprovalOverridden) = "approval.overridden";
    /// Questions are asked.
    ClarificationRequested(ClarificationRequested) = "clarification.requested";
    /// Questions were answered.
    ClarificationResolved(ClarificationResolved) = "clarification.resolved";
    /// A piece of text as a model writes it.
    MessageChunk(MessageChunk) = "ai.message.chunk";
    /// A hard bound was reached.
    CapBreached(CapBreached) = "cap.breached";
    /// The effective budget, once.
    BudgetReserved(BudgetReserved) = "budget.reserved";
    /// How much of one dimension of the budget is used.
    BudgetConsumed(BudgetConsumed) = "budget.consumed";
    /// So much of one dimension is used that it was to be said.
    BudgetThresholdCrossed(BudgetThresholdCrossed) = "budget.threshold.crossed";
    /// The budget of one dimension is used up.
    BudgetExhausted(BudgetExhausted) = "budget.exhausted";
    /// Somebody was let through, or not.
    AuthorizationDecided(AuthorizationDecided) = "authorization.decided";
    /// A version took a step towards production.
    DeploymentPromoted(DeploymentPromoted) = "deployment.promoted";
    /// A version was replaced by the one before it.
    DeploymentRolledBack(DeploymentRolledBack) = "deployment.rolled-back";
    /// A version takes another share of the traffic.
    DeploymentCanaryAdjusted(DeploymentCanaryAdjusted) = "deployment.canary.adjusted";
    /// A version left or came back into service.
    DeploymentStateChanged(DeploymentStateChanged) = "deployment.state.changed";
    /// The eval began.
    EvalStarted(EvalStarted) = "eval.started";
    /// A task was scored.
    EvalScored(EvalScored) = "eval.scored";
    /// All tasks are scored.
    EvalCompleted(EvalCompleted) = "eval.completed";
    /// An agent invocation began.
    AgentInvocationStarted(AgentInvocationStarted) = "agent.invocation.started";
    /// An agent invocation ended.
    AgentInvocationCompleted(AgentInvocationCompleted) = "agent.invocation.completed";
    /// The agent said what it thinks.
    AgentReasoned(AgentReasoned) = "agent.reasoned";
    /// The agent called a tool.
    AgentToolCalled(AgentToolCalled) = "agent.toolCalled";
    /// The tool answered.
    AgentToolReturned(AgentToolReturned) = "agent.toolReturned";
    /// The agent's final decision.
    AgentDecided(AgentDecided) = "agent.decided";
    /// One model call was metered.
    ProviderUsage(ProviderUsage) = "provider.usage";
    /// A replay computes something else from the recorded facts than was recorded.
    ReplayDiverged(ReplayDiverged) = "replay.diverged";
    /// A model call is tried again.
    ModelRetried(ModelRetried) = "touchstone.model.retried";
    /// The provider reported no usage: the `provider.usage` before this event is estimated by size.
    UsageEstimated(UsageEstimated) = "touchstone.usage.estimated";
    /// A tool was called for which the suite has no response.
    FixtureMissing(FixtureMissing) = "touchstone.fixture.missing";
    /// The agent failed the task by its own doing.
    TaskFailed(TaskFailed) = "touchstone.task.failed";
    /// The machinery failed: the task was not judged, its score says nothing about the agent.
    TaskUnjudged(TaskUnjudged) = "touchstone.task.unjudged";
    /// The facts of this task were recorded by an earlier run.
    TaskReused(TaskReused) = "touchstone.task.reused";
}

impl Event {
    /// Whether this is one of the three events that end a run.
    pub const fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::RunCompleted(_) | Self::RunFailed(_) | Self::RunCancelled(_)
        )
    }
}

/// An event as its emitter knows it; the log adds id, time and sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// What happened.
    pub event: Event,
    /// The task it belongs to (envelope `nodeId`), so that costs and facts can be summed by task.
    pub node_id: Option<TaskId>,
    /// The event that caused it.
    pub causation_id: Option<EventId>,
}

impl NewEvent {
    /// An event of the run as a whole.
    pub fn of_run(event: Event) -> Self {
        Self {
            event,
            node_id: None,
            causation_id: None,
        }
    }

    /// An event of one task.
    pub fn of_task(event: Event, task: &TaskId, causation_id: Option<&EventId>) -> Self {
        Self {
            event,
            node_id: Some(task.clone()),
            causation_id: causation_id.cloned(),
        }
    }
}

/// Version of the event document.
pub const SCHEMA_VERSION: u32 = 1;
/// Version of the engine that writes the log, as text.
pub const ENGINE_VERSION: &str = "1";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DocumentOut<'a, P> {
    event_id: &'a EventId,
    run_id: &'a RunId,
    r#type: &'a str,
    #[serde(serialize_with = "fixed_width")]
    timestamp: Timestamp,
    sequence: u64,
    schema_version: u32,
    engine_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<&'a TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    causation_id: Option<&'a EventId>,
    payload: P,
}

/// Always six digits after the point: readers compare timestamps as text, and `…1Z` sorts after `…15Z`.
fn fixed_width<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{at:.6}"))
}

/// Writes an event document as one line of JSON.
///
/// # Errors
/// Only if the payload holds a number JSON cannot carry, which no payload of ours does.
pub fn write_document(
    run_id: &RunId,
    event_id: &EventId,
    sequence: u64,
    timestamp: Timestamp,
    new: &NewEvent,
) -> serde_json::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(384);
    serde_json::to_writer(
        &mut line,
        &DocumentOut {
            event_id,
            run_id,
            r#type: new.event.kind(),
            timestamp,
            sequence,
            schema_version: SCHEMA_VERSION,
            engine_version: ENGINE_VERSION,
            node_id: new.node_id.as_ref(),
            causation_id: new.causation_id.as_ref(),
            payload: &new.event,
        },
    )?;
    Ok(line)
}

/// An event that another run recorded first, as its fork records it.
#[derive(Debug)]
pub struct Inherited {
    /// Its id in the fork.
    pub event_id: EventId,
    /// Type.
    pub kind: String,
    /// Task or node.
    pub node_id: Option<TaskId>,
    /// The id of its cause in the fork.
    pub causation_id: Option<EventId>,
    /// The fact, octet by octet.
    pub payload: Box<RawValue>,
    /// The fact as this version understands it; `None` for a type it does not know.
    pub event: Option<Event>,
}

/// Writes the document of an event that another run recorded: its payload octet by octet, everything around it anew.
///
/// # Errors
/// None that is known of; the payload was JSON when it was read.
pub fn write_inherited(
    run_id: &RunId,
    sequence: u64,
    timestamp: Timestamp,
    inherited: &Inherited,
) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&DocumentOut {
        event_id: &inherited.event_id,
        run_id,
        r#type: &inherited.kind,
        timestamp,
        sequence,
        schema_version: SCHEMA_VERSION,
        engine_version: ENGINE_VERSION,
        node_id: inherited.node_id.as_ref(),
        causation_id: inherited.causation_id.as_ref(),
        payload: &inherited.payload,
    })
}

/// An event document as it is read back. The payload is parsed only when somebody needs it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventDocument<'a> {
    /// Unique id.
    pub event_id: EventId,
    /// Type.
    #[serde(rename = "type", borrow)]
    pub kind: std::borrow::Cow<'a, str>,
    /// When.
    pub timestamp: Timestamp,
    /// Position in the log.
    pub sequence: u64,
    /// Task, for task events.
    pub node_id: Option<TaskId>,
    /// Causing event.
    pub causation_id: Option<EventId>,
    /// The payload's text.
    #[serde(borrow)]
    pub payload: &'a RawValue,
}

impl<'a> EventDocument<'a> {
    /// Reads a stored document.
    ///
    /// # Errors
    /// The text is no event document.
    pub fn read(body: &'a [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(body)
    }

    /// The typed event; `None` for a type this version does not know.
    ///
    /// # Errors
    /// The payload does not have the shape its type demands.
    pub fn event(&self) -> serde_json::Result<Option<Event>> {
        Event::parse(&self.kind, self.payload.get())
    }
}

/// `run.started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStarted {
    /// The workflow; `eval:<suiteId>@<version>` for an eval run.
    pub workflow_id: String,
    /// The caller's inputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    /// How the run came in.
    pub transport: String,
    /// Engine version.
    pub engine_version: String,
    /// The owner.
    pub owner: Owner,
    /// Tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Metadata.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The owner triple (RFC 0048), derived from the credential only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// Tenant.
    pub tenant: String,
    /// Principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// `run.completed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCompleted {
    /// What came of it.
    pub outputs: RunOutputs,
    /// From `run.started`, in milliseconds.
    pub duration_ms: u64,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RunOutputs {
    /// Of an eval run: its summary.
    Eval(EvalSummary),
    /// Of a workflow: the outputs of its last nodes.
    Workflow(Map<String, Value>),
}

/// `run.failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunFailed {
    /// Why.
    pub error: RunError,
    /// The node that failed, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_node_id: Option<NodeId>,
}

/// A run error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunError {
    /// Code, such as `run_timeout`.
    pub code: String,
    /// In words, without content.
    pub message: String,
}

/// `run.cancelled`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCancelled {
    /// Why, if said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Principal of who asked.
    pub cancelled_by: String,
}

/// `cap.breached`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapBreached {
    /// `run-duration`, `node-executions`, `budget-cost`, `budget-tokens`.
    pub kind: String,
    /// The bound.
    pub limit: f64,
    /// What was seen; above the bound.
    pub observed: f64,
    /// The node that would have gone beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
}

/// `budget.reserved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetReserved {
    /// The bounds in force.
    pub effective_budget: EffectiveBudget,
    /// `run`.
    pub scope: String,
}

/// The bounds of `budget.reserved`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveBudget {
    /// Most tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Most money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<NanoUsd>,
    /// Most calls of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u64>,
    /// Most calls that are tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u64>,
}

/// `budget.consumed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetConsumed {
    /// `tokens`, `cost`, `toolCalls` or `retries`.
    pub dimension: String,
    /// What is used, in the dimension's unit.
    pub consumed: f64,
    /// The bound.
    pub limit: f64,
    /// What is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<f64>,
}

/// `budget.threshold.crossed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetThresholdCrossed {
    /// `tokens`, `cost`, `toolCalls` or `retries`.
    pub dimension: String,
    /// What is used, in the dimension's unit.
    pub consumed: f64,
    /// The bound.
    pub limit: f64,
    /// The threshold.
    pub percent: f64,
}

/// `budget.exhausted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetExhausted {
    /// `tokens`, `cost`, `toolCalls` or `retries`.
    pub dimension: String,
    /// What is used, in the dimension's unit.
    pub consumed: f64,
    /// The bound.
    pub limit: f64,
}

/// `authorization.decided` (RFC 0049). Closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationDecided {
    /// Who asked.
    pub principal: String,
    /// The scope it takes, such as `deploy:promote`.
    pub action: String,
    /// What it was asked for.
    pub resource: String,
    /// The decision.
    pub allowed: bool,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `deployment.promoted` (RFC 0082 §D). Closed and content-free, like its siblings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPromoted {
    /// The agent.
    pub agent_id: AgentId,
    /// The version.
    pub to_version: String,
    /// Where it stands now.
    pub to_state: DeploymentState,
    /// The version that had the channel before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_version: Option<String>,
    /// The channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Its share of the traffic, 0..=100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_percent: Option<u8>,
    /// The evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_run_id: Option<RunId>,
    /// The gate that granted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_gate_id: Option<String>,
}

/// `deployment.rolled-back`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentRolledBack {
    /// The agent.
    pub agent_id: AgentId,
    /// The version that went.
    pub from_version: String,
    /// The version that serves in its place.
    pub to_version: String,
    /// The same, as the record of the one that went shows it.
    pub rollback_pointer: String,
    /// A short label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `deployment.canary.adjusted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentCanaryAdjusted {
    /// The agent.
    pub agent_id: AgentId,
    /// The version.
    pub version: String,
    /// Its share before, 0..=100.
    pub from_percent: u8,
    /// Its share now, 0..=100.
    pub to_percent: u8,
}

/// `deployment.state.changed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentStateChanged {
    /// The agent.
    pub agent_id: AgentId,
    /// The version.
    pub version: String,
    /// Where it stood.
    pub from_state: DeploymentState,
    /// Where it stands now.
    pub to_state: DeploymentState,
}

/// `eval.started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalStarted {
    /// Suite id.
    pub suite_id: String,
    /// Pinned version.
    pub suite_version: String,
    /// Number of tasks.
    pub task_count: usize,
    /// Modes that are scored.
    pub modes: Vec<EvalMode>,
    /// Baseline of a regression run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_run_id: Option<RunId>,
}

/// `eval.scored`: the recorded fact. Content-free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalScored {
    /// The task.
    pub task_id: TaskId,
    /// 0.0..=1.0.
    pub score: f64,
    /// Whether the task met its bar.
    pub passed: bool,
    /// Sum of the task's `provider.usage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<NanoUsd>,
    /// Wall-clock time of the invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Whether the output satisfies the agent's return schema; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_valid: Option<bool>,
    /// Number of safety findings; absent where no mode looks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_finding_count: Option<u32>,
}

/// `eval.completed`. Content-free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalCompleted {
    /// 0.0..=1.0.
    pub aggregate_score: f64,
    /// The verdict.
    pub passed: bool,
    /// Tasks scored.
    pub task_count: usize,
    /// Tasks passed.
    pub passed_count: usize,
    /// Aggregate minus the baseline's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regression_vs_baseline: Option<f64>,
}

/// `agent.invocation.started` (RFC 0077). Content-free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInvocationStarted {
    /// Unique in the run.
    pub invocation_id: String,
    /// The agent.
    pub agent_id: AgentId,
    /// `run-api`, or `workflow-node`.
    pub source: String,
    /// The agent's class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_class: Option<ModelClass>,
    /// The model it resolved to; a node that asks none has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_model: Option<String>,
    /// Its provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_provider: Option<String>,
    /// The agent's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_agent_version: Option<String>,
    /// The channel it was found on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_channel: Option<String>,
    /// Number of tools on offer.
    pub tool_surface_count: usize,
    /// Whether memory is in its read snapshot.
    pub memory_bound: bool,
}

/// How an invocation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvocationOutcome {
    /// A decision was reached.
    Completed,
    /// The model refused.
    Refused,
    /// It failed, by the agent's doing or the machinery's.
    Failed,
}

/// `agent.invocation.completed` (RFC 0077). Content-free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInvocationCompleted {
    /// As in the started event.
    pub invocation_id: String,
    /// The agent.
    pub agent_id: AgentId,
    /// How it ended.
    pub outcome: InvocationOutcome,
    /// Whether the output satisfies the return schema; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_validated: Option<bool>,
}

/// `agent.reasoned`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReasoned {
    /// The agent.
    pub agent_id: AgentId,
    /// What it said beside its tool calls.
    pub reasoning: String,
}

/// `agent.toolCalled`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentToolCalled {
    /// The agent.
    pub agent_id: AgentId,
    /// The tool.
    pub tool_name: String,
    /// Pairs the call with its return.
    pub call_id: String,
    /// The arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
}

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It answered.
    Ok,
    /// It failed.
    Error,
    /// It is not on the agent's allowlist and did not run.
    Forbidden,
}

/// `agent.toolReturned`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentToolReturned {
    /// The agent.
    pub agent_id: AgentId,
    /// The tool.
    pub tool_name: String,
    /// Pairs the return with its call.
    pub call_id: String,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Value>,
    /// The failure, as a label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How it ended.
    pub status: ToolStatus,
}

/// `agent.decided`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDecided {
    /// The agent.
    pub agent_id: AgentId,
    /// Its output; null when it reached none.
    pub decision: Value,
}

/// `provider.usage` (RFC 0026), one per model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderUsage {
    /// Provider.
    pub provider: String,
    /// Model.
    pub model: String,
    /// Prompt tokens.
    pub input_tokens: u64,
    /// Completion tokens.
    pub output_tokens: u64,
    /// Both.
    pub total_tokens: u64,
    /// What the call cost by the configured prices.
    pub cost_estimate_usd: NanoUsd,
    /// `USD`.
    pub currency: String,
    /// Prompt tokens from the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<TaskId>,
}

/// `replay.diverged`. Informational: what was recorded stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayDiverged {
    /// The run that is replayed.
    pub source_run_id: RunId,
    /// Sequence of its event that comes out differently.
    pub at_sequence: u64,
    /// How it differs.
    pub divergence_kind: DivergenceKind,
    /// Type of that event.
    pub divergence_point: String,
}

/// How a replay differs from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DivergenceKind {
    /// The same event with another content.
    Output,
    /// An event the replay lacks.
    Missing,
    /// An event the source lacks.
    Extra,
    /// An event of another type.
    TypeMismatch,
}

/// `touchstone.model.retried`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelRetried {
    /// The attempt that failed, from 1.
    pub attempt: u32,
    /// A label from a closed list.
    pub reason: String,
    /// How long until the next attempt.
    pub wait_ms: u64,
}

/// `touchstone.usage.estimated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageEstimated {
    /// Prompt tokens, by size.
    pub input_tokens: u64,
    /// Completion tokens, by size.
    pub output_tokens: u64,
}

/// `touchstone.fixture.missing`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FixtureMissing {
    /// The tool.
    pub tool: String,
    /// The call.
    pub call_id: String,
}

/// `touchstone.task.failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskFailed {
    /// The task.
    pub task_id: TaskId,
    /// A label from a closed list.
    pub reason: String,
}

/// `touchstone.task.unjudged`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskUnjudged {
    /// The task.
    pub task_id: TaskId,
    /// A label from a closed list.
    pub reason: String,
}

/// `touchstone.task.reused`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskReused {
    /// The task.
    pub task_id: TaskId,
    /// The run that judged it.
    pub source_run_id: RunId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_sort_as_text() {
        let (run, id) = (RunId::from("run_1"), EventId::from("evt_1"));
        let event = NewEvent::of_run(Event::RunCancelled(RunCancelled {
            reason: None,
            cancelled_by: "key_1".to_owned(),
        }));
        let mut shown: Vec<String> = Vec::new();
        for micros in [0, 46_100, 46_177, 100_000, 1_000_000] {
            let at = Timestamp::from_microsecond(micros).unwrap();
            let line = write_document(&run, &id, 1, at, &event).unwrap();
            let document: serde_json::Value = serde_json::from_slice(&line).unwrap();
            shown.push(document["timestamp"].as_str().unwrap().to_owned());
            assert_eq!(EventDocument::read(&line).unwrap().timestamp, at);
        }
        assert!(shown.is_sorted(), "{shown:?}");
        assert_eq!(shown.first().unwrap(), "1970-01-01T00:00:00.000000Z");
    }
}
