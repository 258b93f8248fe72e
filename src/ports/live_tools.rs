//! Live tools: what agents call in `live-shadow` runs, in the place of fixtures (RFC 0081 §D).

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::domain::agent::ToolDefinition;
use crate::domain::ids::TaskId;

/// Tools gave no answer. Says nothing about the agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("live tools are unavailable: {reason}")]
pub struct ToolsUnavailable {
    /// A label from a closed list (`tool_connect`, `tool_timeout`, …).
    pub reason: String,
}

impl ToolsUnavailable {
    /// For this reason.
    pub fn because(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { reason }
    }
}

/// One call of a tool.
#[derive(Clone, Copy, Debug)]
pub struct LiveCall<'a> {
    /// The tool, `<scope>:<tool-id>`.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: &'a Map<String, Value>,
    /// The task it is made for.
    pub task: &'a TaskId,
    /// The name of the call as an effect ([`Activity`](crate::domain::run::activity::Activity)).
    pub activity: &'a str,
}

/// What a tool said.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolAnswer {
    /// Its result.
    Answered(Value),
    /// That it could not do it: for the agent to deal with.
    Failed(Value),
}

/// The tools of the outside world.
#[async_trait]
pub trait LiveTools: Send + Sync {
    /// Those of `tools` that this host has, as their servers describe them, in the same order.
    ///
    /// # Errors
    /// A server that should have one does not say.
    async fn offers(
        &self,
        tools: &[String],
        task: &TaskId,
    ) -> Result<Vec<ToolDefinition>, ToolsUnavailable>;

    /// Calls one, once: what a call may have done cannot be known from its failing, so it is never repeated. Dropping the
    /// future gives the call up.
    ///
    /// # Errors
    /// There is no answer.
    async fn call(&self, call: LiveCall<'_>) -> Result<ToolAnswer, ToolsUnavailable>;
}
