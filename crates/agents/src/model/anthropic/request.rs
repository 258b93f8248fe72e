use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::model::endpoint::dialect::{Dialect, ResponseFormat, described};
use crate::model::wire::tool_names::ToolNames;
use crate::model::wire::tool_schema::{ToolArguments, arguments_of, description_of};
use crate::rules::attachment::Attachment;
use crate::rules::{ASSUMED_OUTPUT_TOKENS, Message, ModelRequest, ResponseSchema, ToolCall};

pub fn write_request(
    model: &str,
    request: &ModelRequest<'_>,
    names: &ToolNames<'_>,
    dialect: Dialect,
) -> serde_json::Result<Vec<u8>> {
    let schema = request.response_schema;
    let as_format = dialect.format == ResponseFormat::JsonSchema;
    let mut system: Vec<Text<'_>> = Vec::new();
    for message in &request.messages {
        // The endpoint refuses blocks without text.
        if let Message::System(text) = message
            && !text.trim().is_empty()
        {
            system.push(Text::of(&**text));
        }
    }
    if let Some(schema) = schema.filter(|_| !as_format) {
        system.push(Text::of(described(schema)));
    }
    serde_json::to_vec(&Body {
        model,
        // The wire requires a limit. This number is also reserved in the budget for answers without
        // a limit.
        max_tokens: request.max_tokens.unwrap_or(ASSUMED_OUTPUT_TOKENS),
        system,
        messages: turns(&request.messages, names),
        tools: request
            .tools
            .iter()
            .map(|tool| Tool::of(tool, request, names))
            .collect(),
        output_config: schema.filter(|_| as_format).map(|schema| OutputConfig {
            format: Format {
                r#type: "json_schema",
                schema,
            },
        }),
        temperature: dialect.temperature_of(request),
        stream: dialect.streamed,
    })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Text<'a>>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    stream: bool,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
struct Format<'a> {
    r#type: &'static str,
    schema: ResponseSchema<'a>,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: Cow<'a, str>,
}

impl<'a> Text<'a> {
    fn of(text: impl Into<Cow<'a, str>>) -> Self {
        Self {
            r#type: "text",
            text: text.into(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: Cow<'a, str>,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: &'a str,
    },
    Image {
        source: Base64Source<'a>,
    },
    Document {
        source: Base64Source<'a>,
    },
}

#[derive(Serialize)]
struct Base64Source<'a> {
    r#type: &'static str,
    media_type: &'static str,
    data: &'a str,
}

/// Roles must alternate, and all results of a turn's calls must be in the next turn.
fn turns<'a>(messages: &'a [Message], names: &'a ToolNames<'_>) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::with_capacity(messages.len());
    // A conversation must begin with the user.
    let is_said = |message: &&Message| !matches!(message, Message::System(_));
    if let Some(Message::Assistant { .. }) = messages.iter().find(is_said) {
        turns.push(Turn {
            role: Role::User,
            content: vec![Block::Text { text: "(empty)" }],
        });
    }
    let mut push = |role, blocks: Vec<Block<'a>>| match turns.last_mut() {
        Some(turn) if turn.role == role => turn.content.extend(blocks),
        _ => turns.push(Turn {
            role,
            content: blocks,
        }),
    };
    for message in messages {
        match message {
            Message::System(_) => {}
            // A conversation must begin with a task.
            Message::User(text) if text.trim().is_empty() => {
                push(Role::User, vec![Block::Text { text: "(empty)" }]);
            }
            Message::User(text) => push(Role::User, vec![Block::Text { text }]),
            Message::UserWithFiles { text, files } => {
                let text = match text.trim().is_empty() {
                    true => "(empty)",
                    false => text,
                };
                // The endpoint's documentation recommends files before the text about them.
                let blocks = files.iter().map(file_block);
                push(Role::User, blocks.chain([Block::Text { text }]).collect());
            }
            Message::Assistant { text, tool_calls } => {
                // The endpoint refuses blocks without text.
                let text = text.as_deref().filter(|text| !text.trim().is_empty());
                let text = text.map(|text| Block::Text { text }).into_iter();
                let calls = tool_calls.iter().map(|call| tool_use(call, names));
                push(Role::Assistant, text.chain(calls).collect());
            }
            Message::Tool { call_id, content } => push(
                Role::User,
                vec![Block::ToolResult {
                    tool_use_id: call_id,
                    content,
                }],
            ),
        }
    }
    turns
}

fn file_block(file: &Attachment) -> Block<'_> {
    let source = Base64Source {
        r#type: "base64",
        media_type: file.media_type.as_str(),
        data: &file.base64,
    };
    match file.media_type.is_image() {
        true => Block::Image { source },
        false => Block::Document { source },
    }
}

fn tool_use<'a>(call: &'a ToolCall, names: &'a ToolNames<'_>) -> Block<'a> {
    Block::ToolUse {
        id: &call.id,
        name: names.to_wire(&call.tool),
        input: match &call.arguments {
            Ok(arguments @ Value::Object(_)) => Cow::Borrowed(arguments),
            // The wire only accepts objects; any other value would invalidate the whole
            // conversation.
            _ => Cow::Owned(Value::Object(Map::new())),
        },
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    input_schema: ToolArguments<'a>,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a str, request: &'a ModelRequest<'_>, names: &'a ToolNames<'_>) -> Self {
        Self {
            name: names.to_wire(tool),
            description: description_of(request, tool),
            input_schema: arguments_of(request, tool),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::rules::attachment::examples;

    #[test]
    fn files_are_sent_before_the_text_and_a_conversation_begins_with_the_user() {
        let tools: Vec<String> = Vec::new();
        let names = ToolNames::new(&tools);
        let messages = [
            Message::Assistant {
                text: Some("Hello".to_owned()),
                tool_calls: Vec::new(),
            },
            Message::UserWithFiles {
                text: "Read this.".into(),
                files: Arc::from(examples()),
            },
        ];
        let sent = serde_json::to_value(turns(&messages, &names)).unwrap();
        let source = |media_type: &str, data: &str| json!({"type": "base64", "media_type": media_type, "data": data});
        assert_eq!(
            sent,
            json!([
                {"role": "user", "content": [{"type": "text", "text": "(empty)"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
                {"role": "user", "content": [
                    {"type": "image", "source": source("image/png", "YQ==")},
                    {"type": "document", "source": source("application/pdf", "Yg==")},
                    {"type": "text", "text": "Read this."},
                ]},
            ])
        );
    }
}
