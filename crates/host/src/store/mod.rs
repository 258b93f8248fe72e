//! Event log, work queue and records on SQLite and PostgreSQL.
//!
//! [`Database`] runs statements on either engine through [`sql`]. Statements that both engines
//! accept are written once. What differs fundamentally (connections, batch appends, signals between
//! replicas) is in [`sqlite`] and [`postgres`]. One contract test suite runs every statement on
//! both engines.

pub mod audit;
pub mod convert;
pub mod copies;
pub mod database;
pub mod database_file;
pub mod health;
pub mod idempotency;
pub mod jobs;
pub mod keys;
pub mod migrations;
pub mod postgres;
pub mod secrets;
pub mod sessions;
pub mod signals;
pub mod space;
pub mod sql;
pub mod sqlite;

use std::path::Path;
use std::sync::Arc;

pub use crate::store::database::Database;

use crate::ports::host_keys::HostKeys;
use crate::ports::store::StoreError;
use crate::store::migrations::Schema;

/// Opens the store at `location` and migrates the tables of the host and of `schemas`. Accepts
/// `postgres://…`, `sqlite:PATH` or a path. Secrets are encrypted with `keys`.
///
/// # Errors
/// [`StoreError::Backend`] if the database cannot be reached, opened or migrated. The error does
/// not contain the location, because that may include a password.
pub async fn open(
    location: &str,
    keys: Arc<dyn HostKeys>,
    schemas: &[Schema],
) -> Result<Arc<Database>, StoreError> {
    Ok(Arc::new(match sqlite_file(location) {
        Some(path) => Database::sqlite(path, keys, schemas).await?,
        None => Database::postgres(location, keys, schemas).await?,
    }))
}

/// The file of an embedded database; `None` if `location` names a PostgreSQL server.
pub fn sqlite_file(location: &str) -> Option<&Path> {
    if location.starts_with("postgres://") || location.starts_with("postgresql://") {
        return None;
    }
    let path = location
        .strip_prefix("sqlite://")
        .or_else(|| location.strip_prefix("sqlite:"))
        .unwrap_or(location);
    Some(Path::new(path))
}
