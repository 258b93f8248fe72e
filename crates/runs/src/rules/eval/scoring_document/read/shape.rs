//! The members of a document, before it is deserialized: unknown ones are named with the nearest
//! known one, and every fault has its place.

use serde_json::{Map, Value};

use super::faults::{Faults, escaped, in_words, nearest};
use crate::rules::eval::scoring_document::attachments::{AttachmentReference, MAX_FILES};
use crate::rules::eval::scoring_document::checks::TYPES;
use crate::rules::eval::scoring_document::limits::{MAX_ASSERTIONS, MAX_NESTING};
use crate::rules::eval::scoring_document::tags::check_tags;
use crate::rules::eval::scoring_document::{Assertion, Conversation, VERSION};

const DOCUMENT: [&str; 4] = ["scoringVersion", "suiteId", "defaults", "tasks"];
const ENTRY: [&str; 2] = ["assertions", "threshold"];
const TASK_ENTRY: [&str; 5] = ["assertions", "threshold", CONVERSATION, ATTACHMENTS, TAGS];
const CONVERSATION: &str = "conversation";
const ATTACHMENTS: &str = "attachments";
const TAGS: &str = "tags";
/// Members that leave a task its expectation in the suite if there are no assertions.
const BESIDE_SCORING: [&str; 3] = [CONVERSATION, ATTACHMENTS, TAGS];
const COMMON: [&str; 6] = ["type", "not", "weight", "metric", "on", "turn"];

pub fn check_shape(value: &Value, faults: &mut Faults) {
    let Some(members) = object(value, "", faults) else {
        return;
    };
    known_members(members, "", &DOCUMENT, faults);
    match members.get("scoringVersion") {
        Some(version) if version.as_u64() == Some(VERSION) => {}
        Some(_) => faults.add("/scoringVersion", "must be 1"),
        None => faults.add("", "has no `scoringVersion`; add `\"scoringVersion\": 1`"),
    }
    if !members.get("suiteId").is_some_and(Value::is_string) {
        faults.add(
            "",
            "needs `suiteId`, the id of the suite whose tasks it scores",
        );
    }
    if let Some(defaults) = members.get("defaults") {
        check_entry(defaults, "/defaults", &ENTRY, faults);
    }
    if let Some(tasks) = members.get("tasks")
        && let Some(tasks) = object(tasks, "/tasks", faults)
    {
        for (id, entry) in tasks {
            check_entry(
                entry,
                &format!("/tasks/{}", escaped(id)),
                &TASK_ENTRY,
                faults,
            );
        }
    }
}

fn object<'a>(value: &'a Value, at: &str, faults: &mut Faults) -> Option<&'a Map<String, Value>> {
    if !value.is_object() {
        faults.add(at, "must be an object");
    }
    value.as_object()
}

fn known_members(members: &Map<String, Value>, at: &str, known: &[&str], faults: &mut Faults) {
    for name in members
        .keys()
        .filter(|name| !known.contains(&name.as_str()))
    {
        let near = nearest(name, known.iter().copied());
        let hint = near.map_or_else(
            || format!("use only {}", listed(known)),
            |near| format!("did you mean `{near}`?"),
        );
        faults.add(
            format!("{at}/{}", escaped(name)),
            format!("is not a known member; {hint}"),
        );
    }
}

fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

fn check_entry(value: &Value, at: &str, known: &[&str], faults: &mut Faults) {
    let Some(members) = object(value, at, faults) else {
        return;
    };
    known_members(members, at, known, faults);
    if let Some(conversation) = members.get(CONVERSATION) {
        check_conversation(conversation, &format!("{at}/{CONVERSATION}"), faults);
    }
    if let Some(attachments) = members.get(ATTACHMENTS) {
        check_attachments(attachments, &format!("{at}/{ATTACHMENTS}"), faults);
    }
    if let Some(tags) = members.get(TAGS) {
        check_tags(tags, &format!("{at}/{TAGS}"), faults);
    }
    let has_more = BESIDE_SCORING
        .iter()
        .any(|name| members.contains_key(*name));
    if !members.contains_key("assertions") && has_more {
        if members.contains_key("threshold") {
            faults.add(format!("{at}/threshold"), "needs `assertions`");
        }
        return;
    }
    if !members.get("threshold").is_none_or(Value::is_number) {
        faults.add(format!("{at}/threshold"), "must be a number from 0 to 1");
    }
    check_list(members.get("assertions"), at, 0, faults);
}

