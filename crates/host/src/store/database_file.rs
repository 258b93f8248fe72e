//! Detects that the embedded database's file was deleted or replaced while the host has it open.
//!
//! A process keeps writing to an open file after the file was deleted or replaced. Everything that
//! the process acknowledges from then on is lost when it exits.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file that must not be deleted or replaced.
pub(super) struct DatabaseFile {
    path: PathBuf,
    identity: Identity,
}

/// Device and inode. An open file keeps its inode, so no other file can receive the same one.
#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = ();

impl DatabaseFile {
    /// Remembers the file at this path.
    pub fn opened(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            identity: identity(path)?,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the path still refers to the same file.
    pub fn check(&self) -> io::Result<()> {
        let problem = match identity(&self.path) {
            Ok(found) if found == self.identity => return Ok(()),
            Ok(_) => "the database file was replaced; restart the host",
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                "the database file was deleted or moved; restore it or restart the host"
            }
            Err(cause) => return Err(cause),
        };
        Err(io::Error::new(io::ErrorKind::NotFound, problem))
    }
}

/// The write-ahead log next to the database. It contains commits that have not yet been copied into
/// the database, and remains the same file while a connection is open.
pub(super) struct LogFile {
    path: PathBuf,
    /// `None` until a connection has been opened.
    identity: Mutex<Option<Identity>>,
}

impl LogFile {
    /// The log of the database at this path.
    pub fn of(database: &Path) -> Self {
        // SQLite creates the log next to the file that a symbolic link points to.
        let database = fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
        let mut path = database.into_os_string();
        path.push("-wal");
        Self {
            path: path.into(),
            identity: Mutex::default(),
        }
    }

    /// Remembers the current file; called when a connection has been opened.
    pub fn opened(&self) {
        *self.known() = identity(&self.path).ok();
    }

    /// Checks that the log is still the same file. Valid only while a connection is open.
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
