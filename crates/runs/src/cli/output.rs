//! Results as text, as JSON and in files.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;

use serde::Serialize;
use tempfile::{SpooledTempFile, spooled_tempfile};

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

/// Larger drafts are kept in a temporary file.
pub const MAX_DRAFT_IN_MEMORY: usize = 4 << 20;

/// A document that is printed, or written to a file, once it is complete. If the host fails between two
/// pages, no part of a document is left.
pub struct Draft(BufWriter<SpooledTempFile>);

impl Draft {
    pub fn empty() -> Self {
        Self(BufWriter::new(spooled_tempfile(MAX_DRAFT_IN_MEMORY)))
    }

    /// Writes the document to `out`.
    ///
    /// # Errors
    /// The draft cannot be read, or `out` cannot be written.
    pub fn copy_to(mut self, out: &mut impl Write) -> io::Result<()> {
        self.0.rewind()?;
        io::copy(self.0.get_mut(), out)?;
        out.flush()
    }

    /// Writes the document to a file, which may exist.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(self, file: &Path) -> Result<(), Failure> {
        let saved = File::create(file).and_then(|mut out| self.copy_to(&mut out));
        saved.map_err(|cause| not_written(file, &cause))
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The failure to write a draft.
pub fn draft_not_written(cause: &io::Error) -> Failure {
    not_written(&std::env::temp_dir(), cause).or_try("set TMPDIR to a folder with more space")
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

pub fn not_written(file: &Path, cause: &io::Error) -> Failure {
    Failure::not_done(
        "file_not_written",
        format!("could not write {}: {cause}", file.display()),
    )
}
