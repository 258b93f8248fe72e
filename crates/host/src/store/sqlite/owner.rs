//! Tracks which processes are alive, so that the leases of a killed process are released at once.
//!
//! Every open store holds an advisory lock on its own file in a folder next to the database. The
//! operating system releases the lock when the process ends, however it ends; a stopped process
//! keeps it. A lease names its owner's process. If that process's lock can be taken, the owner is
//! dead and its leases are released. On file systems without locks, leases expire instead.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tracing::{info, warn};
use uuid::Uuid;

use crate::ports::store::StoreError;
use crate::store::convert::{backend, micros};
use crate::store::sqlite::Sqlite;

/// Marks this process as alive until it is dropped.
pub struct Process {
    id: String,
    folder: PathBuf,
    /// Whether the owners of all leases have been checked.
    looked: AtomicBool,
    /// Dropping the file releases the lock.
    _lock: File,
}

impl Process {
    /// Creates and locks this process's file next to the database.
    pub(super) fn start(database: &Path) -> Result<Self, Error> {
        // The same folder for every path that leads to the database.
        let mut folder = std::fs::canonicalize(database)?.into_os_string();
        folder.push("-owners");
        let folder = PathBuf::from(folder);
        create_private(&folder)?;
        loop {
            let id = Uuid::now_v7().simple().to_string();
            let path = folder.join(&id);
            let lock = private_file().create_new(true).open(&path)?;
            if let Err(cause) = lock.lock() {
                warn!(%cause, "the file system does not support locks; leases of a killed process are held until they expire");
            }
            // Another process may have removed the file before it was locked, taking its process
            // for dead.
            if path.exists() {
                return Ok(Self {
                    id,
                    folder,
                    looked: AtomicBool::new(false),
                    _lock: lock,
                });
            }
        }
    }

    /// The lease owner as stored.
    pub fn holder(&self, owner: &str) -> String {
        format!("{owner}@{}", self.id)
    }

    /// Whether a lease's owner is known to be dead. An owner without a process id was written by an
    /// earlier version.
    fn is_dead(&self, owner: &str) -> bool {
        match owner.rsplit_once('@') {
            Some((_, process)) => process != self.id && self.take(process).is_ok(),
            None => true,
        }
    }

    /// Tries to take the lock of another process.
    fn take(&self, process: &str) -> Result<Option<File>, TryLockError> {
        if Uuid::try_parse(process).is_err() {
            return Ok(None);
        }
        match private_file().open(self.folder.join(process)) {
            Ok(file) => file.try_lock().map(|()| Some(file)),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(TryLockError::Error(cause)),
        }
    }

    /// The files of other processes, dead or alive.
    fn others(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| *name != self.id).collect()
    }

    /// Removes the files of dead processes.
    fn tidy(&self) {
        for other in self.others() {
            // The file is removed while locked: a process that has just created it then sees that
            // it is gone.
            if let Ok(Some(_lock)) = self.take(&other) {
                let _ = std::fs::remove_file(self.folder.join(&other));
            }
        }
    }
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}

fn create_private(folder: &Path) -> Result<(), Error> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(folder)
}

/// The clock that leases use: shared by all processes on the machine and never set. It restarts
/// with the machine, but then no owner of an older lease is alive.
#[expect(
    clippy::expect_used,
    reason = "the clock counts from the start of the machine"
)]
pub fn lease_clock() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    micros(Duration::try_from(now).expect("the uptime is not negative"))
}

impl Sqlite {
    /// Releases the leases of dead processes; `true` if there were any.
    pub async fn release_dead(&self) -> Result<bool, StoreError> {
        // After all owners have been checked once, only a process that has had a file here can have
        // left leases.
        if self.process.looked.load(Ordering::Relaxed) && self.process.others().is_empty() {
            return Ok(false);
        }
        let mut dead = BTreeSet::new();
        for leases in &self.leases {
            let owners = sqlx::query_scalar(leases.owners).fetch_all(&self.readers);
            dead.extend(owners.await.map_err(backend)?);
        }
        dead.retain(|holder: &String| self.process.is_dead(holder));
        if !dead.is_empty() {
            let mut transaction = self.begin().await?;
            for holder in &dead {
                for leases in &self.leases {
                    sqlx::query(leases.release)
                        .bind(holder)
                        .execute(&mut *transaction)
                        .await
                        .map_err(backend)?;
                }
            }
            transaction.commit().await.map_err(backend)?;
            info!(owners = dead.len(), "released the leases of dead processes");
        }
        self.process.tidy();
        self.process.looked.store(true, Ordering::Relaxed);
        Ok(!dead.is_empty())
    }
}
