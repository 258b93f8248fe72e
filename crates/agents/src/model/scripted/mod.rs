//! A model that answers from a script, for tests, demos and the conformance kit's stub agent. It is
//! not an LLM.
//!
//! A script is a list of rules; the first rule that matches a task answers it, turn by turn. The
//! turn number is derived from the conversation, so the model has no state and a task always gets
//! the same answers, in whatever order tasks run. The only exception is `failFirst`, which counts
//! the calls of its rule. The format is described in `docs/scripted-models.md`.

pub mod script;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::ports::model::{Model, ModelError, ModelInfo};
use crate::rules::{
    Message, ModelReply, ModelRequest, Rejection, TokenUsage, ToolCall, usage_from_size,
};
use touchstone_kit::json::parse_written;

use crate::model::scripted::script::{Condition, Echo, Fault, Rule, Turn};
pub use crate::model::scripted::script::{Error, Script};

#[derive(Debug)]
pub struct ScriptedModel {
    rules: Vec<(Rule, AtomicU32)>,
    info: ModelInfo,
}

impl ScriptedModel {
    pub fn new(script: Script, info: ModelInfo) -> Self {
        let rules = script
            .rules
            .into_iter()
            .map(|rule| (rule, AtomicU32::new(0)))
            .collect();
        Self { rules, info }
    }
}

#[async_trait]
impl Model for ScriptedModel {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let found = self
            .rules
            .iter()
            .find(|(rule, _)| fits(&rule.when, request));
        let Some((rule, calls)) = found else {
            return Err(ModelError::unavailable("no_scripted_answer", false));
        };
        if let Some(fault) = &rule.fail_first {
            // Saturates instead of wrapping, so that a rule that has failed often enough keeps
            // succeeding.
            let failed = calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < fault.times).then_some(n + 1)
            });
            if failed.is_ok() {
                return Err(error_of(&fault.fail));
            }
        }
        if let Some(echo) = &rule.echo {
            return Ok(echoed(echo, request).await);
        }
        let at = request
            .messages
            .iter()
            .filter(|message| matches!(message, Message::Assistant { .. }))
            .count();
        let turn = rule.turns.get(at).or(rule.turns.last());
        match turn {
            Some(turn) => reply_of_turn(turn, at, request).await,
            None => Err(ModelError::unavailable("no_scripted_answer", false)),
        }
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}

fn fits(when: &Condition, request: &ModelRequest<'_>) -> bool {
    let task = request.task.as_ref();
    when.task_id
        .as_ref()
        .is_none_or(|id| task.is_some_and(|task| task.id.as_str() == id))
        && when
            .input
            .as_ref()
            .is_none_or(|input| task.is_some_and(|task| task.input == input))
        && when
            .contains
            .as_ref()
            .is_none_or(|part| last_user(request).is_some_and(|text| text.contains(part.as_str())))
}

fn last_user<'a>(request: &'a ModelRequest<'_>) -> Option<&'a str> {
    request.messages.iter().rev().find_map(|m| match m {
        Message::User(text) | Message::UserWithFiles { text, .. } => Some(&**text),
        _ => None,
    })
}

async fn echoed(echo: &Echo, request: &ModelRequest<'_>) -> ModelReply {
    let input = request.task.as_ref().map(|task| task.input);
    let at = |pointer: &str| input.and_then(|input| input.pointer(pointer));
    let delay = echo
        .delay_ms
        .as_deref()
        .and_then(at)
        .and_then(Value::as_f64)
        .and_then(|millis| Duration::try_from_secs_f64(millis / 1000.0).ok());
    pause(delay.unwrap_or_default()).await;
    let mut reply = ModelReply {
        text: at(&echo.output).map(|value| as_text(value).into_owned()),
        ..ModelReply::default()
    };
    reply.usage = Some(counted(request, &reply));
    reply
}

async fn reply_of_turn(
    turn: &Turn,
    at: usize,
    request: &ModelRequest<'_>,
) -> Result<ModelReply, ModelError> {
    pause(Duration::from_millis(turn.delay_ms)).await;
    if let Some(fault) = &turn.fail {
        return Err(error_of(fault));
    }
    let text = match &turn.output {
        Some(output) => Some(output.to_string()),
        None => turn.text.clone(),
    };
    let tool_calls = turn
        .tool_calls
        .iter()
        .enumerate()
        .map(|(n, call)| ToolCall {
            id: format!("call_{at}_{n}"),
            tool: call.tool.clone(),
            arguments: match &call.raw_arguments {
                Some(raw) => parse_written(raw).ok_or_else(|| raw.clone()),
                None => Ok(call.arguments.clone()),
            },
        });
    let mut reply = ModelReply {
        text,
        tool_calls: tool_calls.collect(),
        refused: turn.refused,
        truncated: turn.truncated,
        ..ModelReply::default()
    };
    reply.usage = Some(match turn.usage {
        Some(usage) => TokenUsage {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cached_input: usage.cached_input_tokens,
        },
        None => counted(request, &reply),
    });
    Ok(reply)
}

/// Usage for a script that names none: one token per four bytes, without the request's wire format.
fn counted(request: &ModelRequest<'_>, reply: &ModelReply) -> TokenUsage {
    let bytes = request.messages.iter().map(|message| match message {
        Message::System(text) | Message::User(text) | Message::UserWithFiles { text, .. } => {
            text.len()
        }
        Message::Assistant { text, .. } => text.as_ref().map_or(0, String::len),
        Message::Tool { content, .. } => content.len(),
    });
    usage_from_size(bytes.sum(), reply)
}

fn as_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

fn error_of(fault: &Fault) -> ModelError {
    match fault {
        Fault::ContextOverflow => ModelError::Rejected {
            reason: Rejection::ContextOverflow,
        },
        Fault::ContentFilter => ModelError::Rejected {
            reason: Rejection::ContentFilter,
        },
        Fault::Unavailable => ModelError::unavailable("status_503", true),
        Fault::RateLimited => ModelError::unavailable("rate_limited", true),
        Fault::Unauthorized => ModelError::unavailable("unauthorized", false),
    }
}
