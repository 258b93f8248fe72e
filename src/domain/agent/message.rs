//! What is said between an agent and its model, free of any wire format.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer, ser};
use serde_json::Value;
use serde_json::value::RawValue;

use super::effects::Effects;
use crate::domain::ids::TaskId;
use crate::domain::money::NanoUsd;

/// Who said a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Instructions.
    System(Arc<str>),
    /// The task.
    User(Arc<str>),
    /// The model, with the tool calls it asked for.
    Assistant {
        /// Text, if any.
        text: Option<String>,
        /// Tool calls, if any.
        tool_calls: Vec<ToolCall>,
    },
    /// A tool's answer.
    Tool {
        /// Which call it answers.
        call_id: String,
        /// The answer as text.
        content: String,
    },
}

/// A call the model asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: String,
    /// The full tool name, mapped back; unknown names come as they are.
    pub tool: String,
    /// The arguments; `Err` holds them as they came when they were not JSON.
    pub arguments: Result<Value, String>,
}

/// Which task a request is for. Scripted answers are looked up by it; it is never sent to an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct TaskHint<'a> {
    /// The task.
    pub id: &'a TaskId,
    /// Its input.
    pub input: &'a Value,
}

/// One request to a model.
#[derive(Clone, Debug)]
pub struct ModelRequest<'a> {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Tools on offer, by their full `<scope>:<tool-id>`; adapters map them to names their wire allows.
    pub tools: &'a [String],
    /// What is known of those of them that are live.
    pub definitions: &'a [ToolDefinition],
    /// The schema the final answer must satisfy, if there is one.
    pub response_schema: Option<ResponseSchema<'a>>,
    /// Sampling temperature, 0.0..=2.0.
    pub temperature: Option<f64>,
    /// Most tokens the answer may have.
    pub max_tokens: Option<u64>,
    /// The task it is for.
    pub task: Option<TaskHint<'a>>,
    /// The name of this call as an effect on the endpoint ([`Activity`](crate::domain::run::activity::Activity)), the same
    /// for every attempt.
    pub activity: Option<String>,
}

/// The schema an answer must satisfy.
///
/// Endpoints that hold a model to one have it write the members in the order in which the schema names them, some of them the
/// required ones first. A document that was read has lost that order; where it matters, the text is passed on as it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ResponseSchema<'a> {
    /// One that was read.
    Read(&'a Value),
    /// The text of one that we have written.
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
    /// What is known of a tool on offer.
    pub fn definition(&self, tool: &str) -> Option<&'a ToolDefinition> {
        self.definitions.iter().find(|known| known.tool == tool)
    }
}

/// A live tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolDefinition {
    /// Its full name.
    pub tool: String,
    /// What it does, in the words of whoever offers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The schema of its arguments.
    pub input_schema: Value,
    /// Whether it is called.
    pub effects: Effects,
}

/// Tokens a call used, as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Prompt tokens.
    pub input: u64,
    /// Completion tokens.
    pub output: u64,
    /// Prompt tokens served from the provider's cache.
    pub cached_input: Option<u64>,
}

/// Most tokens of one call that are believed: far beyond every context window. A larger report is a fault of the endpoint
/// and would spoil every sum it enters.
const MOST_TOKENS: u64 = 1_000_000_000;

impl TokenUsage {
    /// Whether one call can have used this many tokens.
    pub fn is_plausible(&self) -> bool {
        self.input <= MOST_TOKENS
            && self.output <= MOST_TOKENS
            && self.cached_input.is_none_or(|cached| cached <= MOST_TOKENS)
    }
}

/// A model's answer.
#[derive(Clone, Debug, Default)]
pub struct ModelReply {
    /// Text, if any.
    pub text: Option<String>,
    /// The model's reasoning, where the endpoint hands it out apart from the text.
    pub reasoning: Option<String>,
    /// Tool calls, if any.
    pub tool_calls: Vec<ToolCall>,
    /// What was used; `None` if the provider did not say.
    pub usage: Option<TokenUsage>,
    /// Whether the provider reported usage that cannot be, such as a negative count; `usage` is then `None`.
    pub usage_invalid: bool,
    /// What it cost, where whoever answered says so; else its price says.
    pub cost: Option<NanoUsd>,
    /// Whether the model or its content filter refused.
    pub refused: bool,
    /// Whether the answer was cut at the token limit.
    pub truncated: bool,
}
