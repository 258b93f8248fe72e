//! What stands in for a model in a workflow (OpenWOP run-options `mockProvider`): deterministic, and for test keys only.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The providers there are; what discovery advertises.
pub const MOCK_PROVIDERS: &[&str] = &["stream-text", "tool-calls", "error", "usage-only"];

const MAX_TOKENS: usize = 1_000;
const MAX_DELAY_MS: u64 = 5_000;
const MAX_TOOL_CALLS: usize = 1_000;
const MAX_CODE: usize = 64;

/// A provider that answers as it was told to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "id", content = "config")]
pub enum MockProvider {
    /// It says these pieces of text, one after the other.
    StreamText(StreamText),
    /// It calls these tools.
    ToolCalls(ToolCalls),
    /// It fails.
    Error(MockError),
    /// It says nothing and costs something.
    UsageOnly(UsageOnly),
}

/// `stream-text`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct StreamText {
    /// The pieces.
    pub tokens: Vec<String>,
    /// How long before each.
    pub delay_ms_per_token: u64,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// What it took.
    pub usage: MockUsage,
    /// What it calls itself.
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

/// `tool-calls`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ToolCalls {
    /// The calls.
    pub tool_calls: Vec<MockToolCall>,
    /// What they took.
    pub usage: MockUsage,
    /// What it calls itself.
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

/// A tool call that was made up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MockToolCall {
    /// The tool.
    pub name: String,
    /// What it is given.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// `error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MockError {
    /// The code the node fails with; a label.
    pub code: String,
    /// What it would say. Errors hold no content, so [`MockError::SAID`] is recorded in its place.
    pub message: String,
}

impl MockError {
    /// What is recorded in the place of a provider's words.
    pub const SAID: &'static str = "the mock provider failed, as it was told to";
}

impl Default for MockError {
    fn default() -> Self {
        Self {
            code: "mock_provider_error".to_owned(),
            message: Self::SAID.to_owned(),
        }
    }
}

/// `usage-only`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct UsageOnly {
    /// What it took.
    pub usage: MockUsage,
    /// What it calls itself.
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
    /// It was complete.
    Stop,
    /// It became too long.
    Length,
    /// It calls tools.
    ToolCalls,
    /// It was filtered.
    ContentFilter,
}

impl FinishReason {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
        }
    }
}

/// Tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MockUsage {
    /// Of the prompt.
    pub prompt_tokens: u64,
    /// Of the answer.
    pub completion_tokens: u64,
    /// Both; their sum, unless it is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
}

impl MockUsage {
    /// Both.
    pub fn total(&self) -> u64 {
        self.total_tokens
            .unwrap_or_else(|| self.prompt_tokens.saturating_add(self.completion_tokens))
    }
}

/// Why a mock provider cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MockFault {
    /// There is none of this id.
    #[error("is none of {}", MOCK_PROVIDERS.join(", "))]
    Unknown,
    /// Its config is unsound.
    #[error("{0}")]
    Config(String),
}

/// Reads `configurable.mockProvider`.
///
/// # Errors
/// [`MockFault`].
pub fn read(asked: &Map<String, Value>) -> Result<MockProvider, MockFault> {
    let id = asked.get("id").and_then(Value::as_str).unwrap_or_default();
    if !MOCK_PROVIDERS.contains(&id) {
        return Err(MockFault::Unknown);
    }
    let config = match asked.get("config") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(config @ Value::Object(_)) => config.clone(),
        // A list would be taken for the members in their order.
        Some(_) => {
            let words = "must have an object as its `config`";
            return Err(MockFault::Config(words.to_owned()));
        }
    };
    let provider = serde_json::json!({"id": id, "config": config});
    let provider: MockProvider = serde_json::from_value(provider)
        .map_err(|fault| MockFault::Config(format!("has an unsound `config`: {fault}")))?;
    match bounds(&provider) {
        Some(fault) => Err(MockFault::Config(fault)),
        None => Ok(provider),
    }
}

/// What of a config goes beyond its bounds.
fn bounds(provider: &MockProvider) -> Option<String> {
    match provider {
        MockProvider::StreamText(text) if text.tokens.len() > MAX_TOKENS => Some(format!(
            "must not have more than {MAX_TOKENS} `config.tokens`"
        )),
        MockProvider::StreamText(text) if text.delay_ms_per_token > MAX_DELAY_MS => Some(format!(
            "must have a `config.delayMsPerToken` of 0 to {MAX_DELAY_MS}"
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

/// A code stands in the open wherever the error does, so it must be no text.
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
