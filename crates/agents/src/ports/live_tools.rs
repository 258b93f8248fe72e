//! Live tools: called in `live-shadow` runs instead of fixtures (RFC 0081 §D).

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::rules::ToolDefinition;
use touchstone_kit::ids::TaskId;

/// A tool did not respond. Says nothing about the agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("live tools are unavailable: {reason}")]
pub struct ToolsUnavailable {
    /// A label from a closed list (`tool_connect`, `tool_timeout`, …).
    pub reason: String,
}

impl ToolsUnavailable {
    pub fn because(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { reason }
    }
}

/// One tool call.
#[derive(Clone, Copy, Debug)]
pub struct LiveCall<'a> {
    /// The tool, `<scope>:<tool-id>`.
    pub tool: &'a str,
    pub arguments: &'a Map<String, Value>,
    /// The calling task.
    pub task: &'a TaskId,
    /// The id of the call as an effect ([`Activity`](crate::rules::activity::Activity)).
    pub activity: &'a str,
}

/// A tool's response.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolAnswer {
    Answered(Value),
    /// The tool failed; the agent handles that.
    Failed(Value),
}

/// Access to external tools.
#[async_trait]
pub trait LiveTools: Send + Sync {
    /// The descriptions of those `tools` that this host has, from their servers, in the same order.
    ///
    /// # Errors
    /// A server that should have one of the tools does not respond.
    async fn offers(
        &self,
        tools: &[String],
        task: &TaskId,
    ) -> Result<Vec<ToolDefinition>, ToolsUnavailable>;

    /// Calls a tool once: a failed call may have had an effect, so it is never repeated. Dropping
    /// the future abandons the call.
    ///
    /// # Errors
    /// The tool did not respond.
    async fn call(&self, call: LiveCall<'_>) -> Result<ToolAnswer, ToolsUnavailable>;
}
