//! The OpenAI chat-completions wire, as OpenAI, vLLM, Ollama, llama.cpp and LM Studio speak it.
//!
//! Endpoints that do not accept `json_schema` are asked for a `json_object`, and then for no
//! format; OpenAI's newer models require `max_completion_tokens`.

pub mod chunks;
pub mod embeddings;
pub mod reply;
pub mod request;

use crate::model::endpoint::dialect::{Dialect, Fallbacks};
use crate::model::endpoint::{EndpointProtocol, HttpModel};
use crate::model::wire::tool_names::ToolNames;
use crate::rules::{ModelReply, ModelRequest};

/// An endpoint on this wire; its base URL ends before `/chat/completions`.
pub type OpenAiModel = HttpModel<ChatCompletions>;

#[derive(Debug)]
pub enum ChatCompletions {}

impl EndpointProtocol for ChatCompletions {
    type StreamedReply = chunks::Chunks;

    const PATH: &'static [&'static str] = &["chat", "completions"];
    const FALLBACKS: Fallbacks = Fallbacks {
        json_object: true,
        completion_tokens: true,
    };

    fn write(
        model: &str,
        request: &ModelRequest<'_>,
        names: &ToolNames<'_>,
        dialect: Dialect,
    ) -> serde_json::Result<Vec<u8>> {
        request::write_request(model, request, names, dialect)
    }

    fn read(body: &[u8], names: &ToolNames<'_>) -> Option<ModelReply> {
        reply::read_reply(body, names)
    }
}
