//! The files that CI systems read match their published schemas.

use std::process::Command;

use super::ROOT;
use crate::client::python;

#[test]
fn action_component_hooks_and_examples_match_their_schemas() {
    let Some(python) = python("the schemas of CI systems") else {
        return;
    };
    let done = Command::new(python)
        .args(["-B", "tests/python/ci_files.py", "."])
        .current_dir(ROOT)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}
