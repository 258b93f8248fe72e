//! The lines of a cassette, version 2 (docs/cassettes.md).

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::model::wire::messages::messages_of;
use crate::ports::model::{ModelError, ModelInfo};
use crate::rules::{ModelReply, ModelRequest, Rejection, TokenUsage, ToolCall, ToolDefinition};
use touchstone_kit::hex::hex;
use touchstone_kit::money::NanoUsd;
use touchstone_kit::redaction::mask;

/// The version that is written and read.
pub const VERSION: u32 = 2;

#[derive(Debug, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Line {
    /// The first line.
    Cassette {
        version: u32,
        /// The program that wrote it.
        made_by: String,
    },
    /// A model that was called.
    Model(Endpoint),
    /// A request to a model and its outcome.
    Exchange(Exchange<Outcome>),
    /// A request to live tools and its outcome: `list`, or `call` and `arguments`.
    Tool(Exchange<RecordedToolOutcome>),
    /// The last line: the recording is complete.
    End {
        /// Over all lines before it; absent if the recording host has no key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Signature>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Signature {
    /// Ed25519, 32 bytes in base64.
    pub public_key: String,
    /// 64 bytes in base64.
    pub value: String,
}

/// The properties of a model that a replay needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Endpoint {
    /// The class of agents it served, or `*`.
    pub role: String,
    pub provider: String,
    pub model: String,
    /// Nano-dollars per input token; absent if the price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_price: Option<f64>,
    /// Nano-dollars per output token; absent if the price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_price: Option<f64>,
    /// Maximum calls in flight.
    pub max_concurrency: u32,
    /// Maximum attempts of one call.
    pub max_attempts: u32,
}

/// A request and its outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exchange<O> {
    /// SHA-256 of the request in canonical form (RFC 8785).
    pub key: String,
    /// The task that made the request.
    pub task: Option<String>,
    /// How many times the task had made the same request before.
    pub nth: u32,
    /// The request, without secrets.
    pub request: Value,
    /// The outcome, without secrets.
    pub outcome: O,
    /// Whether any part of the outcome was masked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
}

/// The outcome of a request to live tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecordedToolOutcome {
    /// The listed tools.
    Offers(Vec<ToolDefinition>),
    /// The result of a call.
    Answered(Value),
    /// The error of a call.
    Failed(Value),
    /// The tools were unavailable, for this reason.
    Unavailable(String),
}

/// The outcome without secrets, and whether it had any.
///
/// # Errors
/// It cannot be serialized as JSON.
pub fn mask_tool_outcome(
    outcome: RecordedToolOutcome,
) -> serde_json::Result<(RecordedToolOutcome, bool)> {
    let mut document = serde_json::to_value(&outcome)?;
    if mask_in(&mut document) {
        Ok((serde_json::from_value(document)?, true))
    } else {
        Ok((outcome, false))
    }
}

