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

/// Checks before other work that a file can be written in its folder.
///
/// # Errors
/// The folder does not exist, or the file is a folder.
pub fn check_output(file: &Path) -> Result<(), Failure> {
    let shown = file.display();
    if file.is_dir() {
        return Err(
            Failure::bad_input("is_a_folder", format!("{shown} is a folder"))
                .or_try("choose a file in it"),
        );
    }
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(Failure::bad_input(
            "no_such_folder",
            format!("folder {} does not exist", folder.display()),
        )
        .or_try(format!("mkdir -p {}", folder.display()))),
        _ => Ok(()),
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
