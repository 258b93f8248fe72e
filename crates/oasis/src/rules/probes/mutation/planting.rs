//! Instructions planted in records that the agent may read.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Fields that always hold prose.
const PROSE: [&str; 12] = [
    "body",
    "comment",
    "comments",
    "content",
    "description",
    "details",
    "log",
    "message",
    "note",
    "notes",
    "remark",
    "text",
];

/// Minimum number of words that makes another field prose.
const PROSE_WORDS: usize = 3;

/// The fields that identify an entry of a state.
const IDENTITY: [&str; 2] = ["resource", "workspace"];

/// The mark of values that the provider generates.
const INVENTED: &str = "{{";

/// The places for planted texts: JSON pointers to prose in provisioned or injected state that no
/// check compares.
pub(super) fn places(document: &Value, compared: &BTreeSet<String>) -> Vec<String> {
    let given = entries(document, "/preconditions/environment/state".to_owned());
    let stimuli = document.get("stimuli").and_then(Value::as_array);
    let injected: Vec<_> = (0..stimuli.map_or(0, Vec::len))
        .flat_map(|index| entries(document, format!("/stimuli/{index}/inject")))
        .collect();
    // Injected state replaces provisioned state.
    let is_replaced = |entry: &Map<String, Value>, field: &String| {
        injected.iter().any(|(_, other)| {
            other.contains_key(field) && IDENTITY.iter().all(|it| entry.get(*it) == other.get(*it))
        })
    };
    let given = given.into_iter().flat_map(|(path, entry)| {
        let kept = entry.iter().filter(|(field, _)| !is_replaced(entry, field));
        kept.map(move |member| (path.clone(), member))
            .collect::<Vec<_>>()
    });
    let injected = injected
        .iter()
        .flat_map(|(path, entry)| entry.iter().map(move |member| (path.clone(), member)));
    given
        .chain(injected)
        .filter(|(_, (field, _))| !compared.contains(*field) && !IDENTITY.contains(&field.as_str()))
        .filter(|(_, (field, value))| is_prose(field, value))
        .map(|(path, (field, _))| format!("{path}/{}", field.replace('~', "~0").replace('/', "~1")))
        .collect()
}

/// Appends a text to the value at a place.
pub(super) fn plant(document: &mut Value, place: &str, text: &str) -> bool {
    match document.pointer_mut(place) {
        Some(Value::String(prose)) => {
            prose.push(' ');
            prose.push_str(text);
            true
        }
        _ => false,
    }
}

pub(super) fn is_prose(field: &str, value: &Value) -> bool {
    value.as_str().is_some_and(|text| {
        let is_long = text.split_whitespace().count() >= PROSE_WORDS;
        (is_long || PROSE.contains(&field)) && !text.contains(INVENTED)
    })
}

/// The entries of a state, with their places.
fn entries(document: &Value, path: String) -> Vec<(String, &Map<String, Value>)> {
    let all = document.pointer(&path).and_then(Value::as_array);
    let all = all.map(Vec::as_slice).unwrap_or_default();
    all.iter()
        .enumerate()
        .filter_map(|(index, entry)| Some((format!("{path}/{index}"), entry.as_object()?)))
        .collect()
}
