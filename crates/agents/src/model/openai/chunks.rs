//! A streamed answer.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::model::endpoint::stream::{StreamProgress, StreamedReply};
use crate::model::openai::reply::{Choice, Usage, WireCall, WireFunction, reply_of};
use crate::model::wire::reported;
use crate::model::wire::reported::Reported;
use crate::model::wire::tool_names::ToolNames;
use crate::rules::ModelReply;

/// Size of a call without its strings, in bytes.
const CALL_OCTETS: usize = 128;
/// The end of a stream.
const DONE: &str = "[DONE]";

#[derive(Deserialize)]
struct Chunk {
    #[serde(default, deserialize_with = "reported::text")]
    id: Option<String>,
    #[serde(default, deserialize_with = "reported::text")]
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Part>,
    #[serde(default, deserialize_with = "reported::object")]
    usage: Reported<Usage>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    index: u64,
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    #[serde(default)]
    index: u64,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: FunctionDelta,
}

#[derive(Default, Deserialize)]
struct FunctionDelta {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

/// A call that is being assembled.
struct Call {
    index: u64,
    id: Option<String>,
    name: String,
    arguments: String,
}

/// The pieces received so far.
#[derive(Default)]
pub struct Chunks {
    choice: Choice,
    calls: Vec<Call>,
    usage: Reported<Usage>,
    id: Option<String>,
    model: Option<String>,
    held: usize,
    done: bool,
}

impl Chunks {
    fn add(&mut self, part: Part) {
        let delta = part.delta.unwrap_or_default();
        let message = &mut self.choice.message;
        for (whole, piece) in [
            (&mut message.content, delta.content),
            (&mut message.refusal, delta.refusal),
            (&mut message.reasoning_content, delta.reasoning_content),
        ] {
            if let Some(piece) = piece {
                self.held += piece.len();
                whole.get_or_insert_default().push_str(&piece);
            }
        }
        for piece in delta.tool_calls.unwrap_or_default() {
            self.call(piece);
        }
        if part.finish_reason.is_some() {
            self.choice.finish_reason = part.finish_reason;
        }
    }

    /// Some servers give every call of an answer the same index, but none gives them the same id.
    fn call(&mut self, piece: CallDelta) {
        let id = piece.id.filter(|id| !id.is_empty());
        let same = |call: &&mut Call| {
            call.index == piece.index && (id.is_none() || call.id.is_none() || call.id == id)
        };
        let name = piece.function.name.unwrap_or_default();
        let arguments = piece.function.arguments.unwrap_or_default();
        self.held += name.len() + arguments.len();
        if let Some(call) = self.calls.iter_mut().rev().find(same) {
            call.id = call.id.take().or(id);
            // A name arrives in one piece; some servers repeat it.
            if call.name.is_empty() {
                call.name = name;
            }
            call.arguments.push_str(&arguments);
        } else {
            self.held += CALL_OCTETS;
            self.calls.push(Call {
                index: piece.index,
                id,
                name,
                arguments,
            });
        }
    }
}

impl StreamedReply for Chunks {
    fn take(&mut self, data: &str) -> StreamProgress {
        if data.trim() == DONE {
            self.done = true;
            return StreamProgress::Last;
        }
        let Some(chunk) = reported::parse::<Chunk>(data.as_bytes()) else {
            return StreamProgress::Malformed;
        };
        if chunk.error.is_some() {
            return StreamProgress::Fault;
        }
        self.usage = chunk.usage.or(self.usage);
        self.id = self.id.take().or(chunk.id);
        self.model = self.model.take().or(chunk.model);
        for part in chunk.choices.into_iter().filter(|part| part.index == 0) {
            self.add(part);
        }
        StreamProgress::More
    }

    fn held(&self) -> usize {
        self.held
    }

