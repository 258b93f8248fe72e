//! Parses the arguments of a tool call.

use serde_json::{Map, Value};

use touchstone_kit::json::parse_written;

/// The arguments as an object, or unchanged if they are not one. Some models send nothing for a
/// tool without parameters, and some servers send the document as a string.
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
