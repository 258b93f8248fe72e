//! Run events (OpenWOP run-event and run-event-payloads): typed payloads and the document around
//! them.
//!
//! Writers are strict: they send only the members listed here, so the `eval.*` payloads contain no
//! task content (RFC 0081, invariant `eval-summary-no-content-leak`). Readers are tolerant: they
//! ignore unknown types and members.
//!
//! This host's own types have the prefix `touchstone.` and contain no task content either, except
//! the reasons of judges (`touchstone.judge.reasoned`, `touchstone.assertions.reasoned`), rejected
//! replies (`touchstone.reply.rejected`) and the turns of conversations (`touchstone.turn.*`,
//! `touchstone.user.*`): only labels, ids and counts.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use touchstone_kit::ids::{EventId, RunId, TaskId};

mod agent;
mod deployment;
mod dialogue;
mod eval;
mod extension;
mod flow;
mod run;

pub use crate::invocation::InvocationOutcome;
pub use agent::{
    AgentDecided, AgentHandoff, AgentInvocationCompleted, AgentInvocationStarted, AgentReasoned,
    AgentToolCalled, AgentToolReturned, AnswerCached, EffectIntended, ModelRetried,
    OrchestratorDecision, ProviderUsage, RunOrchestratorDecided, ToolStatus, ToolTransport,
    UsageEstimated, args_hash,
};
pub use deployment::{
    AuthorizationDecided, DeploymentCanaryAdjusted, DeploymentPromoted, DeploymentRolledBack,
    DeploymentStateChanged,
};
pub use dialogue::{AttachedFile, TaskAttached, TurnAnswered, UserOpens, UserSaid, UserStopped};
pub use eval::{
    AssertionDecision, AssertionReason, AssertionsDecided, AssertionsReasoned, EvalCompleted,
    EvalScored, EvalStarted, FixtureMissing, JudgeReasoned, JudgeVote, ReplyRejected, TaskFailed,
    TaskJudged, TaskMeasured, TaskReused, TaskSafety, TaskUnjudged,
};
pub use extension::ExtensionEvent;
pub use flow::{
    ApprovalGranted, ApprovalOverridden, ApprovalReceived, ApprovalRejected, ApprovalRequested,
    ChunkMeta, ChunkUsage, ClarificationRequested, ClarificationResolved, DrainPolicy,
    InterruptKind, InterruptRequested, InterruptResolved, MessageChunk, NodeCompleted, NodeFailed,
    NodeResumed, NodeStarted, NodeSuspended, Question, QuorumProgress, RunPaused, RunResumed,
};
pub use run::{
    BudgetConsumed, BudgetExhausted, BudgetReserved, BudgetThresholdCrossed, CapBreached,
    DivergenceKind, EffectiveBudget, Owner, ReplayDiverged, RunCancelled, RunCompleted, RunError,
    RunFailed, RunOutputs, RunStarted,
};

macro_rules! events {
    ($( $(#[$doc:meta])* $variant:ident($payload:ty) = $wire:literal; )*) => {
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event {
            $( $(#[$doc])* $variant($payload), )*
            /// An event of an evaluation kind.
            Extension(ExtensionEvent),
        }

        impl Event {
            /// Every type that runs write, without those of evaluation kinds.
            pub const TYPES: &'static [&'static str] = &[$($wire,)*];

            /// The wire name of the type.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $wire,)*
                    Self::Extension(event) => event.kind(),
                }
            }

            /// Reads a payload by type. `Ok(None)` for a type that this version does not define.
            /// The payload of an [`ExtensionEvent`] is read by its kind.
            ///
            /// # Errors
            /// The payload does not have the shape of its type.
            pub fn parse(kind: &str, payload: &str) -> serde_json::Result<Option<Self>> {
                Ok(match kind {
                    $($wire => Some(Self::$variant(serde_json::from_str(payload)?)),)*
                    _ => ExtensionEvent::read(kind, payload)?.map(Self::Extension),
                })
            }
        }

        impl Serialize for Event {
            /// Serializes the payload alone; the type is in the document around it.
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(payload) => payload.serialize(serializer),)*
                    Self::Extension(event) => event.payload().serialize(serializer),
                }
            }
        }
    };
}

