//! Checks the rules against vectors: ours, and every file of a given folder.

use std::path::Path;

use serde_json::Value;

use super::vector::computed;
use crate::support::vectors::{documents, extra};

const TOLERANCE: f64 = 1e-9;

/// Every member that differs from the expectation.
pub fn differences(expected: &Value, found: &Value, path: &str, told: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            let all: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for name in all {
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => differences(a, b, &format!("{path}/{name}"), told),
                    (a, b) => told.push(format!("{path}/{name}: {b:?} instead of {a:?}")),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (place, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{path}/{place}"), told);
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            if (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() > TOLERANCE {
                told.push(format!("{path}: {b} instead of {a}"));
            }
        }
        (a, b) if a == b => {}
        (a, b) => told.push(format!("{path}: {b} instead of {a}")),
    }
}

/// Sorts projections by id, because they are sets.
fn sorted(mut document: Value) -> Value {
    if let Some(Value::Array(events)) = document.get_mut("events") {
        events.sort_by_key(|event| event["id"].as_str().unwrap_or_default().to_owned());
    }
    document
}

/// Checks a document; `false` if it is not a vector of these rules.
fn check(path: &Path, vector: &Value) -> bool {
    let kind = vector["kind"].as_str().unwrap_or_default();
    let Some(found) = computed(kind, &vector["input"]) else {
        return false;
    };
    let mut told = Vec::new();
    differences(
        &sorted(vector["expected"].clone()),
        &sorted(found),
        "",
        &mut told,
    );
    assert!(
        told.is_empty(),
        "{}:\n  {}",
        path.display(),
        told.join("\n  ")
    );
    true
}

fn check_folder(folder: &Path) -> (usize, Vec<String>) {
    let (mut held, mut foreign) = (0, Vec::new());
    for (path, vector) in documents(folder) {
        if check(&path, &vector) {
            held += 1;
        } else {
            foreign.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    (held, foreign)
}

#[test]
fn scoring_rules_match_the_reference_vectors() {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/ratings/vectors");
    let (held, foreign) = check_folder(&ours);
    assert!(held >= 50, "only {held} vectors were found");
    assert!(foreign.is_empty(), "unknown kinds: {foreign:?}");
    if let Some(folder) = extra() {
        let (held, foreign) = check_folder(&folder);
        eprintln!(
            "{held} further vectors hold; about something else: {}",
            foreign.join(", ")
        );
    }
}
