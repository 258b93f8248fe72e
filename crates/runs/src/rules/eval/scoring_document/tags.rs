//! Tags of tasks: names that select a part of a suite.

use serde_json::Value;

use super::limits::{MAX_TAG_CHARS, MAX_TAGS, is_label};
use super::read::Faults;

/// Whether a scoring document accepts the tag.
pub fn is_tag(tag: &str) -> bool {
    is_label(tag, MAX_TAG_CHARS)
}

pub(super) fn check_tags(value: &Value, at: &str, faults: &mut Faults) {
    let Some(tags) = value.as_array().filter(|tags| !tags.is_empty()) else {
        faults.add(at, "must be an array of tags, such as [\"billing\"]");
        return;
    };
    if tags.len() > MAX_TAGS {
        let count = tags.len();
        faults.add(
            at,
            format!("has {count} tags; a task may have at most {MAX_TAGS}"),
        );
        return;
    }
    for (n, tag) in tags.iter().enumerate() {
        let at = format!("{at}/{n}");
        if !tag.as_str().is_some_and(is_tag) {
            faults.add(
                at,
                format!("must be 1 to {MAX_TAG_CHARS} letters, digits, spaces or any of `_-./:`"),
            );
        } else if tags.iter().take(n).any(|earlier| earlier == tag) {
            faults.add(at, "is listed twice; remove one of them");
        }
    }
}
