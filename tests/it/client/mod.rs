//! Independent programs drive a host: they read the protocol, or our description of it, with other eyes than ours.
//!
//! `TOUCHSTONE_TEST_PYTHON` names an interpreter that has `tests/python/requirements.txt` installed; `./test` makes one.

use std::path::PathBuf;

mod attestation;
mod mcp_sdk;
mod published_client;
mod reference_checker;
mod schemathesis;

const PYTHON: &str = "TOUCHSTONE_TEST_PYTHON";

/// The interpreter, or `None` after saying loudly that `what` is not run. In CI there must be one.
fn python(what: &str) -> Option<PathBuf> {
    let found = std::env::var_os(PYTHON).map(PathBuf::from);
    if found.is_none() {
        eprintln!(
            "NOT RUN: {what}: no Python with what it takes ({PYTHON} unset; `./test` sets it)"
        );
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!ci, "CI must run {what}: set {PYTHON}");
    }
    found
}
