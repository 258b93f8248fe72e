//! Copies of a database: consistent snapshots, inspection, and the work that a copy must not repeat.

pub mod held;
pub mod inspection;
pub mod snapshot;

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};

use crate::ports::store::StoreError;
use crate::store::convert::backend;
use crate::store::sqlite::BUSY;

/// One connection that reads an existing file.
async fn reader(path: &Path) -> Result<SqlitePool, StoreError> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .busy_timeout(BUSY);
    let pool = SqlitePoolOptions::new().max_connections(1);
    pool.connect_with(options).await.map_err(backend)
}