events! {
    RunStarted(RunStarted) = "run.started";
    /// The run finished. A run with a failing verdict completes too.
    RunCompleted(RunCompleted) = "run.completed";
    /// The run failed because of the infrastructure.
    RunFailed(RunFailed) = "run.failed";
    /// The run was cancelled.
    RunCancelled(RunCancelled) = "run.cancelled";
    /// The run was paused.
    RunPaused(RunPaused) = "run.paused";
    /// A paused run resumed.
    RunResumed(RunResumed) = "run.resumed";
    NodeStarted(NodeStarted) = "node.started";
    NodeCompleted(NodeCompleted) = "node.completed";
    NodeFailed(NodeFailed) = "node.failed";
    /// A node waits for an answer.
    NodeSuspended(NodeSuspended) = "node.suspended";
    /// A node received its answer.
    NodeResumed(NodeResumed) = "node.resumed";
    /// An answer from outside is requested.
    InterruptRequested(InterruptRequested) = "interrupt.requested";
    /// An interrupt was answered.
    InterruptResolved(InterruptResolved) = "interrupt.resolved";
    ApprovalRequested(ApprovalRequested) = "approval.requested";
    /// An approval was decided.
    ApprovalReceived(ApprovalReceived) = "approval.received";
    /// An approver granted the approval.
    ApprovalGranted(ApprovalGranted) = "approval.granted";
    /// An approver rejected the approval.
    ApprovalRejected(ApprovalRejected) = "approval.rejected";
    /// The quorum was overridden.
    ApprovalOverridden(ApprovalOverridden) = "approval.overridden";
    /// Clarifying questions were asked.
    ClarificationRequested(ClarificationRequested) = "clarification.requested";
    /// Clarifying questions were answered.
    ClarificationResolved(ClarificationResolved) = "clarification.resolved";
    /// A chunk of text from a model, as it is generated.
    MessageChunk(MessageChunk) = "ai.message.chunk";
    /// A hard limit was reached.
    CapBreached(CapBreached) = "cap.breached";
    /// The effective budget, recorded once.
    BudgetReserved(BudgetReserved) = "budget.reserved";
    /// The consumption in one dimension of the budget.
    BudgetConsumed(BudgetConsumed) = "budget.consumed";
    /// The consumption in one dimension crossed a reporting threshold.
    BudgetThresholdCrossed(BudgetThresholdCrossed) = "budget.threshold.crossed";
    /// The budget of one dimension is exhausted.
    BudgetExhausted(BudgetExhausted) = "budget.exhausted";
    /// An authorization was granted or denied.
    AuthorizationDecided(AuthorizationDecided) = "authorization.decided";
    /// A version was promoted one step towards production.
    DeploymentPromoted(DeploymentPromoted) = "deployment.promoted";
    /// A version was replaced by the previous one.
    DeploymentRolledBack(DeploymentRolledBack) = "deployment.rolled-back";
    /// A version's share of the traffic changed.
    DeploymentCanaryAdjusted(DeploymentCanaryAdjusted) = "deployment.canary.adjusted";
    /// A version was withdrawn from service or put back.
    DeploymentStateChanged(DeploymentStateChanged) = "deployment.state.changed";
    /// The eval run started.
    EvalStarted(EvalStarted) = "eval.started";
    /// A task was scored.
    EvalScored(EvalScored) = "eval.scored";
    /// All tasks are scored.
    EvalCompleted(EvalCompleted) = "eval.completed";
    AgentInvocationStarted(AgentInvocationStarted) = "agent.invocation.started";
    /// An agent invocation ended.
    AgentInvocationCompleted(AgentInvocationCompleted) = "agent.invocation.completed";
    /// The agent's reasoning.
    AgentReasoned(AgentReasoned) = "agent.reasoned";
    AgentToolCalled(AgentToolCalled) = "agent.toolCalled";
    /// A tool call returned.
    AgentToolReturned(AgentToolReturned) = "agent.toolReturned";
    /// The agent delegated part of its task to another agent.
    AgentHandoff(AgentHandoff) = "agent.handoff";
    /// The agent decided which workers run next.
    RunOrchestratorDecided(RunOrchestratorDecided) = "runOrchestrator.decided";
    /// The agent's final decision.
    AgentDecided(AgentDecided) = "agent.decided";
    /// One model call was metered.
    ProviderUsage(ProviderUsage) = "provider.usage";
    /// A replay computed a different result from the recorded facts.
    ReplayDiverged(ReplayDiverged) = "replay.diverged";
    /// A model call is retried.
    ModelRetried(ModelRetried) = "touchstone.model.retried";
    /// The provider reported no usage: the preceding `provider.usage` is an estimate by size.
    UsageEstimated(UsageEstimated) = "touchstone.usage.estimated";
    /// The answer came from the cache of model answers: the preceding `provider.usage` cost
    /// nothing.
    AnswerCached(AnswerCached) = "touchstone.answer.cached";
    /// A tool with side effects is about to be called.
    EffectIntended(EffectIntended) = "touchstone.effect.intended";
    /// Files are sent with the task's input.
    TaskAttached(TaskAttached) = "touchstone.task.attached";
    /// The agent answered one message of the user.
    TurnAnswered(TurnAnswered) = "touchstone.turn.answered";
    /// A simulated user is asked for the first message.
    UserOpens(UserOpens) = "touchstone.user.opens";
    /// The user says more after an answer, or opens the conversation.
    UserSaid(UserSaid) = "touchstone.user.said";
    /// A simulated user ended the conversation.
    UserStopped(UserStopped) = "touchstone.user.stopped";
    /// The agent called a tool for which the suite has no response.
    FixtureMissing(FixtureMissing) = "touchstone.fixture.missing";
    /// The agent failed the task.
    TaskFailed(TaskFailed) = "touchstone.task.failed";
    /// A judge checked the criteria of the task's rubric.
    TaskJudged(TaskJudged) = "touchstone.task.judged";
    /// The assertions of a scoring document were evaluated.
    TaskMeasured(TaskMeasured) = "touchstone.task.measured";
    /// A judge gave its reasons.
    JudgeReasoned(JudgeReasoned) = "touchstone.judge.reasoned";
    /// A reply of a judge or of a simulated user does not have the requested form.
    ReplyRejected(ReplyRejected) = "touchstone.reply.rejected";
    /// Judges, models or commands decided assertions of a scoring document.
    AssertionsDecided(AssertionsDecided) = "touchstone.assertions.decided";
    /// They gave their reasons.
    AssertionsReasoned(AssertionsReasoned) = "touchstone.assertions.reasoned";
    /// Detectors found unsafe actions of the agent.
    TaskSafety(TaskSafety) = "touchstone.task.safety";
    /// The infrastructure failed: the task was not judged, and its score says nothing about the
    /// agent.
    TaskUnjudged(TaskUnjudged) = "touchstone.task.unjudged";
    /// An earlier run recorded the facts of this task.
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

/// An event as its emitter creates it; the log adds id, time and sequence number.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    pub event: Event,
    /// The task that the event belongs to (envelope `nodeId`), so that costs and facts can be
    /// aggregated by task.
    pub node_id: Option<TaskId>,
    /// The event that caused this one.
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
/// Version of the engine that writes the log, as a string.
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

/// Always six fractional digits: readers compare timestamps as strings, and `…1Z` sorts after
/// `…15Z`.
fn fixed_width<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{at:.6}"))
}

