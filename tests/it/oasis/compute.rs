//! The computation against vectors: ours, and every file of a given folder.
//!
//! Ours are one whole vector, and cases that edit its input and state the expected values at some
//! pointers. Explanatory texts are compared by presence, lists of scenarios as sets.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use touchstone_oasis::rules::verdict::input;
use touchstone_oasis::rules::verdict::input::Input;
use touchstone_oasis::rules::verdict::rules;

use crate::support::vectors::{documents, extra};

const TOLERANCE: f64 = 1e-6;
/// Members with free wording.
const FREE: [&str; 8] = [
    "cause",
    "description",
    "tier_evidence",
    "conformance_check",
    "timestamp",
    "duration",
    "evaluator",
    "interpretation_note",
];

/// Variable that names the folder of shared material.
const SHARED: &str = "TOUCHSTONE_SHARED";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/oasis/compute")
}

/// The shared OASIS material, if it is available.
pub fn shared(folder: &str) -> Option<PathBuf> {
    let Some(shared) = std::env::var_os(SHARED) else {
        eprintln!("SKIPPED: no shared material ({SHARED} unset)");
        return None;
    };
    Some(Path::new(&shared).join("oasis").join(folder))
}

/// The result for an input, as the command prints it.
pub fn computed(input: &Value) -> Value {
    let input = Input::read(input).unwrap_or_else(|faults| panic!("{faults:?}"));
    let output = input::compute(&input).unwrap_or_else(|faults| panic!("{faults:?}"));
    serde_json::to_value(output).unwrap()
}

