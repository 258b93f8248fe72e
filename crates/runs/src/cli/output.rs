//! Results as text, as JSON and in files.

use std::path::Path;

use serde::Serialize;

use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::terminal::Terminal;

/// Prints a result: the document under `--json`, else the text.
pub fn print_result(terminal: &Terminal, document: &impl Serialize, text: impl FnOnce() -> String) {
    if terminal.json() {
        terminal.document(document);
    } else {
        terminal.print(&text());
    }
}

pub fn write_file(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|cause| not_written(file, &cause))
}

pub fn not_written(file: &Path, cause: &std::io::Error) -> Failure {
    Failure::not_done(
        "file_not_written",
        format!("could not write {}: {cause}", file.display()),
    )
}
