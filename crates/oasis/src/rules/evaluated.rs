//! The subject of an evaluation and its reference: recorded once, before the first scenario.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::adapter::Identity;
use touchstone_agents::rules::reached_by::is_remote_provider;
use touchstone_agents::rules::{COMMAND_PROVIDER, EndpointPin};

/// The system that answered, and the suite and profile it was evaluated against. Digests are
/// `sha256-<base64>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    pub answered_by: Answerer,
    /// The model provider that the run pins.
    pub model_provider: String,
    /// The model that the run pins.
    pub model: String,
    /// The location without credentials and query, and the digest of its configuration or of the
    /// command line; absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointPin>,
    /// Digest of the cassette that answered in place of the model, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_from: Option<String>,
    /// The requested agent.
    pub agent_id: String,
    pub agent_version: String,
    /// Digest of the agent's pack.
    pub agent_pack: String,
    pub suite: String,
    pub suite_version: String,
    /// Digest of the suite document.
    pub suite_digest: String,
    pub profile: String,
    pub profile_version: String,
    /// Digest of the pack that contains the profile.
    pub profile_pack: String,
    /// The source of the agent's identity.
    pub identity_source: IdentitySource,
    /// The identity that the agent's pack declares, if a different one was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Identity>,
    /// The configuration that the agent's pack declares, if a different one was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared_configuration: Option<Map<String, Value>>,
    /// Maximum difference between the environment provider's clock and the host's, in seconds;
    /// absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_tolerance_s: Option<f64>,
    /// The operator's declaration about the lab of the environment provider; absent in older
    /// records, and if nothing is declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab_framework: Option<String>,
}

/// The kind of system that answered for an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answerer {
    /// A model with the instructions of the agent's pack: the pack's own agent.
    Model,
    /// A command on the evaluating host.
    Command,
    /// A remote agent with its own instructions.
    RemoteAgent,
    /// A file of scripted answers.
    Script,
    /// A cassette of recorded answers.
    Cassette,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdentitySource {
    /// The agent's adapter.
    Adapter,
    /// The agent's pack, because the adapter cannot report an identity.
    Pack,
}

impl Answerer {
    /// The answerer behind a provider of this name.
    pub fn of_provider(provider: &str) -> Self {
        match provider {
            COMMAND_PROVIDER => Self::Command,
            name if is_remote_provider(name) => Self::RemoteAgent,
            "scripted" => Self::Script,
            _ => Self::Model,
        }
    }

    pub const fn is_remote(self) -> bool {
        matches!(self, Self::RemoteAgent)
    }

    /// A description for people.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Model => "a model with the instructions of the agent's pack",
            Self::Command => "a command on the evaluating host, not the agent's pack",
            Self::RemoteAgent => "a remote agent, not the agent's pack",
            Self::Script => "a file of scripted answers, not the agent's pack",
            Self::Cassette => "a cassette of recorded answers",
        }
    }
}

impl Evaluated {
    /// Whether the agent that the pack describes answered, under the identity that the pack
    /// declares.
    pub fn is_own_agent(&self) -> bool {
        self.answered_by == Answerer::Model && self.declared.is_none()
    }
}
