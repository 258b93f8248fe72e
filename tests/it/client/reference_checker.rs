//! The reference checker, where it is available: every check that applies to this host must run and
//! pass.

use std::path::Path;
use std::process::Command;

use super::{interpreter, python};
use crate::support::postgres::TestDatabase;
use crate::support::reference::shared;

/// Runs the checker through the conformance kit against a fresh host; a skipped check counts as a
/// failure.
fn check(options: &[&str]) {
    let Some(checker) = shared("conformance/openwop_check.py") else {
        return;
    };
    if let Some(python) = python("the reference checker") {
        check_with(&checker, &python, options);
    }
}

/// The same for the checker of major 2.
fn check_v2(options: &[&str]) {
    let Some(checker) = shared("conformance/openwop_v2_check.py") else {
        return;
    };
    let what = "the reference checker of OpenWOP 2";
    if let Some(python) = interpreter(what, "TOUCHSTONE_TEST_OPENWOP_V2_PYTHON") {
        check_with(&checker, &python, &[&["--major", "2"], options].concat());
    }
}

fn check_with(checker: &Path, python: &Path, options: &[&str]) {
    let kit = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/run");
    let mut command = Command::new(python);
    command.arg("-B").arg(kit).arg(checker);
    let output = command
        .args(options)
        .args(["--", "--require", "all"])
        .env("TOUCHSTONE_BIN", env!("CARGO_BIN_EXE_touchstone"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let summary = said.lines().last().unwrap_or_default();
    assert!(summary.contains(" passed, 0 failed, "), "{said}");
    eprintln!("{summary}");
}

#[test]
fn the_reference_checker_passes_without_skipped_checks() {
    check(&[]);
}

/// Scoring documents change how tasks are scored, and nothing that OpenWOP says about eval runs.
#[test]
fn a_suite_with_a_scoring_document_passes_the_reference_checker() {
    let kit = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    let [suites, scoring] = ["suites", "scoring"].map(|folder| kit.join(folder));
    let [suites, scoring] = [&suites, &scoring].map(|folder| folder.to_str().unwrap());
    check(&["--suites", suites, "--scoring", scoring]);
}

#[tokio::test]
async fn the_reference_checker_passes_without_skipped_checks_on_postgres() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    check(&["--database-url", &database.url()]);
}

#[test]
fn the_reference_checker_of_major_2_passes_without_skipped_checks() {
    check_v2(&[]);
}

#[tokio::test]
async fn the_reference_checker_of_major_2_passes_without_skipped_checks_on_postgres() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    check_v2(&["--database-url", &database.url()]);
}
