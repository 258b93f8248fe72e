//! The arguments of a tool call, as servers send them.

use serde_json::{Map, Value};

use crate::protocol::json::parse_written;

/// The arguments as an object, or as they came if they are none. Some models call a tool without parameters with nothing,
/// and some servers send the document as a text.
pub fn read_arguments(arguments: Option<Value>) -> Result<Value, String> {
    match arguments {
        None | Some(Value::Null) => Ok(Value::Object(Map::new())),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(Value::Object(Map::new())),
        Some(Value::String(text)) => match parse_written(&text) {
            Some(Value::Null) => Ok(Value::Object(Map::new())),
            Some(value @ Value::Object(_)) => Ok(value),
            _ => Err(text),
        },
        Some(value @ Value::Object(_)) => Ok(value),
        Some(other) => Err(other.to_string()),
    }
}
