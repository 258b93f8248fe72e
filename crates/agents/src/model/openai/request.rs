//! Writes a request. All data is borrowed, and the body is written once.

use std::borrow::Cow;

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use crate::model::endpoint::dialect::{Dialect, ResponseFormat, described};
use crate::model::wire::tool_names::ToolNames;
use crate::model::wire::tool_schema::{ToolArguments, arguments_of, description_of};
use crate::rules::attachment::Attachment;
use crate::rules::{Message, ModelRequest, ResponseSchema, ToolCall};

pub fn write_request(
    model: &str,
    request: &ModelRequest<'_>,
    names: &ToolNames<'_>,
    dialect: Dialect,
) -> serde_json::Result<Vec<u8>> {
    let schema = request.response_schema;
    let described_schema = schema.filter(|_| dialect.format != ResponseFormat::JsonSchema);
    let max = request.max_tokens;
    let body = Body {
        model,
        messages: Messages {
            messages: &request.messages,
            described_schema,
            names,
        },
        tools: (!request.tools.is_empty()).then_some(Tools { request, names }),
        response_format: schema.and_then(|schema| Format::of(dialect.format, schema)),
        temperature: dialect.temperature_of(request),
        max_tokens: max.filter(|_| !dialect.completion_tokens),
        max_completion_tokens: max.filter(|_| dialect.completion_tokens),
        stream: dialect.streamed,
        stream_options: dialect.streamed.then_some(StreamOptions {
            include_usage: true,
        }),
    };
    let mut bytes = Vec::with_capacity(1024);
    body.serialize(&mut serde_json::Serializer::new(&mut bytes))?;
    Ok(bytes)
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Messages<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'a> {
    JsonSchema { json_schema: NamedSchema<'a> },
    JsonObject,
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'static str,
    schema: ResponseSchema<'a>,
}

impl<'a> Format<'a> {
    fn of(format: ResponseFormat, schema: ResponseSchema<'a>) -> Option<Self> {
        match format {
            // Not `strict`: that only accepts a subset of JSON Schema, and agents bring arbitrary
            // schemas.
            ResponseFormat::JsonSchema => Some(Self::JsonSchema {
                json_schema: NamedSchema {
                    name: "answer",
                    schema,
                },
            }),
            ResponseFormat::JsonObject => Some(Self::JsonObject),
            ResponseFormat::None => None,
        }
    }
}

struct Messages<'a> {
    messages: &'a [Message],
    described_schema: Option<ResponseSchema<'a>>,
    names: &'a ToolNames<'a>,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        let mut described_schema = self.described_schema;
        for message in self.messages {
            // The description goes at the end of the instructions, before the task.
            if !matches!(message, Message::System(_))
                && let Some(schema) = described_schema.take()
            {
                let content = described(schema);
                seq.serialize_element(&WireMessage::System { content: &content })?;
            }
            seq.serialize_element(&WireMessage::of(message, self.names))?;
        }
        seq.end()
    }
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

impl<'a> WireMessage<'a> {
    fn of(message: &'a Message, names: &'a ToolNames<'_>) -> Self {
        match message {
            Message::System(content) => Self::System { content },
            Message::User(content) => Self::User {
                content: UserContent::Text(content),
            },
            Message::UserWithFiles { text, files } => Self::User {
                content: UserContent::parts(text, files),
            },
            Message::Assistant { text, tool_calls } => Self::Assistant {
                content: text.as_deref(),
                tool_calls: tool_calls.iter().map(|c| WireCall::of(c, names)).collect(),
            },
            Message::Tool { call_id, content } => Self::Tool {
                tool_call_id: call_id,
                content,
            },
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

impl<'a> UserContent<'a> {
    fn parts(text: &'a str, files: &'a [Attachment]) -> Self {
        let files = files.iter().map(|file| match file.media_type.is_image() {
            true => Part::ImageUrl {
                image_url: ImageUrl {
                    url: file.data_url(),
                },
            },
            false => Part::File {
                file: FileData {
                    filename: &file.name,
                    file_data: file.data_url(),
                },
            },
        });
        Self::Parts([Part::Text { text }].into_iter().chain(files).collect())
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl },
    File { file: FileData<'a> },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct FileData<'a> {
    filename: &'a str,
    file_data: String,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

impl<'a> WireCall<'a> {
    fn of(call: &'a ToolCall, names: &'a ToolNames<'_>) -> Self {
        Self {
            id: &call.id,
            r#type: "function",
            function: WireFunction {
                name: names.to_wire(&call.tool),
                arguments: match &call.arguments {
                    Ok(value) => Cow::Owned(value.to_string()),
                    // Some servers parse the arguments that they get back, and refuse the whole
                    // conversation if they are invalid.
                    Err(_) => Cow::Borrowed("{}"),
                },
            },
        }
    }
}

struct Tools<'a> {
    request: &'a ModelRequest<'a>,
    names: &'a ToolNames<'a>,
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.request.tools.iter().map(|tool| WireTool {
            r#type: "function",
            function: Declaration {
                name: self.names.to_wire(tool),
                description: description_of(self.request, tool),
                parameters: arguments_of(self.request, tool),
            },
        }))
    }
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: Declaration<'a>,
}

#[derive(Serialize)]
struct Declaration<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    parameters: ToolArguments<'a>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::rules::attachment::examples;

    #[test]
    fn images_are_sent_as_urls_and_documents_as_files_after_the_text() {
        let files = examples();
        let content = UserContent::parts("Read this.", &files);
        assert_eq!(
            serde_json::to_value(content).unwrap(),
            json!([
                {"type": "text", "text": "Read this."},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,YQ=="}},
                {"type": "file", "file": {"filename": "b.pdf", "file_data": "data:application/pdf;base64,Yg=="}},
            ])
        );
        let text: Value = serde_json::to_value(UserContent::Text("Hi")).unwrap();
        assert_eq!(text, json!("Hi"));
    }
}
