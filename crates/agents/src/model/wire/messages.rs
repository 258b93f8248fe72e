//! A conversation as plain documents, for agents without a provider's wire.

use serde_json::{Value, json};

use crate::rules::attachment::Attachment;
use crate::rules::{Message, ModelRequest, ToolCall};

/// The messages of a request; `arguments` formats the arguments of a tool call.
pub fn messages_of(
    request: &ModelRequest<'_>,
    arguments: impl Fn(&ToolCall) -> Value,
) -> Vec<Value> {
    let call =
        |call: &ToolCall| json!({"id": call.id, "tool": call.tool, "arguments": arguments(call)});
    request
        .messages
        .iter()
        .map(|message| match message {
            Message::System(text) => json!({"role": "system", "text": &**text}),
            Message::User(text) => json!({"role": "user", "text": &**text}),
            // The content is identified by its digest.
            Message::UserWithFiles { text, files } => json!({
                "role": "user",
                "text": &**text,
                "attachments": files.iter().map(Attachment::reference).collect::<Vec<_>>(),
            }),
            Message::Assistant { text, tool_calls } => json!({
                "role": "assistant",
                "text": text,
                "toolCalls": tool_calls.iter().map(call).collect::<Vec<_>>(),
            }),
            Message::Tool { call_id, content } => {
                json!({"role": "tool", "callId": call_id, "text": content})
            }
        })
        .collect()
}