/// Writes an event document as one line of JSON.
///
/// # Errors
/// The payload contains a number that JSON cannot represent. This host's payloads contain none.
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
    /// The event's id in the fork.
    pub event_id: EventId,
    /// The event type.
    pub kind: String,
    /// Task or node.
    pub node_id: Option<TaskId>,
    /// The id of the causing event in the fork.
    pub causation_id: Option<EventId>,
    /// The payload, byte for byte.
    pub payload: Box<RawValue>,
    /// The parsed event; `None` for a type that this version does not define.
    pub event: Option<Event>,
}

/// Writes the document of an event that another run recorded. The payload is copied byte for byte;
/// everything around it is written again.
///
/// # Errors
/// None in practice, because the payload was valid JSON when it was read.
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

/// A stored event document. The payload is parsed only on demand.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventDocument<'a> {
    pub event_id: EventId,
    /// The event type.
    #[serde(rename = "type", borrow)]
    pub kind: std::borrow::Cow<'a, str>,
    pub timestamp: Timestamp,
    /// Position in the log.
    pub sequence: u64,
    /// The task, for task events.
    pub node_id: Option<TaskId>,
    /// The causing event.
    pub causation_id: Option<EventId>,
    /// The payload as JSON text.
    #[serde(borrow)]
    pub payload: &'a RawValue,
}

