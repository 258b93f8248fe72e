//! Mock providers, which replace models in workflows (OpenWOP run-options `mockProvider`). They are
//! deterministic, and for test keys only.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The mock providers; discovery advertises them.
pub const MOCK_PROVIDERS: &[&str] = &["stream-text", "tool-calls", "error", "usage-only"];

const MAX_TOKENS: usize = 1_000;
const MAX_DELAY_MS: u64 = 5_000;
const MAX_TOOL_CALLS: usize = 1_000;
const MAX_CODE: usize = 64;

/// A provider that returns configured responses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "id", content = "config")]
pub enum MockProvider {
    /// Streams these tokens in order.
    StreamText(StreamText),
    /// Calls these tools.
    ToolCalls(ToolCalls),
    /// Fails.
    Error(MockError),
    /// Returns no text, only usage.
    UsageOnly(UsageOnly),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct StreamText {
    pub tokens: Vec<String>,
    /// Delay before each token, in milliseconds.
    pub delay_ms_per_token: u64,
    /// Why the message ended.
    pub finish_reason: FinishReason,
    /// The reported usage.
    pub usage: MockUsage,
    /// The reported model name.
    pub model: String,
}

impl Default for StreamText {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            delay_ms_per_token: 0,
            finish_reason: FinishReason::Stop,
            usage: MockUsage::default(),
            model: "mock-stream-text-v1".to_owned(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ToolCalls {
    pub tool_calls: Vec<MockToolCall>,
    /// The reported usage.
    pub usage: MockUsage,
    /// The reported model name.
    pub model: String,
}

impl Default for ToolCalls {
    fn default() -> Self {
        Self {
            tool_calls: Vec::new(),
            usage: MockUsage::default(),
            model: "mock-tool-calls-v1".to_owned(),
        }
    }
}

/// A tool call of a mock provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MockToolCall {
    pub name: String,
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MockError {
    /// The code the node fails with; a label.
    pub code: String,
    /// The configured message. Errors contain no content, so [`MockError::MESSAGE`] is recorded
    /// instead.
    pub message: String,
}

impl MockError {
    /// The recorded message of a mock failure.
    pub const MESSAGE: &'static str = "the mock provider failed as configured";
}

impl Default for MockError {
    fn default() -> Self {
        Self {
            code: "mock_provider_error".to_owned(),
            message: Self::MESSAGE.to_owned(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct UsageOnly {
    /// The reported usage.
    pub usage: MockUsage,
    /// The reported model name.
    pub model: String,
}

impl Default for UsageOnly {
    fn default() -> Self {
        Self {
            usage: MockUsage::default(),
            model: "mock-usage-only-v1".to_owned(),
        }
    }
}

/// Why a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    Stop,
    /// Maximum length reached.
    Length,
    /// It ends with tool calls.
    ToolCalls,
    ContentFilter,
}

impl FinishReason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MockUsage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    /// Total tokens; defaults to the sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
}

impl MockUsage {
    pub fn total(&self) -> u64 {
        self.total_tokens
            .unwrap_or_else(|| self.prompt_tokens.saturating_add(self.completion_tokens))
    }
}

/// Why a mock provider cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MockFault {
    /// No mock provider has this id.
    #[error("must be one of {}", MOCK_PROVIDERS.join(", "))]
    Unknown,
    /// Its config is invalid.
    #[error("{0}")]
    Config(String),
}

/// Parses `configurable.mockProvider`.
///
/// # Errors
/// [`MockFault`].
pub fn read(provider: &Map<String, Value>) -> Result<MockProvider, MockFault> {
    let id = provider
        .get("id")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !MOCK_PROVIDERS.contains(&id) {
        return Err(MockFault::Unknown);
    }
    let config = match provider.get("config") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(config @ Value::Object(_)) => config.clone(),
        // serde would accept a list as the members in their order.
        Some(_) => {
            let reason = "must have an object as its `config`";
            return Err(MockFault::Config(reason.to_owned()));
        }
    };
    let provider = serde_json::json!({"id": id, "config": config});
    let provider: MockProvider = serde_json::from_value(provider)
        .map_err(|fault| MockFault::Config(format!("has an invalid `config`: {fault}")))?;
    match bounds(&provider) {
        Some(fault) => Err(MockFault::Config(fault)),
        None => Ok(provider),
    }
}

/// The first limit that a config exceeds.
fn bounds(provider: &MockProvider) -> Option<String> {
    match provider {
        MockProvider::StreamText(text) if text.tokens.len() > MAX_TOKENS => Some(format!(
            "must not have more than {MAX_TOKENS} `config.tokens`"
        )),
        MockProvider::StreamText(text) if text.delay_ms_per_token > MAX_DELAY_MS => Some(format!(
            "must have a `config.delayMsPerToken` from 0 to {MAX_DELAY_MS}"
        )),
        MockProvider::ToolCalls(calls) if calls.tool_calls.len() > MAX_TOOL_CALLS => Some(format!(
            "must not have more than {MAX_TOOL_CALLS} `config.toolCalls`"
        )),
        MockProvider::Error(error) if !is_label(&error.code) => Some(format!(
            "must have a `config.code` of 1 to {MAX_CODE} letters, digits and `._-`"
        )),
        _ => None,
    }
}

/// Codes are shown wherever the error is, so a code must be a label and not free text.
fn is_label(code: &str) -> bool {
    let of_label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=MAX_CODE).contains(&code.len()) && code.chars().all(of_label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case(json!({"id": "stream-text"}), true)]
    #[case(json!({"id": "stream-text", "config": {"tokens": ["a"], "delayMsPerToken": 5000,
        "finishReason": "stop", "usage": {"promptTokens": 1, "completionTokens": 2}}}), true)]
    #[case(json!({"id": "error", "config": {"code": "boom"}}), true)]
    #[case(json!({"id": "usage-only", "config": {"usage": {"promptTokens": 1}}}), true)]
    #[case(json!({"id": "tool-calls", "config": {"toolCalls": [{"name": "a:b"}]}}), true)]
    #[case(json!({"id": "stream-text", "config": {"delayMsPerToken": 5001}}), false)]
    #[case(json!({"id": "stream-text", "config": {"tokens": "a"}}), false)]
    #[case(json!({"id": "stream-text", "config": {"tokens": ["a"], "finishReason": "tired"}}), false)]
    #[case(json!({"id": "stream-text", "config": {"tokens": vec!["a"; 1_000]}}), true)]
    #[case(json!({"id": "stream-text", "config": {"tokens": vec!["a"; 1_001]}}), false)]
    #[case(json!({"id": "stream-text", "config": {"usage": {"prompt_tokens": 1}}}), false)]
    #[case(json!({"id": "tool-calls", "config": {"toolCalls": vec![json!({"name": "a:b"}); 1_000]}}), true)]
    #[case(json!({"id": "tool-calls", "config": {"toolCalls": vec![json!({"name": "a:b"}); 1_001]}}), false)]
    #[case(json!({"id": "error", "config": {"code": "rate.limit_2-b"}}), true)]
    #[case(json!({"id": "error", "config": {"code": ""}}), false)]
    #[case(json!({"id": "error", "config": ["boom"]}), false)]
    #[case(json!({"id": "error", "config": {"code": "two words"}}), false)]
    #[case(json!({"id": "error", "config": {"code": "x".repeat(65)}}), false)]
    #[case(json!({"id": "does-not-exist"}), false)]
    #[case(json!({}), false)]
    fn a_config_is_bounded(#[case] asked: Value, #[case] sound: bool) {
        assert_eq!(read(asked.as_object().unwrap()).is_ok(), sound);
    }
}
