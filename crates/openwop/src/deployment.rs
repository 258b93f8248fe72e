//! Deployments (OpenWOP agent-deployment, agent-deployment-transition; RFC 0082): the record, and
//! the request that changes it.

use serde::{Deserialize, Serialize};

use touchstone_kit::ids::{AgentId, RunId};

/// The state of an agent version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeploymentState {
    /// Installed, not yet evaluated.
    Draft,
    /// Being evaluated.
    Test,
    /// Waiting for production.
    Staged,
    /// Serving traffic.
    Active,
    /// Temporarily withdrawn.
    Paused,
    /// No new traffic; existing pins are honored. Final.
    Deprecated,
    /// Replaced by the version its record points to. Final.
    RolledBack,
}

impl DeploymentState {
    /// All states, in lifecycle order.
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

/// A change to the state of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransitionKind {
    /// One step towards production, or back into it.
    Promote,
    /// Temporary withdrawal from production.
    Pause,
    /// Permanent withdrawal from production; existing pins are honored.
    Deprecate,
    /// Permanent withdrawal from production, replaced by the previous version.
    Rollback,
    /// A different share of the traffic.
    AdjustCanary,
}

impl TransitionKind {
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

/// The record of one version of an agent. The set of members is closed, and the record contains no
/// task content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDeployment {
    pub agent_id: AgentId,
    /// The version of the agent's pack.
    pub version: String,
    pub state: DeploymentState,
    /// Share of channel traffic, 0..=100; only for an active version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_percent: Option<u8>,
    /// The version that replaced this one in a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_pointer: Option<String>,
    /// Channels that resolve to this version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    /// The eval run that the last promotion was based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_run_id: Option<RunId>,
    /// The approval gate that granted the last transition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_gate_id: Option<String>,
}
