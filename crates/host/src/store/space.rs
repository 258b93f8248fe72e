//! The size of the database, the space on its disk, and its clock.

use std::path::Path;

use jiff::Timestamp;

use crate::ports::store::StoreError;
use crate::store::convert::column;
use crate::store::database::Database;
use crate::store::sql::{Sql, query};

const SIZE: Sql = Sql {
    sqlite: "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    postgres: "SELECT pg_database_size(current_database())",
};
const CLOCK: &str = "SELECT {now}";
const NEWEST_RUN: &str = "SELECT created_at FROM run ORDER BY number DESC LIMIT 1";

/// Space on a disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    pub free: u64,
    pub total: u64,
}

impl DiskSpace {
    /// The space on the disk of a file or folder; `None` if it cannot be read.
    pub fn at(path: &Path) -> Option<Self> {
        let found = rustix::fs::statvfs(path).ok()?;
        Some(Self {
            free: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }
}

impl Database {
    /// The size of the database in bytes.
    ///
    /// # Errors
    /// The database did not answer.
    pub async fn size(&self) -> Result<u64, StoreError> {
        let size: i64 = query(SIZE).fetch_one(self.readers()).await?;
        column("database", "size").number(size)
    }

    /// The time by the clock of the database.
    ///
    /// # Errors
    /// The database did not answer.
    pub async fn time(&self) -> Result<Timestamp, StoreError> {
        let micros: i64 = query(CLOCK).fetch_one(self.readers()).await?;
        column("database", "clock").time(micros)
    }

    /// The space on the disk of the database file; `None` on PostgreSQL, whose disk is elsewhere.
    pub fn disk(&self) -> Option<DiskSpace> {
        DiskSpace::at(self.file()?)
    }

    /// When the newest run was created; `None` without runs.
    ///
    /// # Errors
    /// The database did not answer.
    pub async fn newest_run_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let micros: Option<i64> = query(NEWEST_RUN).fetch_optional(self.readers()).await?;
        let time = micros.map(|micros| column("run", "created_at").time(micros));
        time.transpose()
    }
}