/// The outcome of a request to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Outcome {
    Reply(Reply),
    /// The endpoint refused the request.
    Rejected {
        /// `context_overflow` or `content_filter`.
        reason: Cow<'static, str>,
    },
    /// The endpoint failed.
    Unavailable {
        reason: String,
        /// Whether a retry made sense.
        retryable: bool,
        /// The endpoint's `Retry-After`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Reply {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    /// Nano-dollars, if the endpoint reported a cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    refused: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Call {
    id: String,
    tool: String,
    #[serde(flatten)]
    arguments: Arguments,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Arguments {
    Arguments(Value),
    /// The arguments as received, if they are not JSON.
    Unparsed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Usage {
    input: u64,
    output: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cached_input: Option<u64>,
}

/// The recorded form of a request: everything that the answer may depend on, but nothing of the run
/// and no secrets.
pub fn request_of(info: &ModelInfo, request: &ModelRequest<'_>) -> Value {
    let mut kept = exact_request_of(info, request);
    mask_in(&mut kept);
    kept
}

/// Everything that the answer to a request may depend on, secrets included.
pub fn exact_request_of(info: &ModelInfo, request: &ModelRequest<'_>) -> Value {
    // As text: printing and parsing a number must not change the key.
    let messages = messages_of(request, |call| {
        Value::String(match &call.arguments {
            Ok(value) => value.to_string(),
            Err(unparsed) => unparsed.clone(),
        })
    });
    let mut kept = json!({
        "provider": info.provider,
        "model": info.model,
        "messages": messages,
        "tools": request.tools,
        "responseSchema": request.response_schema,
        "temperature": request.temperature,
        "maxTokens": request.max_tokens,
    });
    // Only if there are any, so that cassettes without live tools do not change.
    if let Some(members) = kept.as_object_mut()
        && !request.definitions.is_empty()
    {
        members.insert("definitions".to_owned(), json!(request.definitions));
    }
    kept
}

/// The key of a request.
///
/// # Errors
/// It cannot be written in canonical form.
pub fn key_of(request: &Value) -> serde_json::Result<String> {
    let canonical = serde_json_canonicalizer::to_vec(request)?;
    Ok(hex(&Sha256::digest(canonical)))
}

/// Masks text that looks like a credential; returns whether there was any.
pub fn mask_in(value: &mut Value) -> bool {
    match value {
        Value::String(text) => match mask(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(masked) => {
                *text = masked;
                true
            }
        },
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |any, item| mask_in(item) | any),
        Value::Object(members) => members
            .values_mut()
            .fold(false, |any, item| mask_in(item) | any),
        _ => false,
    }
}

impl Outcome {
    /// The outcome without secrets, and whether it had any.
    ///
    /// # Errors
    /// It cannot be serialized as JSON.
    pub fn of(answer: &Result<ModelReply, ModelError>) -> serde_json::Result<(Self, bool)> {
        let outcome = match answer {
            Ok(reply) => Self::Reply(Reply::of(reply)),
            Err(ModelError::Rejected { reason }) => Self::Rejected {
                reason: reason.to_string().into(),
            },
            Err(ModelError::Unavailable {
                reason,
                retryable,
                retry_after,
            }) => Self::Unavailable {
                reason: reason.clone(),
                retryable: *retryable,
                retry_after_ms: retry_after
                    .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            },
        };
        let mut document = serde_json::to_value(&outcome)?;
        if mask_in(&mut document) {
            Ok((serde_json::from_value(document)?, true))
        } else {
            Ok((outcome, false))
        }
    }

    /// The recorded outcome as a result; `None` for an unknown refusal.
    pub fn answer(&self) -> Option<Result<ModelReply, ModelError>> {
        Some(match self {
            Self::Reply(reply) => Ok(reply.clone().into()),
            Self::Rejected { reason } => Err(ModelError::Rejected {
                reason: [Rejection::ContextOverflow, Rejection::ContentFilter]
                    .into_iter()
                    .find(|known| known.to_string() == *reason)?,
            }),
            Self::Unavailable {
                reason,
                retryable,
                retry_after_ms,
            } => Err(ModelError::Unavailable {
                reason: reason.clone(),
                retryable: *retryable,
                retry_after: retry_after_ms.map(Duration::from_millis),
            }),
        })
    }
}

impl Reply {
    /// The answer, secrets included.
    pub fn of(reply: &ModelReply) -> Self {
        Self {
            text: reply.text.clone(),
            reasoning: reply.reasoning.clone(),
            tool_calls: reply
                .tool_calls
                .iter()
                .map(|call| Call {
                    id: call.id.clone(),
                    tool: call.tool.clone(),
                    arguments: match &call.arguments {
                        Ok(value) => Arguments::Arguments(value.clone()),
                        Err(text) => Arguments::Unparsed(text.clone()),
                    },
                })
                .collect(),
            usage: reply.usage.map(|usage| Usage {
                input: usage.input,
                output: usage.output,
                cached_input: usage.cached_input,
            }),
            cost: reply.cost.map(|cost| cost.0),
            refused: reply.refused,
            truncated: reply.truncated,
        }
    }
}

impl From<Reply> for ModelReply {
    fn from(reply: Reply) -> Self {
        Self {
            text: reply.text,
            reasoning: reply.reasoning,
            tool_calls: reply
                .tool_calls
                .into_iter()
                .map(|call| ToolCall {
                    id: call.id,
                    tool: call.tool,
                    arguments: match call.arguments {
                        Arguments::Arguments(value) => Ok(value),
                        Arguments::Unparsed(text) => Err(text),
                    },
                })
                .collect(),
            usage: reply.usage.map(|usage| TokenUsage {
                input: usage.input,
                output: usage.output,
                cached_input: usage.cached_input,
            }),
            cost: reply.cost.map(NanoUsd),
            refused: reply.refused,
            truncated: reply.truncated,
            ..Self::default()
        }
    }
}
