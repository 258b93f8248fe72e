//! Reading whole files up to a maximum size.

use std::io::Read;
use std::path::Path;

use crate::cli::exit::Failure;

/// Reads a file of at most `most` bytes.
pub fn read(file: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    within(&file.display().to_string(), most, || {
        std::fs::File::open(file)
    })
}

/// Reads at most `most` bytes from stdin.
pub fn read_stdin(most: u64) -> Result<Vec<u8>, Failure> {
    within("stdin", most, || Ok(std::io::stdin()))
}

/// Creates a folder to write to, if it does not exist.
pub fn folder(folder: &Path) -> Result<&Path, Failure> {
    std::fs::create_dir_all(folder).map_err(|cause| {
        let text = format!("could not create {}: {cause}", folder.display());
        Failure::not_done("file_not_written", text)
    })?;
    Ok(folder)
}

fn within<R: Read>(
    name: &str,
    most: u64,
    open: impl FnOnce() -> std::io::Result<R>,
) -> Result<Vec<u8>, Failure> {
    let unreadable = |cause: String| {
        Failure::bad_input("unreadable", format!("could not read {name}: {cause}"))
            .or_try("name a file that exists and that this user can read")
    };
    let mut bytes = Vec::new();
    open()
        .and_then(|from| from.take(most + 1).read_to_end(&mut bytes))
        .map_err(|cause| unreadable(cause.to_string()))?;
    if bytes.len() as u64 > most {
        return Err(unreadable(format!("larger than {most} bytes")).or_try("name a smaller file"));
    }
    Ok(bytes)
}
