//! The agent runtime (RFC 0077).

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::{LiveTools, ModelBinding};
use crate::domain::budget::Estimate;
use crate::domain::ids::{AgentId, EventId, RunId, TaskId, TenantId};
use crate::protocol::openwop::events::Event;
use crate::protocol::openwop::suite::{Fixtures, ModelClass};
use crate::protocol::schema::CompiledSchema;

/// An agent of a verified pack, ready to run.
#[derive(Clone, Debug)]
pub struct AgentDefinition {
    /// Its id.
    pub agent_id: AgentId,
    /// Its class.
    pub model_class: ModelClass,
    /// Its system prompt.
    pub prompt: Arc<str>,
    /// Tools it may call, `<scope>:<tool-id>`.
    pub tool_allowlist: Vec<String>,
    /// What its output must satisfy: the schema and its compiled form.
    pub return_schema: Option<(Arc<Value>, CompiledSchema)>,
}

/// One task to carry out.
pub struct Invocation<'a> {
    /// Whose run it belongs to.
    pub tenant: &'a TenantId,
    /// The run it belongs to.
    pub run: &'a RunId,
    /// Unique id of this invocation.
    pub invocation_id: String,
    /// The agent.
    pub agent: &'a AgentDefinition,
    /// The version of its pack.
    pub agent_version: &'a str,
    /// The channel that the version was found on, if it was.
    pub agent_channel: Option<&'a str>,
    /// The endpoint.
    pub model: &'a ModelBinding,
    /// The task.
    pub input: &'a Value,
    /// What stands in for tools and memory.
    pub fixtures: Option<&'a Fixtures>,
    /// The tools themselves, in the place of fixtures, which are then not looked at.
    pub live: Option<&'a dyn LiveTools>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Most tokens of one answer.
    pub max_tokens: Option<u64>,
    /// Model turns the run's caller allows.
    pub max_loop_iterations: Option<u32>,
    /// The task's id, for `provider.usage`.
    pub node_id: &'a TaskId,
}

/// How an invocation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum InvocationEnd {
    /// A final decision that may be matched.
    Decided {
        /// The output: parsed JSON under a return schema, else text.
        output: Value,
    },
    /// The agent's own failure: scores 0.
    Failed {
        /// A label from a closed list (`invalid_output`, `turn_limit`, `refused`, `empty_answer`, …).
        reason: String,
    },
    /// The machinery failed, or a bound of the run was reached: nothing can be said of the agent. `budget_exhausted` when
    /// the meter refused, `loop_limit_exceeded` beyond the caller's model turns.
    Unjudged {
        /// A label from a closed list.
        reason: String,
    },
}

/// What came of an invocation.
#[derive(Clone, Debug, PartialEq)]
pub struct InvocationResult {
    /// How it ended.
    pub end: InvocationEnd,
    /// Whether the output satisfies the return schema; `None` without one or without an output.
    pub schema_valid: Option<bool>,
    /// Wall-clock time from the first model call on.
    pub latency_ms: u64,
}

/// The budget refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the budget is used up")]
pub struct Exhausted;

/// The run's budget: reserve before every model call, settle after it, whatever came of it; ask before every tool call and
/// every retry.
#[async_trait]
pub trait Meter: Send + Sync {
    /// Waits until the estimate fits.
    async fn reserve(&self, estimate: Estimate) -> Result<(), Exhausted>;
    /// Replaces the estimate by what was used (nothing, for a call that failed).
    fn settle(&self, estimate: Estimate, used: Estimate);
    /// Whether a tool may be called; counted if so.
    fn call_tool(&self) -> Result<(), Exhausted>;
    /// Whether a call may be tried again; counted if so.
    fn retry(&self) -> Result<(), Exhausted>;
}

/// What was recorded will not be kept: the run is somebody else's now, or its store is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run's log is closed")]
pub struct Unrecorded;

/// Where the runtime records what happens.
#[async_trait]
pub trait EventSink: Send + Sync {
    /// Records an event of this task.
    fn emit(&self, event: Event, cause: Option<&EventId>) -> EventId;

    /// Waits until everything recorded so far would survive the end of this process: what is about to be done to the world
    /// must not be forgotten.
    ///
    /// # Errors
    /// It never will be, and must not be done.
    async fn kept(&self) -> Result<(), Unrecorded>;

    /// Waits until a call to a model, an agent or a tool may be made: the database takes writes, what happens becomes durable,
    /// and this process surely holds the run. Asked right before each call, so that no answer is paid for that would be lost.
    ///
    /// # Errors
    /// It never may: another process owns the run.
    async fn may_call(&self) -> Result<(), Unrecorded>;
}

/// Runs one agent invocation: model turns and tool calls until the final decision (RFC 0077).
#[async_trait]
pub trait AgentRuntime: Send + Sync {
    /// Carries it out and records its `agent.*` and `provider.usage` events. Dropping the future cancels it.
    async fn invoke(
        &self,
        invocation: Invocation<'_>,
        meter: &dyn Meter,
        sink: &dyn EventSink,
    ) -> InvocationResult;
}
