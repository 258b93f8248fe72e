//! Parses an answer: unknown blocks and stop reasons are skipped, known ones must be complete.

use serde::Deserialize;
use serde_json::Value;

use crate::model::wire::arguments::read_arguments;
use crate::model::wire::reported;
use crate::model::wire::reported::{Count, Reported};
use crate::model::wire::tool_names::ToolNames;
use crate::rules::{ModelReply, ResponseFacts, TokenUsage, ToolCall};

#[derive(Default, Deserialize)]
pub struct Answer {
    #[serde(default, deserialize_with = "reported::text")]
    pub id: Option<String>,
    #[serde(default, deserialize_with = "reported::text")]
    pub model: Option<String>,
    pub content: Vec<Block>,
    #[serde(default)]
    pub stop_reason: Option<String>,
    #[serde(default, deserialize_with = "reported::object")]
    pub usage: Reported<Usage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
    },
    ToolUse {
        #[serde(default)]
        id: Option<String>,
        name: String,
        #[serde(default)]
        input: Option<Value>,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Copy, Default, Deserialize)]
pub struct Usage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    cache_creation_input_tokens: Count,
    #[serde(default)]
    cache_read_input_tokens: Count,
}

impl Usage {
    /// Merges a later count; each number is for the whole answer so far.
    pub fn updated(self, later: Self) -> Self {
        Self {
            input_tokens: later.input_tokens.or(self.input_tokens),
            output_tokens: later.output_tokens.or(self.output_tokens),
            cache_creation_input_tokens: later
                .cache_creation_input_tokens
                .or(self.cache_creation_input_tokens),
            cache_read_input_tokens: later
                .cache_read_input_tokens
                .or(self.cache_read_input_tokens),
        }
    }

    /// This wire counts prompt tokens read from or written to the cache separately; the host counts
    /// them with the others.
    fn tokens(self) -> Reported<TokenUsage> {
        let counts = (
            self.input_tokens,
            self.output_tokens.or_zero(),
            self.cache_creation_input_tokens.or_zero(),
            self.cache_read_input_tokens.or_zero(),
        );
        match counts {
            (Reported::Absent, Some(_), Some(_), Some(_)) => Reported::Absent,
            (Reported::Valid(input), Some(output), Some(written), Some(read)) => {
                Reported::Valid(TokenUsage {
                    input: input.0.saturating_add(written).saturating_add(read),
                    output,
                    cached_input: self.cache_read_input_tokens.valid().map(|tokens| tokens.0),
                })
            }
            _ => Reported::Invalid,
        }
    }
}

/// The reply in a successful answer; `None` if it has none.
pub fn read_reply(body: &[u8], names: &ToolNames<'_>) -> Option<ModelReply> {
    reported::parse(body).map(|answer| reply_of(answer, names))
}

pub fn reply_of(answer: Answer, names: &ToolNames<'_>) -> ModelReply {
    let stop = answer.stop_reason.as_deref().unwrap_or_default();
    let usage = answer.usage.and_then(Usage::tokens);
    let mut reply = ModelReply {
        refused: stop == "refusal",
        truncated: matches!(stop, "max_tokens" | "model_context_window_exceeded"),
        usage_invalid: matches!(usage, Reported::Invalid),
        usage: usage.valid(),
        response: Box::new(ResponseFacts {
            id: answer.id,
            model: answer.model,
            finish_reason: answer.stop_reason.clone(),
        }),
        ..ModelReply::default()
    };
    for block in answer.content {
        match block {
            Block::Text { text } => reply.text.get_or_insert_default().push_str(&text),
            Block::Thinking { thinking } => {
                reply.reasoning.get_or_insert_default().push_str(&thinking);
            }
            Block::ToolUse { id, name, input } => reply.tool_calls.push(ToolCall {
                id: id.unwrap_or_default(),
                tool: names.to_full(&name).to_owned(),
                arguments: read_arguments(input),
            }),
            Block::Unknown => {}
        }
    }
    reply
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Option<ModelReply> {
        let tools = ["openwop:core.rag.retrieve".to_owned()];
        read_reply(body.to_string().as_bytes(), &ToolNames::new(&tools))
    }

    #[test]
    fn blocks_become_text_reasoning_and_calls() {
        let reply = read(json!({
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "a", "citations": null},
                {"type": "text", "text": "b"},
                {"type": "tool_use", "id": "toolu_1", "name": "openwop_core_rag_retrieve", "input": {"q": 1}},
            ],
            "stop_reason": "tool_use",
        }))
        .unwrap();
        assert_eq!(reply.text.as_deref(), Some("ab"));
        assert_eq!(reply.reasoning.as_deref(), Some("hm"));
        assert_eq!(
            reply.tool_calls,
            [ToolCall {
                id: "toolu_1".to_owned(),
                tool: "openwop:core.rag.retrieve".to_owned(),
                arguments: Ok(json!({"q": 1})),
            }]
        );
        assert_eq!(reply.usage, None);
    }

    #[rstest]
    #[case::plain(json!({"input_tokens": 5, "output_tokens": 2}), 5, None)]
    #[case::cached(
        json!({"input_tokens": 5, "output_tokens": 2, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 400}),
        435,
        Some(400)
    )]
    #[case::nulls(
        json!({"input_tokens": 5, "output_tokens": 2, "cache_creation_input_tokens": null, "cache_read_input_tokens": null}),
        5,
        None
    )]
    fn usage_counts_the_whole_prompt(
        #[case] usage: Value,
        #[case] input: u64,
        #[case] cached_input: Option<u64>,
    ) {
        let reply = read(json!({"content": [], "usage": usage})).unwrap();
        let expected = TokenUsage {
            input,
            output: 2,
            cached_input,
        };
        assert_eq!(reply.usage, Some(expected));
    }

    #[rstest]
    #[case::negative(json!({"input_tokens": -5, "output_tokens": 2}))]
    #[case::fractional(json!({"input_tokens": 5, "output_tokens": 0.5}))]
    #[case::cache(json!({"input_tokens": 5, "cache_read_input_tokens": -1}))]
    #[case::no_object(json!("five"))]
    fn invalid_usage_does_not_invalidate_the_reply(#[case] usage: Value) {
        let content = json!([{"type": "text", "text": "hi"}]);
        let reply = read(json!({"content": content, "usage": usage})).unwrap();
        assert_eq!(reply.text.as_deref(), Some("hi"));
        assert_eq!((reply.usage, reply.usage_invalid), (None, true));
    }

    #[rstest]
    #[case("end_turn", (false, false))]
    #[case("stop_sequence", (false, false))]
    #[case("tool_use", (false, false))]
    #[case("a reason of tomorrow", (false, false))]
    #[case("max_tokens", (false, true))]
    #[case("model_context_window_exceeded", (false, true))]
    #[case("refusal", (true, false))]
    fn refusals_and_truncated_replies_are_distinguished(
        #[case] stop_reason: &str,
        #[case] expected: (bool, bool),
    ) {
        let content = json!([{"type": "text", "text": "x"}]);
        let reply = read(json!({"content": content, "stop_reason": stop_reason})).unwrap();
        assert_eq!((reply.refused, reply.truncated), expected);
    }

    #[rstest]
    #[case(json!({}))]
    #[case(json!({"content": "x"}))]
    #[case(json!({"content": [{"type": "text"}]}))]
    #[case(json!({"content": [{"type": "tool_use", "id": "a"}]}))]
    #[case(json!({"type": "error", "error": {"type": "overloaded_error"}}))]
    #[case(json!([]))]
    fn a_body_without_a_reply_is_rejected(#[case] body: Value) {
        assert!(read(body).is_none());
    }
}