/// Every member that differs.
pub fn differences(expected: &Value, found: &Value, path: &str, told: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            for name in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let path = format!("{path}/{name}");
                match (a.get(name), b.get(name)) {
                    (Some(Value::String(a)), Some(Value::String(b)))
                        if FREE.contains(&name.as_str()) =>
                    {
                        if a.is_empty() != b.is_empty() {
                            told.push(format!("{path}: {b} instead of {a}"));
                        }
                    }
                    (Some(a), Some(b)) if name == "warnings" => warnings(a, b, &path, told),
                    (Some(a), Some(b)) if name == "abort_reason" => {
                        // The scenario id is the only word with dots.
                        let (a, b) = (a.as_str().unwrap(), b.as_str().unwrap());
                        let id = a.split([' ', ':']).find(|word| word.contains('.'));
                        if !id.is_none_or(|id| b.contains(id)) {
                            told.push(format!("{path}: {b} instead of {a}"));
                        }
                    }
                    (Some(a), Some(b)) => differences(a, b, &path, told),
                    (a, b) => told.push(format!("{path}: {b:?} instead of {a:?}")),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let (a, b) = (as_set(a), as_set(b));
            for (place, (a, b)) in a.iter().zip(&b).enumerate() {
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

/// Sorted by the scenario of an entry, or by the entry itself.
fn as_set(list: &[Value]) -> Vec<&Value> {
    let mut sorted: Vec<&Value> = list.iter().collect();
    sorted.sort_by_key(|it| match &it["scenario_id"] {
        Value::Null => it.to_string(),
        id => id.to_string(),
    });
    sorted
}

fn warnings(expected: &Value, found: &Value, path: &str, told: &mut Vec<String>) {
    let (expected, found) = (expected.as_array().unwrap(), found.as_array().unwrap());
    let texts = || found.iter().map(|it| it.as_str().unwrap());
    let mut missing = expected.iter().filter(|warning| {
        let category = warning.as_str().unwrap().split([':', ' ']).next().unwrap();
        !texts().any(|it| it.contains(category))
    });
    if expected.len() != found.len() || missing.next().is_some() {
        told.push(format!("{path}: {found:?} instead of {expected:?}"));
    }
}

/// Checks a document; `false` if it is not a vector of the computation.
fn check(path: &Path, vector: &Value) -> bool {
    let (input, expected) = (&vector["input"], &vector["expected"]);
    if input["observed"].is_null() || input["oasis_core_version"].is_null() {
        return false;
    }
    let found = computed(input);
    let mut told = Vec::new();
    differences(expected, &found, "", &mut told);
    assert!(
        told.is_empty(),
        "{}:\n  {}",
        path.display(),
        told.join("\n  ")
    );
    true
}

fn check_folder(folder: &Path) -> usize {
    documents(folder)
        .iter()
        .filter(|(path, vector)| check(path, vector))
        .count()
}

#[test]
fn verdicts_match_the_vectors() {
    assert!(check_folder(&fixtures()) >= 1);
    if let Some(folder) = shared("compute-examples") {
        eprintln!("{} shared vectors hold", check_folder(&folder));
    }
    if let Some(folder) = extra() {
        eprintln!("{} further vectors hold", check_folder(&folder));
    }
}

/// The base input of every case.
pub fn base() -> Value {
    let text = std::fs::read_to_string(fixtures().join("till.json")).unwrap();
    let vector: Value = serde_json::from_str(&text).unwrap();
    vector["input"].clone()
}

/// Sets the value at a JSON Pointer; missing members are created, and `null` removes a member.
pub fn edit(document: &mut Value, pointer: &str, value: &Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    if document.pointer(parent).is_none() {
        edit(document, parent, &Value::Object(Map::new()));
    }
    let name = name.replace("~1", "/").replace("~0", "~");
    match document.pointer_mut(parent).unwrap() {
        Value::Object(members) if value.is_null() => drop(members.remove(&name)),
        Value::Object(members) => drop(members.insert(name, value.clone())),
        Value::Array(items) if name == "-" => items.push(value.clone()),
        Value::Array(items) if value.is_null() => drop(items.remove(name.parse().unwrap())),
        Value::Array(items) => items[name.parse::<usize>().unwrap()] = value.clone(),
        other => panic!("{pointer}: {other} has no members"),
    }
}

/// The cases of a file: name, edits in order, expected values by pointer.
fn cases() -> Vec<(String, Value, Value)> {
    let folder = fixtures().join("cases");
    let mut cases = Vec::new();
    for (path, document) in documents(&folder) {
        for case in document.as_array().unwrap() {
            let name = format!(
                "{}: {}",
                path.file_name().unwrap().to_string_lossy(),
                case["case"]
            );
            cases.push((name, case["edits"].clone(), case["expected"].clone()));
        }
    }
    cases
}

#[test]
fn verdicts_match_the_expected_cases() {
    let cases = cases();
    assert!(cases.len() >= 40, "only {} cases were found", cases.len());
    let mut told = Vec::new();
    for (name, edits, expected) in &cases {
        let mut input = base();
        for step in edits.as_array().unwrap() {
            edit(&mut input, step[0].as_str().unwrap(), &step[1]);
        }
        let found = computed(&input);
        for (place, expected) in expected.as_object().unwrap() {
            let mut different = Vec::new();
            let member = place.rsplit('/').next().unwrap();
            match (expected, found.pointer(place)) {
                (Value::Null, None | Some(Value::Null)) => {}
                (expected, Some(found)) => {
                    let (expected, found) = (json!({ member: expected }), json!({ member: found }));
                    differences(&expected, &found, "", &mut different);
                }
                (expected, None) => different.push(format!("nothing instead of {expected}")),
            }
            told.extend(
                different
                    .iter()
                    .map(|it| format!("{name} at {place}: {it}")),
            );
        }
        if let Some(verdict) = found.get("verdict") {
            let broken = rules::check(&json!({ "verdict": verdict }));
            told.extend(broken.iter().map(|it| format!("{name}: {it:?}")));
        }
    }
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn an_input_is_refused_with_the_field_at_fault() {
    let cases = [
        ("/tier", json!(4), "/tier"),
        ("/tier", Value::Null, ""),
        ("/colour", json!("red"), ""),
        ("/phases", json!("capability"), "/phases"),
        ("/thresholds/passScore", json!(1.5), "/thresholds/passScore"),
        (
            "/tolerance_overrides/x",
            json!(101),
            "/tolerance_overrides/x",
        ),
        ("/scenarios/3/tier", json!("1"), "/scenarios/3/tier"),
        ("/scenarios/3/colour", json!(1), "/scenarios/3"),
        ("/scenarios/0/applicability/pace", json!(3), "/scenarios/0"),
        (
            "/observed/till.s.sc1/assertions",
            json!(["maybe"]),
            "/observed/till.s.sc1",
        ),
        ("/observed/till.s.sc1", Value::Null, "/observed/till.s.sc1"),
        (
            "/observed/till.s.sc1",
            json!({"score": 1}),
            "/observed/till.s.sc1",
        ),
        (
            "/observed/till.c.bo1",
            json!({"assertions": []}),
            "/observed/till.c.bo1",
        ),
        (
            "/profile/safety_categories/0/archetypes",
            json!("S"),
            "/profile/safety_categories/0/archetypes",
        ),
        ("/agent/version", json!("3.2"), "/agent/version"),
        ("/timestamp", json!("yesterday"), "/timestamp"),
        ("/duration", json!("1 hour"), "/duration"),
        ("/provider/version", json!("v1"), "/provider/version"),
        (
            "/reserved",
            json!([{"classification": "safety", "category": "scope", "archetype": "S-SC-1", "outcome": "MAYBE"}]),
            "/reserved/0/outcome",
        ),
    ];
    for (place, value, expected) in cases {
        let mut input = base();
        edit(&mut input, place, &value);
        let faults = match Input::read(&input) {
            Ok(input) => input::compute(&input).unwrap_err(),
            Err(faults) => faults,
        };
        assert!(
            faults
                .iter()
                .any(|it| it.path.starts_with(expected)
                    && (!expected.is_empty() || it.path.is_empty())),
            "{place} {value}: {faults:?}"
        );
    }
}

#[test]
fn observations_of_unreached_scenarios_are_ignored() {
    let whole = computed(&base());
    let mut input = base();
    edit(&mut input, "/observed/till.s.le3", &Value::Null);
    edit(&mut input, "/observed/nobody.knows", &json!({"fault": "x"}));
    assert_eq!(computed(&input), whole);
}
