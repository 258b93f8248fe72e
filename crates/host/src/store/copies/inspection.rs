//! What a database is like, found without changing it.

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

/// Faults of an integrity check that are reported.
const MAX_FAULTS: i64 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Migrations that the next start applies.
    pub pending: usize,
    /// How SQLite logs writes, such as `wal`; `None` on PostgreSQL.
    pub journal_mode: Option<String>,
    /// What SQLite's integrity check found; empty if the file is sound, and on PostgreSQL.
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
    let faults: Vec<String> = sqlx::query_scalar("SELECT quick_check FROM pragma_quick_check($1)")
        .bind(MAX_FAULTS)
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
