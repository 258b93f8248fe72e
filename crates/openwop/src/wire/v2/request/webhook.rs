//! Requests about webhook subscriptions.

use serde_json::Value;

use super::closed;
use crate::wire::v2::names;
use crate::wire::v2::translation::{Refusal, invalid};

const MEMBERS: &[&str] = &["url", "events", "secret", "tags", "signatureAlgorithms"];

/// A registration with the inner names of its event types.
pub fn register(body: Value) -> Result<Value, Refusal> {
    let mut body = closed(body, MEMBERS)?;
    if let Some(Value::Array(events)) = body.get_mut("events") {
        for event in events {
            if let Value::String(name) = event {
                let stored = names::stored(name);
                let unknown =
                    "must contain registered event types of OpenWOP v2, such as run.completed";
                *name = stored.ok_or_else(|| invalid("events", unknown))?.to_owned();
            }
        }
    }
    Ok(body)
}
