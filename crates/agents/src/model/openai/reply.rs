//! Parses an answer: tolerates missing members, but validates the present ones.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::model::wire::arguments::read_arguments;
use crate::model::wire::reported;
use crate::model::wire::reported::{Count, Reported};
use crate::model::wire::tool_names::ToolNames;
use crate::rules::{ModelReply, ResponseFacts, TokenUsage, ToolCall};

#[derive(Deserialize)]
struct Completion {
    #[serde(default, deserialize_with = "reported::text")]
    id: Option<String>,
    #[serde(default, deserialize_with = "reported::text")]
    model: Option<String>,
    choices: Vec<Choice>,
    #[serde(default, deserialize_with = "reported::object")]
    usage: Reported<Usage>,
}

#[derive(Default, Deserialize)]
pub struct Choice {
    pub message: WireReply,
    #[serde(default)]
    pub finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
pub struct WireReply {
    #[serde(default, deserialize_with = "content")]
    pub content: Option<String>,
    #[serde(default)]
    pub refusal: Option<String>,
    #[serde(default)]
    pub reasoning_content: Option<String>,
    #[serde(default)]
    pub tool_calls: Option<Vec<WireCall>>,
}

#[derive(Deserialize)]
pub struct WireCall {
    #[serde(default)]
    pub id: Option<String>,
    pub function: WireFunction,
}

#[derive(Deserialize)]
pub struct WireFunction {
    pub name: String,
    #[serde(default)]
    pub arguments: Option<Value>,
}

#[derive(Clone, Copy, Deserialize)]
pub struct Usage {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    #[serde(default, deserialize_with = "reported::object")]
    prompt_tokens_details: Reported<PromptDetails>,
}

#[derive(Clone, Copy, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Count,
}

impl Usage {
    fn tokens(self) -> Reported<TokenUsage> {
        let cached = match self.prompt_tokens_details {
            Reported::Valid(details) => details.cached_tokens,
            Reported::Absent | Reported::Invalid => Count::Absent,
        };
        // Servers that produced no output tokens leave the member out.
        let output = self.completion_tokens.or_zero();
        match (self.prompt_tokens, output) {
            (Reported::Absent, Some(_)) => Reported::Absent,
            (Reported::Valid(input), Some(output)) => Reported::Valid(TokenUsage {
                input: input.0,
                output,
                cached_input: cached.valid().map(|tokens| tokens.0),
            }),
            _ => Reported::Invalid,
        }
    }
}

/// The reply in a successful answer; `None` if it has none.
pub fn read_reply(body: &[u8], names: &ToolNames<'_>) -> Option<ModelReply> {
    let completion: Completion = reported::parse(body)?;
    let choice = completion.choices.into_iter().next()?;
    let mut reply = reply_of(choice, completion.usage, names);
    reply.response.id = completion.id;
    reply.response.model = completion.model;
    Some(reply)
}

pub fn reply_of(choice: Choice, usage: Reported<Usage>, names: &ToolNames<'_>) -> ModelReply {
    let (message, finish) = (choice.message, choice.finish_reason);
    let response = ResponseFacts {
        finish_reason: finish.clone(),
        ..ResponseFacts::default()
    };
    let finish = finish.as_deref().unwrap_or_default();
    let refusal = message.refusal.filter(|text| !text.is_empty());
    let calls = message.tool_calls.unwrap_or_default();
    let usage = usage.and_then(Usage::tokens);
    ModelReply {
        response: Box::new(response),
        refused: refusal.is_some() || finish == "content_filter",
        truncated: finish == "length",
        text: refusal.or(message.content),
        reasoning: message.reasoning_content,
        tool_calls: calls.into_iter().map(|c| tool_call(c, names)).collect(),
        usage_invalid: matches!(usage, Reported::Invalid),
        usage: usage.valid(),
        ..ModelReply::default()
    }
}

fn tool_call(call: WireCall, names: &ToolNames<'_>) -> ToolCall {
    ToolCall {
        id: call.id.unwrap_or_default(),
        tool: names.to_full(&call.function.name).to_owned(),
        arguments: read_arguments(call.function.arguments),
    }
}

