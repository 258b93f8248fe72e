//! Messages between an agent and its model, independent of any wire format.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer, ser};
use serde_json::Value;
use serde_json::value::RawValue;

use super::attachment::Attachment;
use super::effects::Effects;
use touchstone_kit::ids::TaskId;
use touchstone_kit::money::NanoUsd;

#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    System(Arc<str>),
    User(Arc<str>),
    /// A message of the user with files.
    UserWithFiles {
        text: Arc<str>,
        files: Arc<[Attachment]>,
    },
    /// A reply of the model, with its tool calls.
    Assistant {
        text: Option<String>,
        tool_calls: Vec<ToolCall>,
    },
    /// The result of a tool call.
    Tool {
        /// The call that this message answers.
        call_id: String,
        /// The answer as text.
        content: String,
    },
}

/// A tool call requested by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: String,
    /// The full tool name, mapped back from the wire; unknown names are kept unchanged.
    pub tool: String,
    /// The arguments; `Err` holds the original text if it was not JSON.
    pub arguments: Result<Value, String>,
}

/// The task of a request. Scripted answers are looked up by it; it is never sent to an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct TaskHint<'a> {
    pub id: &'a TaskId,
    pub input: &'a Value,
    /// Number of user messages after the input.
    pub turn: u32,
}

/// One request to a model.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest<'a> {
    pub messages: Vec<Message>,
    /// Offered tools by their full names, `<scope>:<tool-id>`; adapters map them to names that the
    /// wire format allows.
    pub tools: &'a [String],
    /// Definitions of the live tools among them.
    pub definitions: &'a [ToolDefinition],
    /// The schema that the final answer must satisfy, if there is one.
    pub response_schema: Option<ResponseSchema<'a>>,
    /// Sampling temperature, 0.0..=2.0.
    pub temperature: Option<f64>,
    /// Maximum number of tokens of the answer.
    pub max_tokens: Option<u64>,
    pub task: Option<TaskHint<'a>>,
    /// The activity id of this call ([`Activity`](super::activity::Activity)), the
    /// same for every attempt.
    pub activity: Option<String>,
    /// The place of the conversation at a remote agent; `None` if this is the only message of the
    /// user.
    pub thread: Option<RemoteThread>,
}

/// A conversation that a remote agent keeps, by the ids that the agent gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteThread {
    pub context_id: Option<String>,
    /// The task that waits for the user.
    pub waiting_task: Option<String>,
    /// The task that the user's next message is about.
    pub ended_task: Option<String>,
}

/// The schema that an answer must satisfy.
///
/// Endpoints that enforce a schema make the model write members in the order of the schema, some of
/// them required ones first. A parsed document has lost that order; where the order matters, the
/// schema's text is sent unchanged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ResponseSchema<'a> {
    /// A parsed schema.
    Read(&'a Value),
    /// The text of a schema that this host wrote.
    Written(&'a str),
}

impl Serialize for ResponseSchema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Read(schema) => schema.serialize(serializer),
            Self::Written(text) => {
                let schema: &RawValue = serde_json::from_str(text).map_err(ser::Error::custom)?;
                schema.serialize(serializer)
            }
        }
    }
}

impl std::fmt::Display for ResponseSchema<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read(schema) => write!(f, "{schema}"),
            Self::Written(text) => f.write_str(text),
        }
    }
}

impl<'a> ModelRequest<'a> {
    /// The definition of an offered tool, if it is live.
    pub fn definition(&self, tool: &str) -> Option<&'a ToolDefinition> {
        self.definitions.iter().find(|known| known.tool == tool)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolDefinition {
    pub tool: String,
    /// The description by the tool's server, which is untrusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The schema of its arguments.
    pub input_schema: Value,
    /// Whether it may be called.
    pub effects: Effects,
}

/// Tokens of one call, as counted by the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    pub input: u64,
    pub output: u64,
    /// Prompt tokens served from the provider's cache.
    pub cached_input: Option<u64>,
}

/// Largest token count of one call that is accepted, far beyond every context window. A larger
/// report is a fault of the endpoint and would corrupt every sum.
const MOST_TOKENS: u64 = 1_000_000_000;

impl TokenUsage {
    /// Whether one call can have used this many tokens.
    pub fn is_plausible(&self) -> bool {
        self.input <= MOST_TOKENS
            && self.output <= MOST_TOKENS
            && self.cached_input.is_none_or(|cached| cached <= MOST_TOKENS)
    }
}

/// What an endpoint says about its answer, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseFacts {
    pub id: Option<String>,
    /// The model that answered, which may be more exact than the requested one.
    pub model: Option<String>,
    /// Why the answer ends.
    pub finish_reason: Option<String>,
}

/// A model's answer.
#[derive(Clone, Debug, Default)]
pub struct ModelReply {
    pub text: Option<String>,
    /// The model's reasoning, where the endpoint returns it separately from the text.
    pub reasoning: Option<String>,
    pub tool_calls: Vec<ToolCall>,
    /// Reported usage; `None` if the provider reported none.
    pub usage: Option<TokenUsage>,
    /// Whether the provider reported impossible usage, such as a negative count; `usage` is then
    /// `None`.
    pub usage_invalid: bool,
    /// The cost, where the endpoint reports it; otherwise it is computed from the price.
    pub cost: Option<NanoUsd>,
    /// Whether the model or its content filter refused.
    pub refused: bool,
    /// Whether the answer was truncated at the token limit.
    pub truncated: bool,
    /// Whether an earlier call got the answer, so that it costs nothing.
    pub from_cache: bool,
    /// What the endpoint says about its answer, for traces.
    pub response: Box<ResponseFacts>,
    /// Where a remote agent keeps the conversation.
    pub thread: Option<RemoteThread>,
}
