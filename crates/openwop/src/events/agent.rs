//! Payloads of agent events (RFC 0077; usage: RFC 0026).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::run::RunError;
use crate::invocation::InvocationOutcome;
use crate::suite::ModelClass;
use touchstone_kit::hex::hex;
use touchstone_kit::ids::{AgentId, TaskId};
use touchstone_kit::money::NanoUsd;

/// `agent.invocation.started` (RFC 0077). Contains no task content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInvocationStarted {
    /// Unique in the run.
    pub invocation_id: String,
    pub agent_id: AgentId,
    /// `run-api`, or `workflow-node`.
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_class: Option<ModelClass>,
    /// The resolved model; absent for a node without a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_model: Option<String>,
    /// The provider of the resolved model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_agent_version: Option<String>,
    /// The channel that the agent was resolved from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_channel: Option<String>,
    /// Number of available tools.
    pub tool_surface_count: usize,
    /// Whether the read snapshot contains memory.
    pub memory_bound: bool,
}

impl AgentInvocationStarted {
    /// The provider name of scripted workers.
    pub const WORKER_PROVIDER: &'static str = "scripted-worker";

    /// Whether this is an invocation of a scripted worker, nested in the invocation of the calling
    /// agent.
    pub fn is_of_worker(&self) -> bool {
        self.resolved_provider.as_deref() == Some(Self::WORKER_PROVIDER)
    }
}

/// `agent.handoff`: an agent delegates part of its task to another agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentHandoff {
    /// The delegating agent.
    pub from_agent_id: AgentId,
    /// The receiving agent.
    pub to_agent_id: AgentId,
    /// The reason, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `runOrchestrator.decided` (RFC 0006 §C).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunOrchestratorDecided {
    /// The leading agent.
    pub agent_id: AgentId,
    pub decision: OrchestratorDecision,
}

/// A decision of an orchestrator; this host's runtime records only one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum OrchestratorDecision {
    /// Run these workers next, in parallel.
    #[serde(rename_all = "camelCase")]
    NextWorker { next_worker_ids: Vec<String> },
}

/// `agent.invocation.completed` (RFC 0077). Contains no task content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInvocationCompleted {
    /// As in the started event.
    pub invocation_id: String,
    pub agent_id: AgentId,
    pub outcome: InvocationOutcome,
    /// Whether the output satisfies the return schema; absent without a schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_validated: Option<bool>,
}

/// `agent.reasoned`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReasoned {
    pub agent_id: AgentId,
    /// The text that accompanies the tool calls.
    pub reasoning: String,
}

/// `agent.toolCalled`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentToolCalled {
    pub agent_id: AgentId,
    pub tool_name: String,
    /// Links the call to its return.
    pub call_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// SHA-256 of the arguments in RFC 8785 form, in lower-case hexadecimal. Two calls can be
    /// recognized as identical without their content (RFC 0064).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
    /// The transport of a live tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<ToolTransport>,
}

impl AgentToolCalled {
    /// The same call with these arguments and their hash.
    #[must_use]
    pub fn with_inputs(self, inputs: Value) -> Self {
        Self {
            args_hash: args_hash(&inputs),
            inputs: Some(inputs),
            ..self
        }
    }
}

/// The hash of the arguments of a tool call, as in [`AgentToolCalled::args_hash`]. `None` if they
/// have no RFC 8785 form.
pub fn args_hash(arguments: &Value) -> Option<String> {
    let canonical = serde_json_canonicalizer::to_vec(arguments).ok()?;
    Some(hex(&Sha256::digest(canonical)))
}

/// The transport of a live tool (RFC 0064).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolTransport {
    /// The Model Context Protocol.
    Mcp,
}

/// `touchstone.effect.intended`: a tool with side effects is about to be called. It is called at
/// most once for this call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectIntended {
    pub tool: String,
    pub call_id: String,
}

/// The result of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    Ok,
    Error,
    /// The tool is not on the agent's allowlist and did not run.
    Forbidden,
}

/// `agent.toolReturned`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentToolReturned {
    pub agent_id: AgentId,
    pub tool_name: String,
    /// Links the return to its call.
    pub call_id: String,
    /// The tool's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Value>,
    /// The failure: a label and a message of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    pub status: ToolStatus,
    /// Duration of a live call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl AgentToolReturned {
    /// Whether a fixture or a live tool answered, if only with an error. An error of this host says
    /// that the call was not made, or got no answer.
    pub fn is_answered(&self) -> bool {
        self.status != ToolStatus::Forbidden && self.error.is_none()
    }
}

/// `agent.decided`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDecided {
    pub agent_id: AgentId,
    /// The agent's output, or null.
    pub decision: Value,
}

/// `provider.usage` (RFC 0026), one per model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderUsage {
    pub provider: String,
    pub model: String,
    /// Prompt tokens.
    pub input_tokens: u64,
    /// Completion tokens.
    pub output_tokens: u64,
    /// Prompt and completion tokens.
    pub total_tokens: u64,
    /// The cost of the call; absent if the price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_estimate_usd: Option<NanoUsd>,
    /// `USD`.
    pub currency: String,
    /// Prompt tokens from the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<TaskId>,
}

/// `touchstone.model.retried`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelRetried {
    /// The attempt that failed, from 1.
    pub attempt: u32,
    /// A label from a closed list.
    pub reason: String,
    /// Time until the next attempt.
    pub wait_ms: u64,
}

/// `touchstone.answer.cached`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerCached {
    /// The cost that the call would have had; absent if the price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_saved_usd: Option<NanoUsd>,
}

/// `touchstone.usage.estimated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageEstimated {
    /// Prompt tokens, estimated from the size.
    pub input_tokens: u64,
    /// Completion tokens, estimated from the size.
    pub output_tokens: u64,
    /// `invalid_usage` if the provider reported impossible usage, such as a negative count; absent
    /// if it reported none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