/// Content is a string, a list of parts, or null.
fn content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Content {
        Text(String),
        Parts(Vec<Part>),
    }
    #[derive(Deserialize)]
    struct Part {
        #[serde(default)]
        text: Option<String>,
    }
    let content = Option::<Content>::deserialize(deserializer)?;
    Ok(content.map(|content| match content {
        Content::Text(text) => text,
        Content::Parts(parts) => parts.into_iter().filter_map(|part| part.text).collect(),
    }))
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
    fn missing_and_null_members_of_a_reply_are_tolerated() {
        let bare = read(json!({"choices": [{"message": {"content": "hi"}}]})).unwrap();
        assert_eq!(bare.text.as_deref(), Some("hi"));
        assert_eq!(bare.usage, None);
        let nulls = json!({
            "choices": [{
                "message": {"content": null, "tool_calls": null, "refusal": null, "reasoning_content": null},
                "finish_reason": null
            }],
            "usage": null
        });
        let nulls = read(nulls).unwrap();
        assert_eq!(
            (nulls.text, nulls.refused, nulls.truncated),
            (None, false, false)
        );
    }

    #[test]
    fn content_may_come_in_parts() {
        let parts = json!([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]);
        let reply = read(json!({"choices": [{"message": {"content": parts}}]})).unwrap();
        assert_eq!(reply.text.as_deref(), Some("ab"));
    }

    #[test]
    fn usage_includes_cached_tokens() {
        let usage = json!({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}});
        let reply =
            read(json!({"choices": [{"message": {"content": ""}}], "usage": usage})).unwrap();
        let expected = TokenUsage {
            input: 9,
            output: 2,
            cached_input: Some(4),
        };
        assert_eq!(reply.usage, Some(expected));
    }

    #[rstest]
    #[case::negative(json!({"prompt_tokens": -9, "completion_tokens": 2}))]
    #[case::fractional(json!({"prompt_tokens": 9, "completion_tokens": 2.5}))]
    #[case::beyond_64_bits(json!({"prompt_tokens": 1e30, "completion_tokens": 2}))]
    #[case::text(json!({"prompt_tokens": "9"}))]
    #[case::no_object(json!([9, 2]))]
    #[case::word(json!("nine"))]
    fn invalid_usage_does_not_invalidate_the_reply(#[case] usage: Value) {
        let reply = json!({"choices": [{"message": {"content": "hi"}}], "usage": usage});
        let reply = read(reply).unwrap();
        assert_eq!(reply.text.as_deref(), Some("hi"));
        assert_eq!((reply.usage, reply.usage_invalid), (None, true));
    }

    #[test]
    fn non_numeric_usage_does_not_invalidate_the_reply() {
        let body = br#"{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":NaN,"completion_tokens":1}}"#;
        let reply = read_reply(body, &ToolNames::new(&[])).unwrap();
        assert_eq!((reply.text.as_deref(), reply.usage), (Some("hi"), None));
    }

    #[rstest]
    #[case(json!("{\"q\":1}"), Ok(json!({"q": 1})))]
    #[case(json!({"q": 1}), Ok(json!({"q": 1})))]
    #[case(json!(""), Ok(json!({})))]
    #[case(json!(null), Ok(json!({})))]
    #[case(json!("{q:1"), Err("{q:1".to_owned()))]
    fn arguments_are_json_or_kept_as_they_came(
        #[case] arguments: Value,
        #[case] expected: Result<Value, String>,
    ) {
        let call = json!({"id": "c", "function": {"name": "openwop_core_rag_retrieve", "arguments": arguments}});
        let reply = read(json!({"choices": [{"message": {"tool_calls": [call]}}]})).unwrap();
        assert_eq!(reply.tool_calls[0].tool, "openwop:core.rag.retrieve");
        assert_eq!(reply.tool_calls[0].arguments, expected);
    }

    #[rstest]
    #[case("length", json!({"content": "x"}), (false, true))]
    #[case("content_filter", json!({"content": "x"}), (true, false))]
    #[case("stop", json!({"refusal": "no"}), (true, false))]
    #[case("stop", json!({"content": "x", "refusal": ""}), (false, false))]
    fn refusals_and_truncated_replies_are_distinguished(
        #[case] finish: &str,
        #[case] message: Value,
        #[case] expected: (bool, bool),
    ) {
        let reply =
            read(json!({"choices": [{"message": message, "finish_reason": finish}]})).unwrap();
        assert_eq!((reply.refused, reply.truncated), expected);
    }

    #[rstest]
    #[case(json!({"choices": []}))]
    #[case(json!({"error": {"message": "overloaded"}}))]
    #[case(json!({"choices": [{"message": {"content": 7}}]}))]
    #[case(json!([]))]
    fn a_body_without_a_reply_is_rejected(#[case] body: Value) {
        assert!(read(body).is_none());
    }
}
