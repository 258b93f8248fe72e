//! Payloads of an agent at work (RFC 0077; usage: RFC 0026).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::run::RunError;
use crate::domain::hex::hex;
use crate::domain::ids::{AgentId, TaskId};
use crate::domain::money::NanoUsd;
use crate::protocol::openwop::suite::ModelClass;

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

impl AgentInvocationStarted {
    /// The provider of scripted workers.
    pub const WORKER_PROVIDER: &'static str = "scripted-worker";

    /// Whether it is the invocation of a scripted worker, which lies within that of the agent that called it.
    pub fn is_of_worker(&self) -> bool {
        self.resolved_provider.as_deref() == Some(Self::WORKER_PROVIDER)
    }
}

/// `agent.handoff`: an agent hands a part of its task to another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentHandoff {
    /// The agent that hands it over.
    pub from_agent_id: AgentId,
    /// The agent that receives it.
    pub to_agent_id: AgentId,
    /// Why, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `runOrchestrator.decided` (RFC 0006 §C).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunOrchestratorDecided {
    /// The agent that leads.
    pub agent_id: AgentId,
    /// What it decided.
    pub decision: OrchestratorDecision,
}

/// A decision of an orchestrator; this host's runtime records one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum OrchestratorDecision {
    /// These workers are next, side by side.
    #[serde(rename_all = "camelCase")]
    NextWorker {
        /// Their agent ids.
        next_worker_ids: Vec<String>,
    },
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
    /// SHA-256 of the arguments as RFC 8785 writes them, in lower-case hexadecimal: two calls can be told to be the same without
    /// their content (RFC 0064).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
    /// How it is reached, if it is live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<ToolTransport>,
}

impl AgentToolCalled {
    /// The same call with these arguments and their hash.
    #[must_use]
    pub fn with_inputs(self, inputs: Value) -> Self {
        let canonical = serde_json_canonicalizer::to_vec(&inputs).ok();
        Self {
            args_hash: canonical.map(|it| hex(&Sha256::digest(it))),
            inputs: Some(inputs),
            ..self
        }
    }
}

/// How a live tool is reached (RFC 0064).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolTransport {
    /// The Model Context Protocol.
    Mcp,
}

/// `touchstone.effect.intended`: a tool that changes something is about to be called, and never twice for this call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectIntended {
    /// The tool.
    pub tool: String,
    /// The call.
    pub call_id: String,
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
    /// The failure: a label, and words of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// How it ended.
    pub status: ToolStatus,
    /// How long a live call took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
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
    /// `invalid_usage` where the provider reported usage that cannot be, such as a negative count; absent where it
    /// reported none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
