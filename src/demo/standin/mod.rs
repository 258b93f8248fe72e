//! A simulated model behind the OpenAI chat-completions protocol on loopback.
//!
//! Deterministic keyword rules read the ticket and answer; it is not a language model. It lets the
//! demo use the real code path, including the adapter, on a machine without a model. It serves two
//! models that differ in their skills.

pub mod triage;

use std::net::Ipv4Addr;
use std::time::Duration;

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::demo::standin::triage::{ModelInput, ModelOutput, Skill};

use touchstone_host::background::spawn;

/// The more careful model.
pub const LARGE: &str = "triage-large";
/// The cheaper model.
pub const SMALL: &str = "triage-small";

/// Bytes per token, by the usual rule of thumb.
const OCTETS_PER_TOKEN: usize = 4;

/// Serves on a free loopback port until `shutdown`; returns the base URL.
///
/// # Errors
/// No port is available.
pub async fn serve(shutdown: CancellationToken) -> std::io::Result<Url> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/v1/chat/completions", post(complete));
    // Ends at `shutdown`.
    spawn("simulated model", async move {
        let until = async move { shutdown.cancelled().await };
        // If serving fails, the caller's requests fail.
        let _ = axum::serve(listener, router)
            .with_graceful_shutdown(until)
            .await;
    });
    Url::parse(&format!("http://{address}/v1")).map_err(std::io::Error::other)
}

#[derive(Deserialize)]
struct Request {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    tools: Vec<Value>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Option<String>,
}

async fn complete(Json(request): Json<Request>) -> (StatusCode, Json<Value>) {
    let skill = match request.model.as_str() {
        LARGE => Skill::LARGE,
        SMALL => Skill::SMALL,
        _ => {
            let error =
                json!({"error": {"message": "no such model", "type": "invalid_request_error"}});
            return (StatusCode::NOT_FOUND, Json(error));
        }
    };
    tokio::time::sleep(skill.thinks_for).await;
    let output = triage::answer(skill, &model_input(&request));
    (StatusCode::OK, Json(reply(&request, output)))
}

fn model_input(request: &Request) -> ModelInput {
    let last = |role: &str| {
        let mut messages = request.messages.iter().rev();
        let message = messages.find(|message| message.role == role)?;
        message.content.as_deref()
    };
    let parsed = |text: Option<&str>| {
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    };
    let memory = request
        .messages
        .iter()
        .filter(|message| message.role == "system")
        .filter_map(|message| message.content.as_deref())
        .flat_map(str::lines)
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let lookup = request
        .tools
        .iter()
        .filter_map(|tool| tool.pointer("/function/name").and_then(Value::as_str))
        .find(|name| name.contains("lookup"));
    ModelInput {
        ticket: parsed(last("user")),
        lookup: lookup.map(str::to_owned),
        looked_up: last("tool").map(|text| parsed(Some(text))),
        memory,
    }
}

fn reply(request: &Request, output: ModelOutput) -> Value {
    let (message, finish, size) = match output {
        ModelOutput::Text(text) => {
            let size = text.len();
            (json!({"role": "assistant", "content": text}), "stop", size)
        }
        ModelOutput::Call { tool, arguments } => {
            let arguments = arguments.to_string();
            let size = tool.len() + arguments.len();
            let call = json!({
                "id": "call_1",
                "type": "function",
                "function": {"name": tool, "arguments": arguments},
            });
            (
                json!({"role": "assistant", "content": null, "tool_calls": [call]}),
                "tool_calls",
                size,
            )
        }
    };
    let prompt: usize = request
        .messages
        .iter()
        .filter_map(|message| message.content.as_ref())
        .map(String::len)
        .sum();
    let (input, output) = (
        prompt.div_ceil(OCTETS_PER_TOKEN),
        size.div_ceil(OCTETS_PER_TOKEN),
    );
    json!({
        "id": "chatcmpl-standin",
        "object": "chat.completion",
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": input,
            "completion_tokens": output,
            "total_tokens": input + output,
        },
    })
}

/// Response times of the two models: long enough to see progress, short enough not to wait.
const LARGE_THINKS: Duration = Duration::from_millis(110);
const SMALL_THINKS: Duration = Duration::from_millis(40);
