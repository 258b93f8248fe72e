//! Payloads of deployment decisions (RFC 0049, RFC 0082 §D). They contain no task content.

use serde::{Deserialize, Serialize};

use crate::deployment::DeploymentState;
use touchstone_kit::ids::{AgentId, RunId};

/// `authorization.decided` (RFC 0049). The set of members is closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationDecided {
    /// The requesting principal.
    pub principal: String,
    /// The required scope, such as `deploy:promote`.
    pub action: String,
    /// The resource of the request.
    pub resource: String,
    pub allowed: bool,
    /// The reason, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `deployment.promoted` (RFC 0082 §D). The set of members is closed, and the payload contains no
/// task content; the same applies to the events below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPromoted {
    pub agent_id: AgentId,
    pub to_version: String,
    /// The new state.
    pub to_state: DeploymentState,
    /// The previous version on the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The share of the traffic, 0..=100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_percent: Option<u8>,
    /// The eval run that serves as evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_run_id: Option<RunId>,
    /// The approval gate that granted the promotion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_gate_id: Option<String>,
}

/// `deployment.rolled-back`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentRolledBack {
    pub agent_id: AgentId,
    /// The withdrawn version.
    pub from_version: String,
    /// The version that replaces it.
    pub to_version: String,
    /// The same version, as in the record of the withdrawn one.
    pub rollback_pointer: String,
    /// A short label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `deployment.canary.adjusted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentCanaryAdjusted {
    pub agent_id: AgentId,
    pub version: String,
    /// The previous share, 0..=100.
    pub from_percent: u8,
    /// The new share, 0..=100.
    pub to_percent: u8,
}

/// `deployment.state.changed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentStateChanged {
    pub agent_id: AgentId,
    pub version: String,
    /// The previous state.
    pub from_state: DeploymentState,
    /// The new state.
    pub to_state: DeploymentState,
}
