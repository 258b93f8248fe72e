//! Badges read by libraries of others, in Python and in JavaScript: ours are accepted, whatever was changed, revoked or is past
//! its time is not.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{not_run, python};
use crate::support::badges::cases;

const NODE_MODULES: &str = "TOUCHSTONE_TEST_NODE_MODULES";

fn hold_to_account(what: &str, command: &mut Command) {
    let folder = tempfile::tempdir().unwrap();
    let cases = cases(folder.path());
    let asked: Vec<Value> = cases
        .iter()
        .map(|case| json!({"file": case.file, "status": case.status, "did": case.did}))
        .collect();
    let file = folder.path().join("cases.json");
    std::fs::write(&file, json!(asked).to_string()).unwrap();
    let output = command.arg(&file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {errors}");
    let results: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results.len(), cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .zip(&results)
        .filter(|(case, result)| result["valid"] != json!(case.good))
        .map(|(case, result)| format!("{}: {result}", case.file.display()))
        .collect();
    assert!(
        wrong.is_empty(),
        "{what} says otherwise:\n{}",
        wrong.join("\n")
    );
}

fn script(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn a_python_library_accepts_good_badges_only() {
    let Some(python) = python("the check of badges in Python") else {
        return;
    };
    let script = script("tests/python/verify_badges.py");
    hold_to_account("openbadgeslib", Command::new(python).arg("-B").arg(script));
}

#[test]
fn javascript_libraries_accept_good_badges_only() {
    if std::env::var_os(NODE_MODULES).is_none() {
        not_run("the check of badges in JavaScript", NODE_MODULES);
        return;
    }
    let script = script("tests/node/verify_badges.mjs");
    hold_to_account("@digitalbazaar/vc", Command::new("node").arg(script));
}
