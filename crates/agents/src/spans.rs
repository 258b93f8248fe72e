//! Spans of agents, model calls and tool calls, by the semantic conventions for generative AI
//! (docs/telemetry.md). Content is set only if the operator captures it.

use serde_json::{Value, json};
use url::Url;

use crate::calls::CallRole;
use crate::ports::agent::{Invocation, InvocationEnd};
use crate::ports::model::{ModelBinding, ModelError, ModelInfo};
use crate::rules::{
    COMMAND_PROVIDER, FailureReason, Message, ModelReply, ModelRequest, TokenUsage, ToolCall,
    ToolOutcome,
};
use touchstone_host::otlp::span::{Span, SpanKind};
use touchstone_kit::ids::TaskId;
use touchstone_kit::redaction::{mask, mask_within};

/// Providers that are agents themselves, not models.
const AGENTS: [&str; 3] = ["a2a", "openwop", COMMAND_PROVIDER];

/// The name of the operation in the conventions.
pub(crate) fn operation(role: CallRole, provider: &str) -> &'static str {
    match role {
        CallRole::Embeddings => "embeddings",
        CallRole::Agent if AGENTS.contains(&provider) => "invoke_agent",
        _ => "chat",
    }
}

/// The host and the port of the endpoint.
pub(crate) fn server(binding: &ModelBinding) -> Option<(String, Option<u16>)> {
    let endpoint = binding.endpoint.as_ref()?.url.as_ref()?;
    let url: Url = endpoint.parse().ok()?;
    Some((url.host_str()?.to_owned(), url.port_or_known_default()))
}

/// The span of one attempt at a call.
pub(crate) fn call(
    role: CallRole,
    task: &TaskId,
    binding: &ModelBinding,
    request: &ModelRequest<'_>,
) -> Span {
    let info = binding.model.info();
    let operation = operation(role, &info.provider);
    let name = || format!("{operation} {}", info.model);
    let mut span = Span::start(SpanKind::Client, name);
    if !span.is_recorded() {
        return span;
    }
    span.set("gen_ai.operation.name", operation);
    set_model(&mut span, info);
    span.set("touchstone.role", role.as_str());
    span.set("touchstone.task.id", task.as_str());
    span.set_some("gen_ai.request.temperature", request.temperature);
    span.set_some(
        "gen_ai.request.max_tokens",
        request.max_tokens.filter(|_| role != CallRole::Embeddings),
    );
    if request.response_schema.is_some() {
        span.set("gen_ai.output.type", "json");
    }
    if let Some((host, port)) = server(binding) {
        span.set("server.address", host);
        span.set_some("server.port", port.map(u32::from));
    }
    if span.captures_content() {
        let (instructions, messages): (Vec<&Message>, Vec<&Message>) = request
            .messages
            .iter()
            .partition(|message| matches!(message, Message::System(_)));
        if !instructions.is_empty() {
            let parts: Vec<Value> = instructions.into_iter().flat_map(parts).collect();
            span.set("gen_ai.system_instructions", text(Value::Array(parts)));
        }
        let messages = messages.into_iter().map(message).collect();
        span.set("gen_ai.input.messages", text(Value::Array(messages)));
    }
    span
}

fn set_model(span: &mut Span, info: &ModelInfo) {
    span.set("gen_ai.provider.name", &info.provider);
    span.set("gen_ai.request.model", &info.model);
}

/// Ends the span of an answered call.
pub(crate) fn answered(mut span: Span, reply: &ModelReply, usage: TokenUsage, estimated: bool) {
    if !span.is_recorded() {
        return;
    }
    span.set("gen_ai.usage.input_tokens", usage.input);
    span.set("gen_ai.usage.output_tokens", usage.output);
    span.set_some("gen_ai.usage.cache_read.input_tokens", usage.cached_input);
    if estimated {
        span.set("touchstone.usage.estimated", true);
    }
    if reply.from_cache {
        span.set("touchstone.answer_cached", true);
    }
    let facts = &reply.response;
    span.set_some("gen_ai.response.id", facts.id.as_ref());
    span.set_some("gen_ai.response.model", facts.model.as_ref());
    if let Some(reason) = &facts.finish_reason {
        span.set("gen_ai.response.finish_reasons", &[reason.as_str()][..]);
    }
    if span.captures_content() {
        let calls = reply.tool_calls.clone();
        let said = Message::Assistant {
            text: reply.text.clone(),
            tool_calls: calls,
        };
        let mut said = message(&said);
        if let (Some(members), Some(reason)) = (said.as_object_mut(), &facts.finish_reason) {
            members.insert("finish_reason".to_owned(), reason.as_str().into());
        }
        span.set("gen_ai.output.messages", text(Value::Array(vec![said])));
    }
    span.end();
}

