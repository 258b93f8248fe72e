//! The test over JSON-RPC 2.0 (A2A 0.3.0 §3.2.1, §7.1).

use serde_json::{Value, json};

use super::Judgement;
use super::exchange::Reply;
use super::message;

/// A2A error codes, with which an agent may decline a request it understood (A2A 0.3.0 §8.2).
const A2A_ERRORS: std::ops::RangeInclusive<i64> = -32_007..=-32_001;
/// A method that no agent has.
const UNKNOWN_METHOD: &str = "message/unknownToEveryAgent";

pub fn message_request(request_id: &str, message_id: &str) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": request_id,
        "method": "message/send",
        "params": message::parameters(message_id),
    })
}

/// A request that must fail.
pub fn failing_request(request_id: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": request_id, "method": UNKNOWN_METHOD, "params": {}})
}

pub fn judge(reply: &Reply, request_id: &str) -> Judgement {
    let answer = (reply.status == 200).then(|| reply.json()).flatten();
    let works = answer.as_ref().is_some_and(|it| is_answer(it, request_id));
    let result = answer.as_ref().and_then(|it| it.get("result"));
    Judgement {
        responds: reply.status < 500,
        works,
        structured: works && result.is_some_and(message::is_complete),
        typed: reply.status < 500 && reply.media_type().as_deref() == Some("application/json"),
        auth_required: reply.asks_for_credentials(),
    }
}

fn is_answer(answer: &Value, request_id: &str) -> bool {
    let of_request = answer.get("jsonrpc").and_then(Value::as_str) == Some("2.0")
        && answer.get("id").and_then(Value::as_str) == Some(request_id);
    of_request
        && match (answer.get("result"), answer.get("error")) {
            (Some(result), None) => result.is_object(),
            (None, Some(error)) => error
                .get("code")
                .and_then(Value::as_i64)
                .is_some_and(|code| A2A_ERRORS.contains(&code)),
            _ => false,
        }
}

/// Whether an answer is a JSON-RPC error.
pub fn is_error(reply: &Reply, request_id: &str) -> bool {
    let Some(answer) = reply.json().filter(|_| reply.status < 500) else {
        return false;
    };
    let Some(error) = answer.get("error") else {
        return false;
    };
    error.get("code").is_some_and(Value::is_i64)
        && error.get("message").is_some_and(Value::is_string)
        && answer
            .get("id")
            .is_some_and(|id| id.is_null() || id.as_str() == Some(request_id))
}
