//! Tags of tasks in documents of other tools.

use serde_json::{Map, Value};

use super::draft::Draft;
use super::rows;
use super::table::structured;
use crate::rules::eval::scoring_document::limits::MAX_TAGS;
use crate::rules::eval::scoring_document::tags::is_tag;

/// Takes the tags from the first of the columns that has any: a list of strings, or one string that
/// separates them by commas. Anything else stays where it is.
pub fn take(
    members: &mut Map<String, Value>,
    columns: &[&str],
    place: &str,
    draft: &mut Draft,
) -> Vec<String> {
    for column in columns {
        let mut rest = members.clone();
        let Some(value) = rows::take(&mut rest, column) else {
            continue;
        };
        if let Some(found) = read(value) {
            *members = rest;
            return usable(found, place, draft);
        }
    }
    Vec::new()
}

fn read(value: Value) -> Option<Vec<String>> {
    match structured(value) {
        Value::String(text) => Some(text.split(',').map(str::to_owned).collect()),
        Value::Array(items) => items
            .into_iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect(),
        _ => None,
    }
}

/// The tags that a scoring document accepts, each once.
fn usable(found: Vec<String>, place: &str, draft: &mut Draft) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for tag in found {
        let tag = tag.trim();
        if tag.is_empty() || tags.iter().any(|known| known == tag) {
            continue;
        }
        if !is_tag(tag) {
            draft.report_loss(
                place,
                "a tag that is too long, or has other characters than letters, digits, spaces and \
                 `_-./:`",
            );
        } else if tags.len() == MAX_TAGS {
            draft.report_loss(place, format!("tags after the first {MAX_TAGS} of a task"));
        } else {
            tags.push(tag.to_owned());
        }
    }
    tags
}
