//! A task as its owner sends it to a worker.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use touchstone_agents::rules::attachment::Attachment;
use touchstone_agents::rules::dialogue::{EarlierMessage, SimulatedUser};
use touchstone_agents::rules::prices::ModelPrice;
use touchstone_agents::rules::{EndpointPin, ModelIdentity, ModelPin, RecordedCall};
use touchstone_kit::headers::media_type::MediaType;
use touchstone_kit::ids::{AgentId, RunId, TaskId, TenantId};
use touchstone_openwop::suite::{Fixtures, ModelClass};

/// What a worker needs to execute a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    pub tenant: TenantId,
    pub run: RunId,
    pub node: TaskId,
    pub agent: Agent,
    pub agent_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_channel: Option<String>,
    pub model: Served,
    pub input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixtures: Option<TaskFixtures>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialogue: Option<Talk>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_loop_iterations: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl Assignment {
    /// Whether a model plays the user of the task.
    pub fn has_simulated_user(&self) -> bool {
        let turns = self.dialogue.as_ref().map(|talk| &talk.turns);
        matches!(turns, Some(Turns::Simulated { .. }))
    }
}

/// What answers the tool calls of a task. The recorded calls are in the same member as the fixtures of
/// suites, which admits no others: workers of versions without them ignore the task instead of
/// executing it with the fixtures of its suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TaskFixtures {
    Recorded {
        #[serde(with = "super::text")]
        recorded: Vec<RecordedCall>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suite: Option<Fixtures>,
    },
    Suite(Fixtures),
}

impl TaskFixtures {
    pub fn of(suite: Option<&Fixtures>, recorded: Option<&[RecordedCall]>) -> Option<Self> {
        let suite = suite.cloned();
        match recorded {
            Some(recorded) => Some(Self::Recorded {
                recorded: recorded.to_vec(),
                suite,
            }),
            None => suite.map(Self::Suite),
        }
    }

    /// The fixtures of the suite.
    pub const fn suite(&self) -> Option<&Fixtures> {
        match self {
            Self::Recorded { suite, .. } => suite.as_ref(),
            Self::Suite(suite) => Some(suite),
        }
    }

    /// The tool calls that another run recorded.
    pub fn recorded(&self) -> Option<&[RecordedCall]> {
        match self {
            Self::Recorded { recorded, .. } => Some(recorded),
            Self::Suite(_) => None,
        }
    }
}

/// An agent of a pack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    pub agent: AgentId,
    pub model_class: ModelClass,
    pub prompt: String,
    pub tool_allowlist: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_schema: Option<Value>,
}

/// A model, and the price that the owner counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Served {
    pub model: ModelPin,
    pub endpoint: EndpointPin,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<ModelPrice>,
}

impl Served {
    pub fn identity(&self) -> ModelIdentity {
        ModelIdentity {
            model: self.model.clone(),
            endpoint: Some(self.endpoint.clone()),
        }
    }
}

/// The user's messages and files beside the input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Talk {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<EarlierMessage>,
    pub turns: Turns,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turns {
    None,
    Scripted(Vec<String>),
    Simulated {
        user: SimulatedUser,
        model: Box<Served>,
    },
}

/// A file that is sent with the input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct File {
    name: String,
    media_type: MediaType,
    sha256: String,
    size: usize,
    base64: String,
}

impl From<&Attachment> for File {
    fn from(file: &Attachment) -> Self {
        Self {
            name: file.name.to_string(),
            media_type: file.media_type,
            sha256: file.sha256.to_string(),
            size: file.size,
            base64: file.base64.to_string(),
        }
    }
}

impl From<File> for Attachment {
    fn from(file: File) -> Self {
        Self {
            name: file.name.into(),
            media_type: file.media_type,
            sha256: file.sha256.into(),
            size: file.size,
            base64: file.base64.into(),
        }
    }
}
