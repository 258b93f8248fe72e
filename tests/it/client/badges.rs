//! Badges read by third-party libraries in Python and JavaScript: ours are accepted; changed,
//! revoked and expired ones are not.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{not_run, python};
use crate::ratings::api::badges::served;
use crate::support::badges::{Case, cases};

const NODE_MODULES: &str = "TOUCHSTONE_TEST_NODE_MODULES";

/// Checks that a library does not make, by its own statement: `verifier-core` does not require a
/// status list at the badge's issuer, only one at the address that the badge names. Remove an entry
/// once the library checks it.
const BELIEVED: [(&str, &str); 1] = [("@digitalcredentials/verifier-core", "list-of-others.json")];

/// Has a library check all badges of a folder.
fn hold_to_account(what: &str, command: &mut Command, folder: &Path, cases: &[Case]) {
    let asked: Vec<Value> = cases
        .iter()
        .map(|case| json!({"file": case.file, "status": case.status, "did": case.did}))
        .collect();
    let file = folder.join("cases.json");
    std::fs::write(&file, json!(asked).to_string()).unwrap();
    let output = command.arg(&file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {errors}");
    let results: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results.len(), cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .zip(&results)
        .filter(|(case, result)| {
            let name = case.file.file_name().and_then(|name| name.to_str());
            let believed = name.is_some_and(|name| BELIEVED.contains(&(what, name)));
            result["valid"] != json!(case.good || believed)
        })
        .map(|(case, result)| format!("{}: {result}", case.file.display()))
        .collect();
    assert!(
        wrong.is_empty(),
        "{what} gives another verdict:\n{}",
        wrong.join("\n")
    );
}

fn script(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The Python library, if it is installed.
fn openbadgeslib() -> Option<Command> {
    let python = python("the check of badges in Python")?;
    let mut command = Command::new(python);
    command
        .arg("-B")
        .arg(script("tests/python/verify_badges.py"));
    Some(command)
}

/// The JavaScript libraries, if they are installed: Digital Bazaar's, and the verifier of the
/// Digital Credentials Consortium.
const IN_JAVASCRIPT: [(&str, &str); 2] = [
    ("@digitalbazaar/vc", "tests/node/verify_badges.mjs"),
    (
        "@digitalcredentials/verifier-core",
        "tests/node/verify_badges_core.mjs",
    ),
];

fn javascript(path: &str) -> Option<Command> {
    if std::env::var_os(NODE_MODULES).is_none() {
        not_run("the check of badges in JavaScript", NODE_MODULES);
        return None;
    }
    let mut command = Command::new("node");
    command.arg(script(path));
    Some(command)
}

#[test]
fn a_python_library_accepts_good_badges_only() {
    let folder = tempfile::tempdir().unwrap();
    if let Some(mut library) = openbadgeslib() {
        let cases = cases(folder.path());
        hold_to_account("openbadgeslib", &mut library, folder.path(), &cases);
    }
}

#[test]
fn javascript_libraries_accept_good_badges_only() {
    for (what, path) in IN_JAVASCRIPT {
        let Some(mut library) = javascript(path) else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let cases = cases(folder.path());
        hold_to_account(what, &mut library, folder.path(), &cases);
    }
}

/// A badge from a running host, not one built for the test: outside verifiers accept it, and reject
/// it once it is revoked, expired or changed.
#[tokio::test]
async fn third_party_libraries_accept_a_served_badge_only_while_it_is_valid() {
    let in_javascript = IN_JAVASCRIPT.map(|(what, path)| (what, javascript(path)));
    for (what, library) in [("openbadgeslib", openbadgeslib())]
        .into_iter()
        .chain(in_javascript)
    {
        let Some(mut library) = library else { continue };
        let folder = tempfile::tempdir().unwrap();
        let cases = served(folder.path()).await;
        hold_to_account(what, &mut library, folder.path(), &cases);
    }
}
