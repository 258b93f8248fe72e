//! Payloads of decisions about deployments (RFC 0049, RFC 0082 §D). Content-free.

use serde::{Deserialize, Serialize};

use crate::domain::ids::{AgentId, RunId};
use crate::protocol::openwop::deployment::DeploymentState;

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
