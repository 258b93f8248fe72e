//! Takes out of a report whatever could act on the page it is shown on, wherever it stands.

use serde_json::Value;

use crate::domain::oasis::report::Report;
use crate::render::plain;

/// The same report without characters that control a terminal, turn the direction of text, or have no place in a document.
/// Line ends stay: answers have several lines.
///
/// It goes through JSON, so that no member of the report can be forgotten.
pub fn legible(report: &Report) -> Result<Report, serde_json::Error> {
    serde_json::from_value(cleaned(serde_json::to_value(report)?))
}

fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(lines(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(cleaned).collect()),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (lines(&name), cleaned(value)))
            .collect(),
        other => other,
    }
}

fn lines(text: &str) -> String {
    let each: Vec<String> = text
        .split('\n')
        .map(|line| plain(line).replace(['\u{fffe}', '\u{ffff}'], " "))
        .collect();
    each.join("\n")
}