fn check_conversation(value: &Value, at: &str, faults: &mut Faults) {
    let Some(members) = object(value, at, faults) else {
        return;
    };
    let before = faults.all.len();
    known_members(members, at, &["messages", "turns", "user"], faults);
    if let Some(Value::Object(user)) = members.get("user") {
        let known = ["goal", "persona", "opens", "stop", "maxTurns", "maxCostUsd"];
        known_members(user, &format!("{at}/user"), &known, faults);
    }
    if faults.all.len() > before {
        return;
    }
    match serde_json::from_value::<Conversation>(value.clone()) {
        Err(error) => faults.add(at, in_words(&error)),
        Ok(conversation) => {
            for (member, reason) in conversation.faults() {
                faults.add(format!("{at}{member}"), reason);
            }
        }
    }
}

fn check_attachments(value: &Value, at: &str, faults: &mut Faults) {
    let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
        faults.add(
            at,
            "must be an array of files with `path`, `sha256` and `mediaType`",
        );
        return;
    };
    if items.len() > MAX_FILES {
        let count = items.len();
        faults.add(
            at,
            format!("has {count} files; at most {MAX_FILES} are possible"),
        );
        return;
    }
    for (n, item) in items.iter().enumerate() {
        let at = format!("{at}/{n}");
        let Some(members) = object(item, &at, faults) else {
            continue;
        };
        let before = faults.all.len();
        known_members(members, &at, &["path", "sha256", "mediaType"], faults);
        if faults.all.len() > before {
            continue;
        }
        match serde_json::from_value::<AttachmentReference>(item.clone()) {
            Err(error) => faults.add(at, in_words(&error)),
            Ok(reference) => {
                for (member, reason) in reference.faults() {
                    faults.add(format!("{at}/{member}"), reason);
                }
            }
        }
    }
}

fn check_list(value: Option<&Value>, at: &str, depth: usize, faults: &mut Faults) {
    let at = format!("{at}/assertions");
    let Some(items) = value.and_then(Value::as_array) else {
        faults.add(at, "must be an array of assertions");
        return;
    };
    if items.len() > MAX_ASSERTIONS {
        faults.add(at, format!("has more than {MAX_ASSERTIONS} assertions"));
        return;
    }
    if depth > MAX_NESTING {
        faults.add(at, format!("is nested deeper than {MAX_NESTING} levels"));
        return;
    }
    for (n, item) in items.iter().enumerate() {
        check_assertion(item, &format!("{at}/{n}"), depth, faults);
    }
}

fn check_assertion(value: &Value, at: &str, depth: usize, faults: &mut Faults) {
    let Some(members) = object(value, at, faults) else {
        return;
    };
    let Some(name) = members.get("type").and_then(Value::as_str) else {
        faults.add(at, "needs `type`, such as \"contains\"");
        return;
    };
    if !TYPES.contains(&name) {
        let near = nearest(name, TYPES.into_iter());
        let hint = near.map_or_else(
            || "docs/assertions.md lists all types".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        let unknown: String = name.chars().take(40).collect();
        faults.add(
            format!("{at}/type"),
            format!("`{unknown}` is not a type of assertion; {hint}"),
        );
        return;
    }
    let before = faults.all.len();
    if matches!(name, "all" | "any" | "none") {
        check_list(members.get("assertions"), at, depth + 1, faults);
    }
    if matches!(name, "expected" | "refusal") {
        known_members(members, at, &COMMON, faults);
    }
    if faults.all.len() == before
        && let Err(error) = serde_json::from_value::<Assertion>(value.clone())
    {
        faults.add(at, format!("`{name}`: {}", in_words(&error)));
    }
}
