//! Deployments (OpenWOP agent-deployment, agent-deployment-transition; RFC 0082): the record and the request that moves it.

use serde::{Deserialize, Serialize};

use crate::domain::ids::{AgentId, RunId};

/// Where a version of an agent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeploymentState {
    /// Installed, not yet evaluated.
    Draft,
    /// Being evaluated.
    Test,
    /// Waits for production.
    Staged,
    /// Serves.
    Active,
    /// Withdrawn for a while.
    Paused,
    /// No new traffic; existing pins are honoured. Final.
    Deprecated,
    /// Replaced by the version its record points to. Final.
    RolledBack,
}

impl DeploymentState {
    /// All of them, in the order of a life.
    pub const ALL: &'static [Self] = &[
        Self::Draft,
        Self::Test,
        Self::Staged,
        Self::Active,
        Self::Paused,
        Self::Deprecated,
        Self::RolledBack,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Test => "test",
            Self::Staged => "staged",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Deprecated => "deprecated",
            Self::RolledBack => "rolled-back",
        }
    }

    /// The state with this wire name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|state| state.as_str() == name)
    }
}

impl std::fmt::Display for DeploymentState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What may be done to a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransitionKind {
    /// One step towards production, or back into it.
    Promote,
    /// Out of production for a while.
    Pause,
    /// Out of production for good; pins stay honoured.
    Deprecate,
    /// Out of production for good, with the version before it in its place.
    Rollback,
    /// Another share of the traffic.
    AdjustCanary,
}

impl TransitionKind {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Promote,
        Self::Pause,
        Self::Deprecate,
        Self::Rollback,
        Self::AdjustCanary,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Promote => "promote",
            Self::Pause => "pause",
            Self::Deprecate => "deprecate",
            Self::Rollback => "rollback",
            Self::AdjustCanary => "adjust-canary",
        }
    }

    /// The transition with this wire name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }
}

impl std::fmt::Display for TransitionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The record of one version of an agent. Closed and content-free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDeployment {
    /// The agent.
    pub agent_id: AgentId,
    /// The version, which is its pack's.
    pub version: String,
    /// Where it stands.
    pub state: DeploymentState,
    /// Share of channel traffic it takes, 0..=100; only of an active version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_percent: Option<u8>,
    /// The version that took its place when it was rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_pointer: Option<String>,
    /// Channels that resolve to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    /// The eval run its last promotion rested on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_run_id: Option<RunId>,
    /// The approval gate that granted its last transition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_gate_id: Option<String>,
}

/// A well-formed body of `POST /v1/agents/{agentId}/deployments`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TransitionRequest {
    /// The version it is about.
    pub version: String,
    /// What is to be done.
    pub transition: TransitionKind,
    /// The state a promotion leads to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_state: Option<DeploymentState>,
    /// The channel it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The share of traffic, 0..=100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_percent: Option<u8>,
    /// The evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_run_id: Option<RunId>,
    /// A short label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
