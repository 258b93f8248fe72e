//! Checks the four specifications as printed: their requests are sent, their responses are compared
//! with ours, their commands are run.

mod cards;
mod commands;
mod oasis;
mod openwop;
mod ratings;
mod template;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Every printed body, event, response, format and command: its specification and section, its
/// description, and its file below `tests/fixtures/specifications`.
const INVENTORY: [(&str, &str, &str); 25] = [
    ("AAAF 4.5", "the badge", "aaaf/badge.answer.json"),
    (
        "AAAF 6.2",
        "the paths of organizations, agents, events, assessments, badges, appeals, configuration and webhooks",
        "aaaf/endpoints.txt",
    ),
    (
        "AAAF 6.2",
        "POST organizations",
        "aaaf/organization.request.json",
    ),
    (
        "AAAF 6.2",
        "POST organizations, 201",
        "aaaf/organization.answer.json",
    ),
    ("AAAF 6.2", "POST agents", "aaaf/agent.request.json"),
    ("AAAF 6.2", "POST agents, 201", "aaaf/agent.answer.json"),
    ("AAAF 6.2", "POST events", "aaaf/event.request.json"),
    ("AAAF 6.2", "POST events/batch", "aaaf/batch.request.json"),
    (
        "AAAF 6.2",
        "POST events/batch, 201",
        "aaaf/batch.answer.json",
    ),
    (
        "AAAF 6.2",
        "the types of events with their fields",
        "aaaf/event-types.json",
    ),
    (
        "AAAF 6.2",
        "POST assessments",
        "aaaf/assessment.request.json",
    ),
    (
        "AAAF 6.2",
        "POST assessments, 202",
        "aaaf/assessment.accepted.json",
    ),
    (
        "AAAF 6.2",
        "GET assessments/{assessment_id}",
        "aaaf/assessment.answer.json",
    ),
    (
        "AAAF 6.2",
        "GET badges/{assessment_id}/verify",
        "aaaf/verify.answer.json",
    ),
    ("AAAF 6.2", "POST appeals", "aaaf/appeal.request.json"),
    (
        "AAAF 6.3",
        "the types of webhook events",
        "aaaf/webhook-events.json",
    ),
    (
        "AAAF 6.3",
        "the payload of a webhook",
        "aaaf/webhook.delivery.json",
    ),
    ("AAAF 6.4", "an error", "aaaf/insufficient.error.json"),
    ("AAAF 8", "the commands", "aaaf/commands.txt"),
    (
        "Agent-card scoring, Using Scores",
        "the commands",
        "cards/commands.txt",
    ),
    (
        "Agent-card scoring, Python API",
        "the members that programs read",
        "cards/result.json",
    ),
    (
        "OASIS 1 and 1.1",
        "the verdict and the observation",
        "oasis/formats.json",
    ),
    ("RFC 0081 A", "the suite", "openwop/suite.json"),
    ("RFC 0081 B", "POST /v1/runs", "openwop/run.request.json"),
    (
        "RFC 0081 C and D",
        "the events, the summary and the capability",
        "openwop/formats.json",
    ),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/specifications")
}

/// The printed text, unchanged.
fn printed(file: &str) -> String {
    assert!(
        INVENTORY.iter().any(|(_, _, listed)| *listed == file),
        "{file} is not in the inventory"
    );
    std::fs::read_to_string(folder().join(file)).unwrap()
}

