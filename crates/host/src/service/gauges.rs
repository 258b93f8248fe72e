//! Gauges of the database, its disk and the process.

use metrics::{Counter, Gauge};

use crate::ports::store::StoreError;
use crate::store::database::Database;
use crate::system::process_usage::ProcessUsage;
use crate::telemetry::{counter, gauge, names};

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

pub struct ProcessGauges {
    cpu: Counter,
    resident: Gauge,
    address_space: Gauge,
    open_files: Gauge,
    max_files: Gauge,
    start: Gauge,
}

impl ProcessGauges {
    /// `None` if the system does not report the usage of processes.
    pub fn new() -> Option<Self> {
        ProcessUsage::read()?;
        Some(Self {
            cpu: counter(names::PROCESS_CPU, &[]),
            resident: gauge(names::PROCESS_RESIDENT_BYTES, &[]),
            address_space: gauge(names::PROCESS_VIRTUAL_BYTES, &[]),
            open_files: gauge(names::PROCESS_OPEN_FILES, &[]),
            max_files: gauge(names::PROCESS_MAX_FILES, &[]),
            start: gauge(names::PROCESS_START, &[]),
        })
    }

    /// Reads the values.
    pub fn sample(&self) {
        let Some(usage) = ProcessUsage::read() else {
            return;
        };
        // Counters of the metrics library are integers.
        self.cpu.absolute(usage.cpu_seconds as u64);
        self.resident.set(usage.resident_bytes as f64);
        self.address_space.set(usage.virtual_bytes as f64);
        self.open_files.set(usage.open_files as f64);
        self.max_files
            .set(usage.max_files.map_or(f64::INFINITY, |it| it as f64));
        self.start.set(usage.started);
    }
}
