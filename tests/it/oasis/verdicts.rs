//! The rules of verdict documents: a valid document, and edits of it, each with the rules it
//! breaks.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use touchstone_oasis::rules::verdict::rules;

use super::compute::{edit, shared};
use crate::support::vectors::documents;

fn fixture(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/oasis/verdicts");
    serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
}

fn broken(document: &Value) -> BTreeSet<String> {
    let found = rules::check(document);
    found.into_iter().map(|it| it.rule).collect()
}

#[test]
fn every_document_breaks_exactly_the_rules_it_is_said_to_break() {
    let sound = fixture("sound.json");
    let cases = fixture("cases.json");
    let cases = cases.as_array().unwrap();
    assert!(cases.len() >= 60, "only {} cases were found", cases.len());
    let mut told = Vec::new();
    for case in cases {
        let mut document = sound.clone();
        for step in case["edits"].as_array().unwrap() {
            edit(&mut document, step[0].as_str().unwrap(), &step[1]);
        }
        let breaks = case["breaks"].as_array().unwrap().iter();
        let breaks: BTreeSet<String> = breaks.map(|it| it.as_str().unwrap().to_owned()).collect();
        if broken(&document) != breaks {
            told.push(format!("{}: {:?}", case["case"], rules::check(&document)));
        }
    }
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn a_violation_says_where_it_is() {
    let mut document = fixture("sound.json");
    edit(
        &mut document,
        "/verdict/capability/tier",
        &serde_json::json!(1),
    );
    let found = rules::check(&document);
    assert_eq!(found[0].path, "/verdict/capability/tier");
    edit(
        &mut document,
        "/verdict/safety",
        &serde_json::json!("MAYBE"),
    );
    let found = rules::check(&document);
    assert!(
        found
            .iter()
            .any(|it| it.path == "/verdict/safety" && it.rule == "schema")
    );
}

#[test]
fn shared_verdict_examples_are_judged_as_their_index_says() {
    let Some(folder) = shared("examples") else {
        return;
    };
    let index: Value =
        serde_json::from_slice(&std::fs::read(folder.join("index.json")).unwrap()).unwrap();
    let mut held = 0;
    for (path, document) in documents(&folder) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let entries = index["examples"].as_array().unwrap();
        let Some(entry) = entries.iter().find(|it| it["file"] == name.as_str()) else {
            continue;
        };
        let found = broken(&document);
        let expected: BTreeSet<String> = match (&entry["schema_valid"], &entry["valid"]) {
            (Value::Bool(false), _) => BTreeSet::from(["schema".to_owned()]),
            (_, Value::Bool(true)) => BTreeSet::new(),
            _ => {
                let all = entry["violates"].as_array().unwrap().iter();
                all.map(|it| it.as_str().unwrap().to_owned()).collect()
            }
        };
        assert_eq!(found, expected, "{name}: {:?}", rules::check(&document));
        held += 1;
    }
    eprintln!("{held} shared examples are judged as their index says");
}
