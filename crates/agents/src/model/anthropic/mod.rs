//! The Anthropic messages wire.
//!
//! Differences from chat completions: instructions are separate from the messages, tool results are
//! content of the user's turn, every request needs a token limit, and cached prompt tokens are
//! counted separately. If the endpoint does not accept a schema, the instructions describe it.

pub mod pieces;
pub mod reply;
pub mod request;

use reqwest::header::{HeaderName, HeaderValue};
use secrecy::SecretString;

use crate::model::endpoint::dialect::{Dialect, Fallbacks};
use crate::model::endpoint::{EndpointProtocol, HttpModel};
use crate::model::wire::tool_names::ToolNames;
use crate::rules::{ModelReply, ModelRequest};

/// The version of the wire.
const VERSION: &str = "2023-06-01";

/// An endpoint on this wire; its base URL ends before `/messages`.
pub type AnthropicModel = HttpModel<Messages>;

#[derive(Debug)]
pub enum Messages {}

impl EndpointProtocol for Messages {
    type StreamedReply = pieces::Events;

    const PATH: &'static [&'static str] = &["messages"];
    const FALLBACKS: Fallbacks = Fallbacks {
        json_object: false,
        completion_tokens: false,
    };

    fn credentials(key: &SecretString) -> (HeaderName, SecretString) {
        (HeaderName::from_static("x-api-key"), key.clone())
    }

    fn headers() -> Option<(HeaderName, HeaderValue)> {
        let name = HeaderName::from_static("anthropic-version");
        Some((name, HeaderValue::from_static(VERSION)))
    }

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
