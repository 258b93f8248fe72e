//! The test over HTTP with JSON bodies (A2A 0.3.0 §3.2.3), in the two forms of bodies that are in
//! use.

use serde_json::Value;
use url::Url;

use super::Judgement;
use super::exchange::{Outcome, Reply};
use super::message;

/// The test message in the form of the protobuf mapping, which is tried first.
pub fn message_request(message_id: &str) -> Value {
    message::protobuf_parameters(message_id)
}

/// The test message in the form of the specification, which is tried after certain refusals.
pub fn core_message_request(message_id: &str) -> Value {
    message::parameters(message_id)
}

/// The URL for the test message.
pub fn message_url(interface: &Url) -> Url {
    below_v1(interface, "message:send")
}

/// The URL for a request for an unknown task.
pub fn task_url(interface: &Url, task_id: &str) -> Url {
    below_v1(interface, &format!("tasks/{task_id}"))
}

/// Appends a path below `/v1`, which some cards already have in their URL.
fn below_v1(interface: &Url, path: &str) -> Url {
    let base = interface.path().trim_end_matches('/');
    let base = base.strip_suffix("/v1").unwrap_or(base);
    let mut url = interface.clone();
    url.set_path(&format!("{base}/v1/{path}"));
    url.set_fragment(None);
    url
}

/// Whether the first form may have been refused because of its form.
pub fn wants_core_form(first: &Outcome) -> bool {
    first
        .as_ref()
        .is_ok_and(|reply| matches!(reply.status, 400 | 404 | 415 | 422 | 500))
}

/// The outcome that is judged: the second one if it has an answer.
pub fn counting(first: Outcome, second: Option<Outcome>) -> Outcome {
    match second {
        Some(Ok(reply)) => Ok(reply),
        _ => first,
    }
}

pub fn judge(reply: &Reply) -> Judgement {
    let answer = (reply.status == 200).then(|| reply.json()).flatten();
    let answer = answer.filter(Value::is_object);
    Judgement {
        responds: reply.status < 500,
        works: answer.is_some(),
        structured: answer.as_ref().is_some_and(is_structured),
        typed: reply.status < 500 && reply.media_type().as_deref() == Some("application/json"),
        auth_required: reply.asks_for_credentials(),
    }
}

fn is_structured(answer: &Value) -> bool {
    match (answer.get("message"), answer.get("task")) {
        (Some(message), None) => message::is_any_message(message),
        (None, Some(task)) => message::is_any_task(task),
        (None, None) => message::is_complete_in_any_form(answer),
        (Some(_), Some(_)) => false,
    }
}

/// Whether an answer says that the task does not exist.
pub fn is_error(reply: &Reply) -> bool {
    (400..500).contains(&reply.status) && reply.json().is_some_and(|it| it.is_object())
}