/// Ends the span of a call without an answer.
pub(crate) fn failed(mut span: Span, error: &ModelError) {
    match error {
        ModelError::Unavailable { reason, .. } => span.fail(reason),
        ModelError::Rejected { reason } => span.fail(FailureReason::from(*reason).label()),
    }
    span.end();
}

/// The span of an invocation.
pub(crate) fn invocation(invocation: &Invocation<'_>) -> Span {
    let agent = &invocation.agent.agent_id;
    let mut span = Span::start(SpanKind::Internal, || format!("invoke_agent {agent}"));
    if span.is_recorded() {
        span.set("gen_ai.operation.name", "invoke_agent");
        set_model(&mut span, invocation.model.model.info());
        span.set("gen_ai.agent.id", agent.as_str());
        span.set("gen_ai.agent.name", agent.as_str());
        span.set("gen_ai.agent.version", invocation.agent_version);
        span.set("touchstone.invocation.id", &invocation.invocation_id);
        span.set("touchstone.task.id", invocation.node_id.as_str());
    }
    span
}

/// Ends the span of an invocation.
pub(crate) fn invoked(mut span: Span, end: &InvocationEnd) {
    match end {
        InvocationEnd::Decided { .. } => {}
        InvocationEnd::Failed { reason } | InvocationEnd::Unjudged { reason } => span.fail(reason),
    }
    span.end();
}

/// The span of a tool call.
pub(crate) fn tool(call: &ToolCall, transport: Option<&str>) -> Span {
    let mut span = Span::start(SpanKind::Internal, || format!("execute_tool {}", call.tool));
    if span.is_recorded() {
        span.set("gen_ai.operation.name", "execute_tool");
        span.set("gen_ai.tool.name", &call.tool);
        span.set("gen_ai.tool.call.id", &call.id);
        span.set("gen_ai.tool.type", "function");
        span.set("touchstone.tool.source", transport.unwrap_or("fixture"));
        if span.captures_content() {
            let arguments = match &call.arguments {
                Ok(arguments) => text(arguments.clone()),
                Err(unparsed) => mask(unparsed).into_owned(),
            };
            span.set("gen_ai.tool.call.arguments", arguments);
        }
    }
    span
}

/// Ends the span of a tool call.
pub(crate) fn returned(mut span: Span, outcome: &ToolOutcome) {
    if let ToolOutcome::Answered(value) | ToolOutcome::Failed(value) = outcome
        && span.captures_content()
    {
        span.set("gen_ai.tool.call.result", text(value.clone()));
    }
    match outcome {
        ToolOutcome::Answered(_) => {}
        ToolOutcome::Failed(_) => span.fail("tool_error"),
        other => span.fail(other.error().map_or("tool_unavailable", |(code, _)| code)),
    }
    span.end();
}

/// A document as text, with secrets masked.
fn text(mut document: Value) -> String {
    mask_within(&mut document);
    document.to_string()
}

fn message(message: &Message) -> Value {
    let role = match message {
        Message::System(_) => "system",
        Message::User(_) | Message::UserWithFiles { .. } => "user",
        Message::Assistant { .. } => "assistant",
        Message::Tool { .. } => "tool",
    };
    json!({"role": role, "parts": parts(message)})
}

/// The parts of a message; files are named by type only.
fn parts(message: &Message) -> Vec<Value> {
    let text = |text: &str| json!({"type": "text", "content": text});
    match message {
        Message::System(content) | Message::User(content) => vec![text(content)],
        Message::UserWithFiles {
            text: content,
            files,
        } => {
            let files = files.iter().map(
                |file| json!({"type": "touchstone.file", "mime_type": file.media_type.as_str()}),
            );
            std::iter::once(text(content)).chain(files).collect()
        }
        Message::Assistant {
            text: content,
            tool_calls,
        } => {
            let calls = tool_calls.iter().map(|call| {
                let arguments = match &call.arguments {
                    Ok(arguments) => arguments.clone(),
                    Err(unparsed) => unparsed.as_str().into(),
                };
                json!({"type": "tool_call", "id": call.id, "name": call.tool, "arguments": arguments})
            });
            content.iter().map(|it| text(it)).chain(calls).collect()
        }
        Message::Tool { call_id, content } => {
            vec![json!({"type": "tool_call_response", "id": call_id, "response": content})]
        }
    }
}