    fn reply(mut self, names: &ToolNames<'_>) -> Option<ModelReply> {
        if !self.done && self.choice.finish_reason.is_none() {
            return None;
        }
        if !self.calls.is_empty() {
            let calls = self.calls.into_iter().map(|call| WireCall {
                id: call.id,
                function: WireFunction {
                    name: call.name,
                    arguments: Some(Value::String(call.arguments)),
                },
            });
            self.choice.message.tool_calls = Some(calls.collect());
        }
        let mut reply = reply_of(self.choice, self.usage, names);
        reply.response.id = self.id;
        reply.response.model = self.model;
        Some(reply)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn assemble(chunks: &[Value]) -> Option<ModelReply> {
        let tools = ["openwop:core.rag.retrieve".to_owned()];
        let mut pieces = Chunks::default();
        for chunk in chunks {
            assert_eq!(pieces.take(&chunk.to_string()), StreamProgress::More);
        }
        pieces.reply(&ToolNames::new(&tools))
    }

    fn delta(delta: Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}], "usage": null})
    }

    fn finish(reason: &str) -> Value {
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    }

    #[test]
    fn chunks_are_assembled_into_the_reply() {
        let reply = assemble(&[
            delta(json!({"role": "assistant", "content": ""})),
            delta(json!({"reasoning_content": "hm"})),
            delta(json!({"content": "Par"})),
            delta(json!({"content": "is"})),
            json!({"choices": [{"index": 1, "delta": {"content": "other choice"}}]}),
            finish("stop"),
            json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}),
        ])
        .unwrap();
        assert_eq!(reply.text.as_deref(), Some("Paris"));
        assert_eq!(reply.reasoning.as_deref(), Some("hm"));
        assert_eq!(
            reply.usage.map(|usage| (usage.input, usage.output)),
            Some((9, 2))
        );
        assert!(!reply.truncated && !reply.refused);
    }

    #[test]
    fn calls_are_told_apart_by_index_and_by_id() {
        let call = |index: u64, id: Value, name: Value, arguments: &str| {
            delta(
                json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]}),
            )
        };
        let tool = json!("openwop_core_rag_retrieve");
        let reply = assemble(&[
            call(0, json!("a"), tool.clone(), ""),
            call(0, Value::Null, Value::Null, "{\"q\":"),
            call(0, json!(""), Value::Null, "1}"),
            call(1, json!("b"), tool.clone(), "{\"q\":2}"),
            call(1, json!("c"), tool, "{\"q\":3}"),
            finish("tool_calls"),
        ])
        .unwrap();
        let calls: Vec<_> = reply
            .tool_calls
            .iter()
            .map(|call| (call.id.as_str(), call.arguments.clone()))
            .collect();
        assert_eq!(
            calls,
            [
                ("a", Ok(json!({"q": 1}))),
                ("b", Ok(json!({"q": 2}))),
                ("c", Ok(json!({"q": 3}))),
            ]
        );
        assert_eq!(reply.tool_calls[0].tool, "openwop:core.rag.retrieve");
    }

    #[test]
    fn invalid_usage_does_not_invalidate_the_reply() {
        let usage = json!({"choices": [], "usage": {"prompt_tokens": -9, "completion_tokens": 2}});
        let reply = assemble(&[delta(json!({"content": "hi"})), finish("stop"), usage]).unwrap();
        assert_eq!(reply.text.as_deref(), Some("hi"));
        assert_eq!((reply.usage, reply.usage_invalid), (None, true));
    }

    #[test]
    fn an_incomplete_stream_has_no_reply() {
        assert!(assemble(&[delta(json!({"content": "Par"}))]).is_none());
        assert!(assemble(&[]).is_none());
        let cut = assemble(&[delta(json!({"content": "Par"})), finish("length")]).unwrap();
        assert!(cut.truncated);
    }

    #[test]
    fn malformed_chunks_are_distinguished_from_error_chunks() {
        let mut pieces = Chunks::default();
        assert_eq!(
            pieces.take(r#"{"error": {"message": "overloaded"}}"#),
            StreamProgress::Fault
        );
        assert_eq!(pieces.take("oops"), StreamProgress::Malformed);
        assert_eq!(pieces.take("[DONE]"), StreamProgress::Last);
    }
}
