//! A streamed answer.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::model::anthropic::reply::{Answer, Block, Usage, reply_of};
use crate::model::endpoint::stream::{StreamProgress, StreamedReply};
use crate::model::wire::reported;
use crate::model::wire::reported::Reported;
use crate::model::wire::tool_names::ToolNames;
use crate::rules::ModelReply;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    MessageDelta {
        delta: End,
        #[serde(default, deserialize_with = "reported::object")]
        usage: Reported<Usage>,
    },
    MessageStop,
    Error,
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default, deserialize_with = "reported::text")]
    id: Option<String>,
    #[serde(default, deserialize_with = "reported::text")]
    model: Option<String>,
    #[serde(default, deserialize_with = "reported::object")]
    usage: Reported<Usage>,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: String },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct End {
    #[serde(default)]
    stop_reason: Option<String>,
}

/// The blocks received so far.
#[derive(Default)]
pub struct Events {
    blocks: BTreeMap<u64, Block>,
    stop_reason: Option<String>,
    usage: Reported<Usage>,
    id: Option<String>,
    model: Option<String>,
    held: usize,
    stopped: bool,
}

impl Events {
    fn count(&mut self, later: Reported<Usage>) {
        self.usage = match (self.usage, later) {
            (Reported::Valid(known), Reported::Valid(later)) => {
                Reported::Valid(known.updated(later))
            }
            (known, later) => later.or(known),
        };
    }

    /// Adds a piece to its block; `false` if no block has this index and kind.
    fn add(&mut self, index: u64, delta: Delta) -> bool {
        match (self.blocks.get_mut(&index), delta) {
            (Some(Block::Text { text: whole }), Delta::Text { text: piece })
            | (Some(Block::Thinking { thinking: whole }), Delta::Thinking { thinking: piece }) => {
                self.held += piece.len();
                whole.push_str(&piece);
            }
            (Some(Block::ToolUse { input, .. }), Delta::Input { partial_json }) => {
                self.held += partial_json.len();
                // A call starts with an empty object, which its arguments replace as text.
                match input {
                    Some(Value::String(whole)) => whole.push_str(&partial_json),
                    _ => *input = Some(Value::String(partial_json)),
                }
            }
            (Some(_), Delta::Unknown) | (Some(Block::Unknown), _) => {}
            _ => return false,
        }
        true
    }
}

impl StreamedReply for Events {
    fn take(&mut self, data: &str) -> StreamProgress {
        let Some(event) = reported::parse(data.as_bytes()) else {
            return StreamProgress::Malformed;
        };
        match event {
            Event::MessageStart { message } => {
                (self.id, self.model) = (message.id, message.model);
                self.count(message.usage);
            }
            Event::ContentBlockStart {
                index,
                content_block,
            } => {
                // The initial content of a block counts as held too.
                self.held += data.len();
                self.blocks.insert(index, content_block);
            }
            Event::ContentBlockDelta { index, delta } => {
                if !self.add(index, delta) {
                    return StreamProgress::Malformed;
                }
            }
            Event::MessageDelta { delta, usage } => {
                self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
                self.count(usage);
            }
            Event::MessageStop => {
                self.stopped = true;
                return StreamProgress::Last;
            }
            Event::Error => return StreamProgress::Fault,
            Event::Unknown => {}
        }
        StreamProgress::More
    }

    fn held(&self) -> usize {
        self.held
    }

    fn reply(self, names: &ToolNames<'_>) -> Option<ModelReply> {
        if !self.stopped && self.stop_reason.is_none() {
            return None;
        }
        let answer = Answer {
            id: self.id,
            model: self.model,
            content: self.blocks.into_values().collect(),
            stop_reason: self.stop_reason,
            usage: self.usage,
        };
        Some(reply_of(answer, names))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn assemble(events: &[Value]) -> Option<ModelReply> {
        let tools = ["openwop:core.rag.retrieve".to_owned()];
        let mut pieces = Events::default();
        for event in events {
            assert_eq!(
                pieces.take(&event.to_string()),
                StreamProgress::More,
                "{event}"
            );
        }
        pieces.reply(&ToolNames::new(&tools))
    }

    fn start(index: u64, block: Value) -> Value {
        json!({"type": "content_block_start", "index": index, "content_block": block})
    }

    fn delta(index: u64, delta: Value) -> Value {
        json!({"type": "content_block_delta", "index": index, "delta": delta})
    }

    #[test]
    fn events_are_assembled_into_the_reply() {
        let reply = assemble(&[
            json!({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}}),
            start(0, json!({"type": "thinking", "thinking": ""})),
            json!({"type": "ping"}),
            delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
            delta(0, json!({"type": "signature_delta", "signature": "s"})),
            start(1, json!({"type": "text", "text": ""})),
            delta(1, json!({"type": "text_delta", "text": "Par"})),
            delta(1, json!({"type": "text_delta", "text": "is"})),
            start(2, json!({"type": "tool_use", "id": "toolu_1", "name": "openwop_core_rag_retrieve", "input": {}})),
            delta(2, json!({"type": "input_json_delta", "partial_json": "{\"q\""})),
            delta(2, json!({"type": "input_json_delta", "partial_json": ":1}"})),
            json!({"type": "content_block_stop", "index": 2}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 12}}),
        ])
        .unwrap();
        assert_eq!(reply.text.as_deref(), Some("Paris"));
        assert_eq!(reply.reasoning.as_deref(), Some("hm"));
        assert_eq!(reply.tool_calls[0].arguments, Ok(json!({"q": 1})));
        assert_eq!(reply.tool_calls[0].tool, "openwop:core.rag.retrieve");
        assert_eq!(
            reply.usage.map(|usage| (usage.input, usage.output)),
            Some((9, 12))
        );
    }

    #[test]
    fn an_incomplete_stream_has_no_reply() {
        let text = start(0, json!({"type": "text", "text": "Par"}));
        assert!(assemble(&[text]).is_none());
        assert!(assemble(&[]).is_none());
    }

    #[test]
    fn malformed_events_are_distinguished_from_error_events() {
        let mut pieces = Events::default();
        let fault = json!({"type": "error", "error": {"type": "overloaded_error"}}).to_string();
        assert_eq!(pieces.take(&fault), StreamProgress::Fault);
        let nowhere = delta(7, json!({"type": "text_delta", "text": "x"})).to_string();
        assert_eq!(pieces.take(&nowhere), StreamProgress::Malformed);
        assert_eq!(pieces.take("oops"), StreamProgress::Malformed);
        assert_eq!(
            pieces.take(r#"{"type": "message_stop"}"#),
            StreamProgress::Last
        );
    }
}
