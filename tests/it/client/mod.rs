//! Independent programs use a host through the protocol or our API description.
//!
//! `TOUCHSTONE_TEST_PYTHON` names an interpreter that has `tests/python/requirements.txt`
//! installed, `TOUCHSTONE_TEST_NODE_MODULES` a folder `node_modules` with the packages of
//! `tests/node/package.json`, `TOUCHSTONE_TEST_CHROMIUM` a browser, and
//! `TOUCHSTONE_TEST_CHROMEDRIVER` its driver; `./test` sets them up.

use std::path::PathBuf;

mod attestation;
mod badges;
mod mcp_sdk;
mod pages;
mod published_client;
mod reference_checker;
mod schemathesis;

const PYTHON: &str = "TOUCHSTONE_TEST_PYTHON";

/// The Python interpreter, or `None` after printing that `what` is not run. CI must have one.
pub fn python(what: &str) -> Option<PathBuf> {
    interpreter(what, PYTHON)
}

/// The interpreter that `variable` names, or `None` after printing that `what` is not run.
pub fn interpreter(what: &str, variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from);
    if found.is_none() {
        not_run(what, variable);
    }
    found
}

/// The program that `variable` names, else the usual one; `None` after printing that `what` is not
/// run. CI must have one.
pub fn program(what: &str, variable: &str, usual: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let usual = || Some(PathBuf::from(usual)).filter(|it| it.is_file());
    let found = named.or_else(usual);
    if found.is_none() {
        not_run(what, variable);
    }
    found
}

/// Prints that `what` is not run because `variable` is unset, which is an error in CI.
pub fn not_run(what: &str, variable: &str) {
    eprintln!("NOT RUN: {what}: {variable} is unset (`./test` sets it)");
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!ci, "CI must run {what}: set {variable}");
}
