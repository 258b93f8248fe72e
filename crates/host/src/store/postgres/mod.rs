//! The engine for several replicas.
//!
//! An append is one statement: the update that checks fence and head passes the run's number to the
//! insert, and both happen or neither. Claims skip rows that another replica is claiming (`SKIP
//! LOCKED`). Replicas wake each other through [`broadcast`].

pub mod broadcast;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, Transaction};

use crate::ports::run_log::Fence;
use crate::ports::store::StoreError;
use crate::store::convert::{Batch, backend};
use crate::store::migrations::{self, Schema};
use crate::store::postgres::broadcast::Broadcast;
use crate::store::signals::LocalSignals;
use crate::store::sql::Pool;
use touchstone_kit::ids::RunId;

/// Connections per replica, in addition to the two for signals.
const CONNECTIONS: u32 = 10;

/// How long a caller waits for a connection before it gets [`StoreError::Unavailable`]. A healthy
/// server needs far less.
const PATIENCE: Duration = Duration::from_secs(3);

/// Maximum age of a connection to a read-only server: after a failover, the same address may lead
/// to a server that accepts writes.
const READ_ONLY_RECONNECT: Duration = Duration::from_secs(1);

/// Sequences are derived from the old head and the order of the arrays.
const APPEND: &str = "WITH advanced AS (
        UPDATE run SET head = $4, ended = $5, bytes = bytes + $8
        WHERE run_id = $1 AND fence = $2 AND head = $3 AND NOT ended RETURNING number
    )
    INSERT INTO event (run_number, sequence, kind, body)
    SELECT advanced.number, $3 + item.place, item.kind, item.body
    FROM advanced, UNNEST($6::text[], $7::text[]) WITH ORDINALITY AS item (kind, body, place)";

pub(super) struct Postgres {
    pool: PgPool,
    signals: Arc<LocalSignals>,
    broadcast: Broadcast,
}

impl Postgres {
    /// Connects and migrates the tables.
    ///
    /// # Errors
    /// [`StoreError::Backend`] if the URL is malformed, the server cannot be reached, or the tables
    /// are not Touchstone's.
    pub(super) async fn open(url: &str, schemas: &[Schema]) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url).map_err(backend)?;
        let options = options.application_name("touchstone");
        // Without this attempt, the pool would keep retrying an unreachable server for a long time.
        let first = PgConnection::connect_with(&options).await;
        first.map_err(backend)?.close().await.map_err(backend)?;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE)
            // The query below detects a broken connection as well as the ping does, at the same
            // cost.
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    let read_only: String = sqlx::query_scalar("SHOW transaction_read_only")
                        .fetch_one(connection)
                        .await?;
                    Ok(read_only == "off" || meta.age < READ_ONLY_RECONNECT)
                })
            })
            .connect_lazy_with(options.clone());
        migrations::run(Pool::Postgres(&pool), schemas).await?;
        let signals = Arc::new(LocalSignals::new());
        let broadcast = Broadcast::start(options, Arc::clone(&signals))
            .await
            .map_err(backend)?;
        Ok(Self {
            pool,
            signals,
            broadcast,
        })
    }

    /// Closes the connections cleanly. No data is lost if this is not called.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    pub(super) fn pool(&self) -> &PgPool {
        &self.pool
    }

    pub(super) fn signals(&self) -> &LocalSignals {
        &self.signals
    }

    pub(super) fn broadcast(&self) -> &Broadcast {
        &self.broadcast
    }

    pub(super) async fn begin(&self) -> Result<Transaction<'static, sqlx::Postgres>, StoreError> {
        self.pool.begin().await.map_err(backend)
    }

    pub(super) async fn append(
        &self,
        run: &RunId,
        fence: Fence,
        batch: &Batch<'_>,
        ends: bool,
    ) -> Result<(), StoreError> {
        let mut connection = self.pool.acquire().await.map_err(backend)?;
        append_within(&mut connection, run, fence, batch, ends).await
    }
}

pub(super) async fn append_within(
    connection: &mut PgConnection,
    run: &RunId,
    fence: Fence,
    batch: &Batch<'_>,
    ends: bool,
) -> Result<(), StoreError> {
    let (kinds, bodies): (Vec<&str>, Vec<&str>) = batch.rows.iter().copied().unzip();
    let appended = sqlx::query(APPEND)
        .bind(run.as_str())
        .bind(fence.0)
        .bind(batch.before)
        .bind(batch.head)
        .bind(ends)
        .bind(kinds)
        .bind(bodies)
        .bind(batch.bytes)
        .execute(connection)
        .await
        .map_err(backend)?;
    match appended.rows_affected() {
        0 => Err(StoreError::Fenced),
        _ => Ok(()),
    }
}
