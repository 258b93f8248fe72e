//! Removes characters from a report that could affect the page it is shown on.

use serde_json::Value;

use crate::rules::report::Report;
use touchstone_host::render::words::plain;

/// The same report without characters that control a terminal, change the text direction or are not
/// allowed in a document. Preserves line breaks, because answers have several lines.
///
/// Works on the JSON form, so that no member of the report is missed.
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
