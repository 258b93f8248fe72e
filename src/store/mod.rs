//! Event log, work queue and records on SQLite and PostgreSQL.
//!
//! [`Database`] runs statements on either engine through [`sql`]. Statements that both engines
//! accept are written once. What differs fundamentally (connections, batch appends, signals between
//! replicas) is in [`sqlite`] and [`postgres`]. One contract test suite runs every statement on
//! both engines.

mod aaaf;
mod annotations;
mod attempts;
mod audit;
mod blobs;
mod calibrations;
mod cards;
mod convert;
mod database;
mod database_file;
mod deployments;
mod health;
mod host_secrets;
mod idempotency;
mod inventory;
mod keys;
mod migrations;
mod pauses;
mod postgres;
mod queue;
mod runs;
mod secrets;
mod signals;
mod sql;
mod sqlite;
mod storage;
mod webhooks;

use std::sync::Arc;

pub use database::Database;

use crate::ports::{HostKeys, StoreError};

/// Opens the store at `location` and migrates its tables. Accepts `postgres://…`, `sqlite:PATH` or
/// a path. Secrets are encrypted with `keys`.
///
/// # Errors
/// [`StoreError::Backend`] if the database cannot be reached, opened or migrated. The error does
/// not contain the location, because that may include a password.
pub async fn open(location: &str, keys: Arc<dyn HostKeys>) -> Result<Arc<Database>, StoreError> {
    if location.starts_with("postgres://") || location.starts_with("postgresql://") {
        return Ok(Arc::new(Database::postgres(location, keys).await?));
    }
    let path = location
        .strip_prefix("sqlite://")
        .or_else(|| location.strip_prefix("sqlite:"))
        .unwrap_or(location);
    Ok(Arc::new(Database::sqlite(path.as_ref(), keys).await?))
}
