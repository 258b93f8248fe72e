//! Files that are looked at, whole and within a bound.

use std::io::Read as _;
use std::path::Path;

use super::exit::Failure;

/// Reads a file of at most `most` octets.
pub fn read(file: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let unreadable = |cause: String| {
        Failure::bad_input(
            "unreadable",
            format!("{} cannot be read: {cause}", file.display()),
        )
    };
    let mut octets = Vec::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(most + 1).read_to_end(&mut octets))
        .map_err(|cause| unreadable(cause.to_string()))?;
    if octets.len() as u64 > most {
        return Err(unreadable(format!("it has more than {most} octets")));
    }
    Ok(octets)
}
