//! What answered in an evaluation and what it was measured by: recorded once, before the first scenario.

use serde::{Deserialize, Serialize};

use super::adapter::Identity;
use crate::domain::run::record::EvalSpec;

/// What answered, and by what it was measured. Digests are `sha256-<base64>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    /// What answered for the agent.
    pub answered_by: Answerer,
    /// The provider of the model, as the run pins it.
    pub model_provider: String,
    /// The model, as the run pins it.
    pub model: String,
    /// The agent that was asked for.
    pub agent_id: String,
    /// Its version.
    pub agent_version: String,
    /// Digest of its pack.
    pub agent_pack: String,
    /// The suite.
    pub suite: String,
    /// Its version.
    pub suite_version: String,
    /// Digest of the suite document.
    pub suite_digest: String,
    /// The profile.
    pub profile: String,
    /// Its version.
    pub profile_version: String,
    /// Digest of the pack that brings it.
    pub profile_pack: String,
    /// Who reported the agent's identity.
    pub identity_source: IdentitySource,
    /// The identity that the agent's pack declares, if what answered reported another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Identity>,
    /// How far the environment provider's clock may differ from the host's, in seconds; absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_tolerance_s: Option<f64>,
}

/// What answered for an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answerer {
    /// A model, told what the agent's pack says: the pack's own agent.
    Model,
    /// A command on the evaluating host.
    Command,
    /// An agent elsewhere, with instructions of its own.
    RemoteAgent,
    /// A file of answers.
    Script,
}

/// Who reported an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdentitySource {
    /// What answered, when it was asked.
    Adapter,
    /// The agent's pack; what answered cannot say.
    Pack,
}

impl Answerer {
    /// What answers for the agent of a run.
    pub fn of(spec: &EvalSpec) -> Self {
        match spec.model.provider.as_str() {
            "command" => Self::Command,
            "a2a" | "openwop" => Self::RemoteAgent,
            "scripted" => Self::Script,
            _ => Self::Model,
        }
    }

    /// In words.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Model => "a model, told what the agent's pack says",
            Self::Command => "a command on the evaluating host, not the agent's pack",
            Self::RemoteAgent => "a remote agent, not the agent's pack",
            Self::Script => "a file of scripted answers, not the agent's pack",
        }
    }
}

impl Evaluated {
    /// Whether the agent that the pack describes answered, under the identity that the pack declares.
    pub fn is_own_agent(&self) -> bool {
        self.answered_by == Answerer::Model && self.declared.is_none()
    }

    /// What a run evaluates. `None` if it is not an OASIS evaluation.
    pub fn of(
        spec: &EvalSpec,
        identity_source: IdentitySource,
        declared: Option<Identity>,
        clock_tolerance_s: Option<f64>,
    ) -> Option<Self> {
        let oasis = spec.oasis.as_deref()?;
        Some(Self {
            answered_by: Answerer::of(spec),
            model_provider: spec.model.provider.clone(),
            model: spec.model.model.clone(),
            agent_id: spec.agent_id.to_string(),
            agent_version: spec.agent_version.clone(),
            agent_pack: spec.pack_integrity.clone(),
            suite: spec.suite_id.clone(),
            suite_version: spec.suite_version.clone(),
            suite_digest: spec.suite_digest.clone(),
            profile: oasis.request.profile.clone(),
            profile_version: oasis.request.profile_version.clone(),
            profile_pack: oasis.profile_pack.clone(),
            identity_source,
            declared,
            clock_tolerance_s,
        })
    }
}
