//! Inspection of a database without changing it.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, SqlitePool};

use crate::ports::store::StoreError;
use crate::store::convert::backend;
use crate::store::copies::reader;
use crate::store::migrations::{self, Schema};
use crate::store::sql::Pool;
use crate::store::sqlite_file;

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Migrations that the next start applies.
    pub pending: usize,
    /// How SQLite logs writes, such as `wal`; `None` on PostgreSQL.
    pub journal_mode: Option<String>,
    /// Faults that SQLite's integrity check reported; empty if there are none, and on PostgreSQL.
    pub faults: Vec<String>,
}

/// Reads a database. On SQLite this reads the whole file.
///
/// # Errors
/// [`StoreError::Backend`] if the database cannot be read, or was written by a pre-release, newer
/// or different build.
pub async fn inspect(location: &str, schemas: &[Schema]) -> Result<Inspection, StoreError> {
    let Some(path) = sqlite_file(location) else {
        return Ok(Inspection {
            pending: pending_on_server(location, schemas).await?,
            journal_mode: None,
            faults: Vec::new(),
        });
    };
    let pool = reader(path).await?;
    let inspection = inspect_file(&pool, schemas).await;
    pool.close().await;
    inspection
}

async fn inspect_file(pool: &SqlitePool, schemas: &[Schema]) -> Result<Inspection, StoreError> {
    // The pragma reports ten faults at most, or `ok`.
    let faults: Vec<String> = sqlx::query_scalar("PRAGMA quick_check(10)")
        .fetch_all(pool)
        .await
        .map_err(backend)?;
    let journal_mode: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(pool)
        .await
        .map_err(backend)?;
    Ok(Inspection {
        pending: migrations::count_pending(Pool::Sqlite(pool), schemas).await?,
        journal_mode: Some(journal_mode),
        faults: faults.into_iter().filter(|fault| fault != "ok").collect(),
    })
}

async fn pending_on_server(url: &str, schemas: &[Schema]) -> Result<usize, StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(backend)?;
    let options = options.application_name("touchstone");
    // The pool would repeat the attempt until its timeout and hide the cause.
    let first = PgConnection::connect_with(&options).await;
    first.map_err(backend)?.close().await.map_err(backend)?;
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(CONNECT_TIMEOUT)
        .connect_lazy_with(options);
    let pending = migrations::count_pending(Pool::Postgres(&pool), schemas).await;
    pool.close().await;
    pending
}
