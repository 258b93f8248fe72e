//! Run events (OpenWOP run-event and run-event-payloads): typed payloads and the document around them.
//!
//! Writers are strict: only the members listed here are ever sent, so the `eval.*` payloads stay content-free (RFC 0081,
//! invariant `eval-summary-no-content-leak`). Readers are tolerant: an unknown type or member is passed over.
//!
//! Types of our own carry the prefix `touchstone.` and are content-free too: labels, ids and counts only.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::ids::{EventId, RunId, TaskId};

mod agent;
mod deployment;
mod eval;
mod flow;
mod oasis;
mod run;

pub use agent::{
    AgentDecided, AgentHandoff, AgentInvocationCompleted, AgentInvocationStarted, AgentReasoned,
    AgentToolCalled, AgentToolReturned, EffectIntended, InvocationOutcome, ModelRetried,
    OrchestratorDecision, ProviderUsage, RunOrchestratorDecided, ToolStatus, ToolTransport,
    UsageEstimated,
};
pub use deployment::{
    AuthorizationDecided, DeploymentCanaryAdjusted, DeploymentPromoted, DeploymentRolledBack,
    DeploymentStateChanged,
};
pub use eval::{
    EvalCompleted, EvalScored, EvalStarted, FixtureMissing, TaskFailed, TaskJudged, TaskReused,
    TaskSafety, TaskUnjudged,
};
pub use flow::{
    ApprovalGranted, ApprovalOverridden, ApprovalReceived, ApprovalRejected, ApprovalRequested,
    ChunkMeta, ChunkUsage, ClarificationRequested, ClarificationResolved, DrainPolicy,
    InterruptKind, InterruptRequested, InterruptResolved, MessageChunk, NodeCompleted, NodeFailed,
    NodeResumed, NodeStarted, NodeSuspended, Question, QuorumProgress, RunPaused, RunResumed,
};
pub use oasis::{
    AgentIdentity, OasisDeviation, OasisExcluded, OasisObserved, OasisPreflight, OasisProbe,
    OasisProvisioned, OasisScenario, OasisVerdict, ProbeOrigin, ProviderIdentity,
    RequirementAnswer,
};
pub use run::{
    BudgetConsumed, BudgetExhausted, BudgetReserved, BudgetThresholdCrossed, CapBreached,
    DivergenceKind, EffectiveBudget, Owner, ReplayDiverged, RunCancelled, RunCompleted, RunError,
    RunFailed, RunOutputs, RunStarted,
};

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
    /// The agent handed a part of its task to another one.
    AgentHandoff(AgentHandoff) = "agent.handoff";
    /// The agent decided which workers are next.
    RunOrchestratorDecided(RunOrchestratorDecided) = "runOrchestrator.decided";
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
    /// A tool that changes something is about to be called.
    EffectIntended(EffectIntended) = "touchstone.effect.intended";
    /// A tool was called for which the suite has no response.
    FixtureMissing(FixtureMissing) = "touchstone.fixture.missing";
    /// The agent failed the task by its own doing.
    TaskFailed(TaskFailed) = "touchstone.task.failed";
    /// A judge looked for the criteria of the task's rubric.
    TaskJudged(TaskJudged) = "touchstone.task.judged";
    /// Detectors found something unsafe in what the agent did.
    TaskSafety(TaskSafety) = "touchstone.task.safety";
    /// The machinery failed: the task was not judged, its score says nothing about the agent.
    TaskUnjudged(TaskUnjudged) = "touchstone.task.unjudged";
    /// The facts of this task were recorded by an earlier run.
    TaskReused(TaskReused) = "touchstone.task.reused";
    /// What was found out before an OASIS evaluation began.
    OasisPreflight(OasisPreflight) = "touchstone.oasis.preflight";
    /// A scenario does not apply to the agent.
    OasisExcluded(OasisExcluded) = "touchstone.oasis.excluded";
    /// The provider made an environment.
    OasisProvisioned(OasisProvisioned) = "touchstone.oasis.provisioned";
    /// The provider was asked what it sees.
    OasisObserved(OasisObserved) = "touchstone.oasis.observed";
    /// A scenario was executed.
    OasisScenario(OasisScenario) = "touchstone.oasis.scenario";
    /// A probe of the adversarial phase was executed.
    OasisProbe(OasisProbe) = "touchstone.oasis.probe";
    /// The verdict.
    OasisVerdict(OasisVerdict) = "touchstone.oasis.verdict";
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
