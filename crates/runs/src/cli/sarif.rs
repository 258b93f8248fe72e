//! The files that SARIF results refer to.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli::suite::read_octets;
use crate::cli::suite::scoring::beside;
use crate::render::sarif::TaskFile;
use touchstone_host::cli::exit::Failure;
use touchstone_packs::cli::folder;

/// The suite file that is named, with its scoring document.
///
/// # Errors
/// A file cannot be read.
pub fn named_files(suite: &Path) -> Result<Vec<TaskFile>, Failure> {
    let scoring = beside(suite);
    let files = [Some(suite.to_owned()), scoring].into_iter().flatten();
    files
        .map(|file| {
            let bytes = read_octets(&file)?;
            Ok(task_file(&file, &bytes))
        })
        .collect()
}

/// The suite with its scoring document among the local work that was evaluated: folders of packs
/// and files of cases. Files that cannot be read any more have no locations.
pub fn local_files(sources: &[PathBuf], suite_id: &str) -> Vec<TaskFile> {
    let mut found = Vec::new();
    for source in sources {
        if source.is_dir() {
            let files = folder::read(source).unwrap_or_default();
            let is_of_suite = |bytes: &[u8]| {
                let document: Value = serde_json::from_slice(bytes).unwrap_or_default();
                document.get("suiteId").and_then(Value::as_str) == Some(suite_id)
            };
            // `NAME.json` is before `NAME.scoring.json`.
            let of_suite = files.iter().filter(|(_, bytes)| is_of_suite(bytes));
            found.extend(of_suite.map(|(name, bytes)| task_file(&source.join(name), bytes)));
        } else if let Ok(bytes) = read_octets(source) {
            found.push(task_file(source, &bytes));
        }
    }
    found
}

fn task_file(path: &Path, bytes: &[u8]) -> TaskFile {
    // Code scanning finds files by their paths in the repository, where pipelines work.
    let here = std::env::current_dir().unwrap_or_default();
    let relative = path.strip_prefix(&here).unwrap_or(path);
    TaskFile {
        path: relative.to_string_lossy().into_owned(),
        text: String::from_utf8_lossy(bytes).into_owned(),
    }
}
