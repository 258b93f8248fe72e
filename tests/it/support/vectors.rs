//! Vectors: our files, and those of a given folder, which may contain vectors of other rules too.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Variable that names a folder of additional files.
const EXTRA: &str = "TOUCHSTONE_EXTRA_VECTORS";

/// The folder of additional files, if one is given.
pub fn extra() -> Option<PathBuf> {
    let folder = std::env::var_os(EXTRA).map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED: no further vectors ({EXTRA} unset)");
    }
    folder
}

/// The JSON files of a folder, sorted by name. Prints a note for a file that is not JSON and skips
/// it: it may be a vector that must be rejected.
pub fn documents(folder: &Path) -> Vec<(PathBuf, Value)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|path| path.is_file() && path.extension().is_some_and(|it| it == "json"))
        .collect();
    paths.sort();
    let read = |path: PathBuf| match serde_json::from_slice(&std::fs::read(&path).unwrap()) {
        Ok(document) => Some((path, document)),
        Err(cause) => {
            eprintln!("LEFT OUT: {}: {cause}", path.display());
            None
        }
    };
    paths.into_iter().filter_map(read).collect()
}