/// The printed text with placeholders replaced. Only these are replaced:
///
/// - ids and keys, which the host generates and a client cannot choose: `org_uuid`, `agent_uuid`,
///   `assessment_uuid`, `uuid-of-…`, `ak_...`, and in paths and commands `{org_id}`, `<agent_name>`
///   and similar placeholders
/// - `...` for the suite and the agent of a run
/// - the program names `python cli.py` and `capiscio`
/// - `https://agent.example.com`, replaced by an agent on loopback
fn with_ids(file: &str, ids: &[(&str, &str)]) -> String {
    let text = printed(file);
    ids.iter().fold(text, |text, (printed, minted)| {
        text.replace(printed, minted)
    })
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn text(of: &Value) -> String {
    of.as_str().unwrap_or_else(|| panic!("{of}")).to_owned()
}

fn moment(of: &Value) -> Option<jiff::Timestamp> {
    of.as_str()?.parse().ok()
}

const fn kind(of: &Value) -> &'static str {
    match of {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Lists printed members that our document lacks or that have another type.
fn differences(at: &str, printed: &Value, ours: &Value, found: &mut Vec<String>) {
    match (printed, ours) {
        (Value::Object(printed), Value::Object(ours)) => {
            for (name, value) in printed {
                let at = format!("{at}/{name}");
                match ours.get(name) {
                    Some(own) => differences(&at, value, own, found),
                    None => found.push(format!("{at} is missing")),
                }
            }
        }
        (Value::Array(printed), Value::Array(ours)) => {
            if printed.len() > ours.len() {
                found.push(format!("{at} has {} entries", ours.len()));
            }
            for (n, (value, own)) in printed.iter().zip(ours).enumerate() {
                differences(&format!("{at}/{n}"), value, own, found);
            }
        }
        _ if kind(printed) != kind(ours) => found.push(format!("{at} is {}", kind(ours))),
        _ if moment(printed).is_some() && moment(ours).is_none() => {
            found.push(format!("{at} is not a time"));
        }
        _ => {}
    }
}

/// Fails unless our document has every printed member with the printed type, and the printed value
/// at each of these pointers.
fn assert_as_printed(printed: &Value, ours: &Value, same: &[&str]) {
    let mut found = Vec::new();
    differences("", printed, ours, &mut found);
    assert!(found.is_empty(), "{found:?} in {ours:#}");
    for place in same {
        let [stated, own] = [printed, ours].map(|it| it.pointer(place).unwrap());
        match (moment(stated), moment(own)) {
            (Some(stated), Some(own)) => assert_eq!(own, stated, "{place}"),
            _ => assert_eq!(own, stated, "{place}"),
        }
    }
}

/// All files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let all = paths.map(|path| match path.is_dir() {
        true => files_below(&path),
        false => vec![path],
    });
    all.flatten().collect()
}

#[test]
fn the_inventory_lists_every_file_once() {
    let root = folder();
    let found: BTreeSet<String> = files_below(&root)
        .iter()
        .map(|path| path.strip_prefix(&root).unwrap().display().to_string())
        .collect();
    let listed: BTreeSet<String> = INVENTORY
        .iter()
        .map(|(_, _, file)| (*file).to_owned())
        .collect();
    assert_eq!(found, listed);
    assert_eq!(listed.len(), INVENTORY.len());
}

#[test]
fn differences_from_the_printed_text_are_found() {
    let printed = serde_json::json!({"id": "a", "at": "2026-04-16T12:00:00Z", "all": [{"n": 1}]});
    for (ours, fault) in [
        (
            serde_json::json!({"id": "b", "at": "2026-04-17T12:00:00Z", "all": [{"n": 2, "more": 1}]}),
            None,
        ),
        (
            serde_json::json!({"id": "a", "at": "noon", "all": [{"n": 1}]}),
            Some("/at is not a time"),
        ),
        (
            serde_json::json!({"id": "a", "at": "2026-04-16T12:00:00Z", "all": []}),
            Some("/all has 0 entries"),
        ),
        (
            serde_json::json!({"at": "2026-04-16T12:00:00Z", "all": [{"n": 1}]}),
            Some("/id is missing"),
        ),
        (
            serde_json::json!({"id": "a", "at": "2026-04-16T12:00:00Z", "all": [{"n": "1"}]}),
            Some("/all/0/n is a text"),
        ),
    ] {
        let mut found = Vec::new();
        differences("", &printed, &ours, &mut found);
        assert_eq!(found.first().map(String::as_str), fault, "{ours}");
    }
}
