//! The agent runtime (RFC 0077).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::budget::Estimate;
use crate::ports::live_tools::LiveTools;
use crate::ports::model::ModelBinding;
use crate::rules::RecordedCall;
use crate::rules::attachment::Attachment;
use crate::rules::dialogue::{EarlierMessage, SimulatedUser};
use crate::rules::worker_labels::WorkerLabels;
use touchstone_kit::headers::trace_context::SpanId;
use touchstone_kit::ids::{AgentId, EventId, RunId, TaskId, TenantId};
use touchstone_openwop::events::Event;
use touchstone_openwop::schema::CompiledSchema;
use touchstone_openwop::suite::{Fixtures, ModelClass};

/// An agent of a verified pack, ready to run.
#[derive(Clone, Debug)]
pub struct AgentDefinition {
    pub agent_id: AgentId,
    pub model_class: ModelClass,
    pub prompt: Arc<str>,
    /// Tools it may call, `<scope>:<tool-id>`.
    pub tool_allowlist: Vec<String>,
    /// The schema of its output, raw and compiled.
    pub return_schema: Option<(Arc<Value>, CompiledSchema)>,
}

/// One task to execute.
pub struct Invocation<'a> {
    pub tenant: &'a TenantId,
    pub run: &'a RunId,
    /// Unique id of this invocation.
    pub invocation_id: String,
    pub agent: &'a AgentDefinition,
    /// The version of its pack.
    pub agent_version: &'a str,
    /// The channel that resolved to the version, if the request named one.
    pub agent_channel: Option<&'a str>,
    pub model: &'a ModelBinding,
    pub input: &'a Value,
    /// The user's messages and files beside the input.
    pub dialogue: Option<Dialogue<'a>>,
    /// Recorded results of tools and memory.
    pub fixtures: Option<&'a Fixtures>,
    /// Tool calls that another run recorded, instead of the results of tools in `fixtures`.
    pub recorded: Option<&'a [RecordedCall]>,
    /// Live tools; if set, fixtures are ignored.
    pub live: Option<&'a dyn LiveTools>,
    pub temperature: Option<f64>,
    /// Maximum number of tokens per answer.
    pub max_tokens: Option<u64>,
    /// Maximum number of model turns the run's caller allows.
    pub max_loop_iterations: Option<u32>,
    /// Maximum duration of the invocation. The end of one that takes longer is unjudged with
    /// [`TASK_TIMEOUT`](crate::rules::TASK_TIMEOUT), and its `agent.invocation.completed` is missing.
    pub timeout: Option<Duration>,
    /// The task's id, for `provider.usage`.
    pub node_id: &'a TaskId,
    /// The labels that a worker needs to execute it.
    pub worker_labels: &'a WorkerLabels,
}

/// The messages and files of a task's user beside the input.
#[derive(Clone, Copy)]
pub struct Dialogue<'a> {
    /// Sent with the input.
    pub files: &'a [Attachment],
    /// Sent before the input.
    pub messages: &'a [EarlierMessage],
    pub turns: UserTurns<'a>,
}

/// The user's messages after the agent's answers.
#[derive(Clone, Copy)]
pub enum UserTurns<'a> {
    /// Nothing: the first answer is the last one.
    None,
    /// These messages, one after each answer.
    Scripted(&'a [String]),
    /// Messages that a model writes.
    Simulated {
        user: &'a SimulatedUser,
        model: &'a ModelBinding,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum InvocationEnd {
    /// A final decision that can be scored.
    Decided {
        /// Parsed JSON if the agent has a return schema, else text.
        output: Value,
    },
    /// The agent itself failed; scores 0.
    Failed {
        /// A label from a closed list (`invalid_output`, `turn_limit`, `refused`, `empty_answer`,
        /// …).
        reason: String,
    },
    /// Infrastructure failed, or a limit of the run was reached; says nothing about the agent.
    /// `budget_exhausted` if the meter refused, `loop_limit_exceeded` beyond the caller's maximum
    /// of model turns.
    Unjudged {
        /// A label from a closed list.
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct InvocationResult {
    pub end: InvocationEnd,
    /// Whether the output satisfies the return schema; `None` without one or without an output.
    pub schema_valid: Option<bool>,
    /// Wall-clock time since the first model call started.
    pub latency_ms: u64,
    /// The span of the invocation, if its trace is recorded.
    pub span_id: Option<SpanId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the budget is exhausted")]
pub struct Exhausted;

/// The run's budget: reserve before every model call and settle after it, whatever its result;
/// check before every tool call and every retry.
#[async_trait]
pub trait Meter: Send + Sync {
    /// Waits until the estimate fits.
    async fn reserve(&self, estimate: Estimate) -> Result<(), Exhausted>;
    /// Replaces the estimate with the actual usage (zero for a failed call).
    fn settle(&self, estimate: Estimate, used: Estimate);
    /// Allows and counts a tool call, or refuses it.
    async fn call_tool(&self) -> Result<(), Exhausted>;
    /// Allows and counts a retry, or refuses it.
    async fn retry(&self) -> Result<(), Exhausted>;
}

/// Recorded events will not become durable: another process owns the run now, or the store failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run's log is closed")]
pub struct Unrecorded;

/// Records the events of a task.
#[async_trait]
pub trait EventSink: Send + Sync {
    fn emit(&self, event: Event, cause: Option<&EventId>) -> EventId;

    /// Waits until everything recorded so far is durable. Call it before an external effect, so
    /// that a record of the effect survives the end of this process.
    ///
    /// # Errors
    /// The records will never be durable; the effect must not be performed.
    async fn kept(&self) -> Result<(), Unrecorded>;

    /// Waits until a call to a model, an agent or a tool may be made: the database accepts writes,
    /// the events become durable, and this process holds the run for certain. Checked right before
    /// each call, so that no paid answer is lost.
    ///
    /// # Errors
    /// The call must not be made: another process owns the run.
    async fn may_call(&self) -> Result<(), Unrecorded>;
}

/// Runs one agent invocation: model turns and tool calls until the final decision (RFC 0077).
#[async_trait]
pub trait AgentRuntime: Send + Sync {
    /// Executes the invocation and records its `agent.*` and `provider.usage` events. Dropping the
    /// future cancels it.
    async fn invoke(
        &self,
        invocation: Invocation<'_>,
        meter: &dyn Meter,
        sink: &dyn EventSink,
    ) -> InvocationResult;
}
