//! The file of the embedded database, as it was when the host opened it.
//!
//! A process that has a file open goes on writing into it after somebody deleted or replaced it; everything it acknowledges
//! from then on is gone when it ends.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file that must stay the same one.
pub(super) struct DatabaseFile {
    path: PathBuf,
    identity: Identity,
}

/// Device and inode. A file that is open keeps its inode, so no other file gets it.
#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = ();

impl DatabaseFile {
    /// The file at this path.
    pub fn opened(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            identity: identity(path)?,
        })
    }

    /// Checks that the path still leads to the same file.
    pub fn check(&self) -> io::Result<()> {
        let problem = match identity(&self.path) {
            Ok(found) if found == self.identity => return Ok(()),
            Ok(_) => "the database file was replaced by another one; restart the host",
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                "the database file was deleted or moved; restore it or restart the host"
            }
            Err(cause) => return Err(cause),
        };
        Err(io::Error::new(io::ErrorKind::NotFound, problem))
    }
}

/// The write-ahead log beside the database. It has what was committed and not yet copied into the database, and stays the same
/// file while a connection is open.
pub(super) struct LogFile {
    path: PathBuf,
    /// `None` while it is not known.
    identity: Mutex<Option<Identity>>,
}

impl LogFile {
    /// That of the database at this path, not known yet.
    pub fn of(database: &Path) -> Self {
        // The database keeps it beside the file that a link leads to.
        let database = fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
        let mut path = database.into_os_string();
        path.push("-wal");
        Self {
            path: path.into(),
            identity: Mutex::default(),
        }
    }

    /// A connection has been opened: it is the file that is there now.
    pub fn opened(&self) {
        *self.known() = identity(&self.path).ok();
    }

    /// Checks that it is still the same file; only while a connection is open.
    pub fn check(&self) -> io::Result<()> {
        let Some(known) = *self.known() else {
            return Ok(());
        };
        match identity(&self.path) {
            Ok(found) if found == known => Ok(()),
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
            _ => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the write-ahead log of the database (`-wal`) was deleted, moved or replaced; restart the host",
            )),
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<Identity>> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt as _;

    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|_| ())
}
