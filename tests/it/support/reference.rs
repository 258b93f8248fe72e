//! Reference material, where it is available.
//!
//! It does not ship with this repository. `TOUCHSTONE_SHARED` names its folder (default:
//! `../shared`, next to the repository); without it, the tests that need it print that they were
//! skipped.

use std::path::{Path, PathBuf};

/// The folder with the reference material, if it contains `what`.
pub fn shared(what: &str) -> Option<PathBuf> {
    let root = std::env::var_os("TOUCHSTONE_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let path = root.join(what);
    if path.exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: {what} is not at hand; set TOUCHSTONE_SHARED to run this test");
    None
}