impl<'a> EventDocument<'a> {
    /// Reads a stored document.
    ///
    /// # Errors
    /// The text is not an event document.
    pub fn read(body: &'a [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(body)
    }

    /// The typed event; `None` for a type that this version does not define.
    ///
    /// # Errors
    /// The payload does not have the shape of its type.
    pub fn event(&self) -> serde_json::Result<Option<Event>> {
        Event::parse(&self.kind, self.payload.get())
    }

    /// As [`event`](Self::event), but a completed run has empty outputs. Those of an eval run list all
    /// its tasks.
    ///
    /// # Errors
    /// The payload does not have the shape of its type.
    pub fn event_without_outputs(&self) -> serde_json::Result<Option<Event>> {
        match &*self.kind {
            "run.completed" => {
                let completed = RunCompleted::without_outputs(self.payload.get())?;
                Ok(Some(Event::RunCompleted(completed)))
            }
            _ => self.event(),
        }
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

    #[test]
    fn a_completed_run_is_read_without_its_outputs() {
        let read = |payload: &str| {
            let body = format!(
                r#"{{"eventId":"evt_1","type":"run.completed","timestamp":"2026-01-01T00:00:00Z",
                    "sequence":1,"payload":{payload}}}"#
            );
            let document = EventDocument::read(body.as_bytes()).unwrap();
            let event = document.event_without_outputs().ok().flatten();
            assert_eq!(event.is_some(), document.event().is_ok(), "{payload}");
            event
        };
        let expected = Event::RunCompleted(RunCompleted {
            outputs: RunOutputs::Workflow(serde_json::Map::new()),
            duration_ms: 3,
        });
        let outputs = r#"{"outputs":{"tasks":[{"taskId":"a"}]},"durationMs":3}"#;
        assert_eq!(read(outputs), Some(expected));
        assert_eq!(read(r#"{"outputs":[],"durationMs":3}"#), None);
        assert_eq!(read(r#"{"outputs":{}}"#), None);
        assert_eq!(read(r#"{"durationMs":3}"#), None);
    }

    #[test]
    fn an_event_of_a_kind_keeps_its_payload_byte_for_byte() {
        let payload = r#"{"site":"north","alarms":2.50}"#;
        let event = Event::parse("touchstone.drill.ended", payload).unwrap();
        let event = event.unwrap();
        assert_eq!(event.kind(), "touchstone.drill.ended");
        assert_eq!(serde_json::to_string(&event).unwrap(), payload);
        assert_eq!(Event::parse("later.invented", payload).unwrap(), None);
    }
}
