//! Gauges of the database and its disk.

use metrics::Gauge;

use crate::ports::store::StoreError;
use crate::store::database::Database;
use crate::telemetry::{gauge, names};

pub struct DatabaseGauges {
    writable: Gauge,
    size: Gauge,
    /// Free space and size of the disk; `None` on PostgreSQL, whose disk is elsewhere.
    disk: Option<(Gauge, Gauge)>,
}

impl DatabaseGauges {
    pub fn new(database: &Database) -> Self {
        let disk = |_| {
            (
                gauge(names::DISK_FREE_BYTES, &[]),
                gauge(names::DISK_BYTES, &[]),
            )
        };
        Self {
            writable: gauge(names::DATABASE_WRITABLE, &[]),
            size: gauge(names::DATABASE_BYTES, &[]),
            disk: database.disk().map(disk),
        }
    }

    /// Reads the values. If the database does not answer, no value is exported in place of an old
    /// one.
    ///
    /// # Errors
    /// The database did not answer.
    pub async fn sample(&self, database: &Database) -> Result<(), StoreError> {
        if let (Some((free, size)), Some(disk)) = (&self.disk, database.disk()) {
            free.set(disk.free as f64);
            size.set(disk.total as f64);
        }
        let size = database.size().await;
        self.size
            .set(size.as_ref().map_or(f64::NAN, |it| *it as f64));
        let writable = size.is_ok() && database.takes_writes().await;
        self.writable.set(f64::from(u8::from(writable)));
        size.map(|_| ())
    }
}
