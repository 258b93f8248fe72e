//! A pack in a file, with its registry documents in files next to it.
//!
//! `triage-1.0.0.tgz` may have `triage-1.0.0.json` (the served manifest) and `triage-1.0.0.sig`
//! (the detached signature) as companions; `pack sign` writes all three.

use std::io;
use std::path::Path;

use bytes::Bytes;

use crate::registry::directory::read_at_most;
use crate::registry::document;

/// The bytes of a pack and its companions.
#[derive(Clone, Debug)]
pub struct PackFile {
    pub tgz: Bytes,
    /// The served manifest, if the file exists.
    pub served: Option<Bytes>,
    /// The signature, if the file exists.
    pub signature: Option<Bytes>,
}

/// Reads a pack from a file.
///
/// # Errors
/// The archive, or an existing companion, cannot be read.
pub async fn read_pack_file(path: &Path) -> io::Result<PackFile> {
    Ok(PackFile {
        tgz: read_at_most(path, document::TARBALL).await?,
        served: companion(path, "json", document::SERVED + 1).await?,
        signature: companion(path, "sig", document::SIGNATURE).await?,
    })
}

async fn companion(path: &Path, extension: &str, most: usize) -> io::Result<Option<Bytes>> {
    match read_at_most(&path.with_extension(extension), most).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
