//! Messages and tasks in answers (A2A 0.3.0 §6), in the form of the specification and in that of
//! its protobuf mapping.

use serde_json::{Value, json};

use super::{ACCEPTED_OUTPUT, TEST_TEXT};
use crate::rules::document::{items, text};

/// Task states (A2A 0.3.0 §6.3).
const STATES: [&str; 9] = [
    "submitted",
    "working",
    "input-required",
    "completed",
    "canceled",
    "failed",
    "rejected",
    "auth-required",
    "unknown",
];
/// Task states in the protobuf mapping.
const PROTOBUF_STATES: [&str; 8] = [
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_CANCELLED",
    "TASK_STATE_FAILED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
];

/// The parameters of the test message, in the form of the specification.
pub fn parameters(message_id: &str) -> Value {
    json!({
        "message": {
            "kind": "message",
            "messageId": message_id,
            "role": "user",
            "parts": [{"kind": "text", "text": TEST_TEXT}],
        },
        "configuration": configuration(),
    })
}

/// The parameters of the test message, in the form of the protobuf mapping.
pub fn protobuf_parameters(message_id: &str) -> Value {
    json!({
        "message": {
            "messageId": message_id,
            "role": "ROLE_USER",
            "content": [{"text": TEST_TEXT}],
        },
        "configuration": configuration(),
    })
}

fn configuration() -> Value {
    json!({"acceptedOutputModes": [ACCEPTED_OUTPUT], "blocking": true})
}

/// Whether a value is a complete message of an agent or a complete task, in the form of the
/// specification.
pub fn is_complete(value: &Value) -> bool {
    is_message(value) || is_task(value, &STATES)
}

/// Whether a value is a complete message of an agent or a complete task, in either form.
pub fn is_complete_in_any_form(value: &Value) -> bool {
    is_any_message(value) || is_any_task(value)
}

/// Whether a value is a complete message of an agent, in either form.
pub fn is_any_message(value: &Value) -> bool {
    is_message(value) || is_protobuf_message(value)
}

/// Whether a value is a complete task, in either form.
pub fn is_any_task(value: &Value) -> bool {
    is_task(value, &STATES) || is_task(value, &PROTOBUF_STATES)
}

fn is_message(value: &Value) -> bool {
    is_of_kind(value, "message")
        && value.get("role").and_then(Value::as_str) == Some("agent")
        && text(value.get("messageId")).is_some()
        && every(items(value.get("parts")), is_part)
}

fn is_protobuf_message(value: &Value) -> bool {
    value.get("role").and_then(Value::as_str) == Some("ROLE_AGENT")
        && text(value.get("messageId")).is_some()
        && every(items(value.get("content")), is_protobuf_part)
}

fn is_task(value: &Value, states: &[&str]) -> bool {
    let state = value.get("status").and_then(|it| it.get("state"));
    is_of_kind(value, "task")
        && text(value.get("id")).is_some()
        && text(value.get("contextId")).is_some()
        && state
            .and_then(Value::as_str)
            .is_some_and(|state| states.contains(&state))
}

fn is_of_kind(value: &Value, kind: &str) -> bool {
    value.get("kind").is_none_or(|it| it.as_str() == Some(kind))
}

fn every(parts: &[Value], is: fn(&Value) -> bool) -> bool {
    !parts.is_empty() && parts.iter().all(is)
}

fn is_part(part: &Value) -> bool {
    let string = |value: &Value, name: &str| value.get(name).is_some_and(Value::is_string);
    match part.get("kind").and_then(Value::as_str) {
        Some("text") => string(part, "text"),
        Some("file") => part
            .get("file")
            .is_some_and(|file| string(file, "bytes") || string(file, "uri")),
        Some("data") => part.get("data").is_some_and(Value::is_object),
        _ => false,
    }
}

fn is_protobuf_part(part: &Value) -> bool {
    let string = |value: &Value, name: &str| value.get(name).is_some_and(Value::is_string);
    string(part, "text")
        || part
            .get("file")
            .is_some_and(|file| string(file, "fileWithBytes") || string(file, "fileWithUri"))
        || part
            .get("data")
            .and_then(|it| it.get("data"))
            .is_some_and(Value::is_object)
}
