//! The engine for several replicas.
//!
//! An append is one statement: the update that checks fence and head hands the run's number to the insert, and both
//! happen or neither. Claims pass over rows that others are claiming (`SKIP LOCKED`). Replicas wake each other through
//! [`broadcast`].

mod broadcast;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, Postgres, Transaction};

use self::broadcast::Broadcast;
use super::convert::{Batch, backend, lease_now};
use super::health::WriteHealth;
use super::migrations;
use super::secrets::Cipher;
use super::signals::LocalSignals;
use crate::domain::ids::{RunId, TenantId};
use crate::ports::{Fence, Head, HostKeys, RunLog, Signals, StoreError};

/// Connections of one replica, besides the two for signals.
const CONNECTIONS: u32 = 10;

/// How long a caller waits for a connection before it is told to come again; a server that is there needs far less.
const PATIENCE: Duration = Duration::from_secs(3);

/// How old a connection to a read-only server gets before it is made again: after a failover, the same address may lead to a
/// server that takes writes.
const READ_ONLY_RECONNECT: Duration = Duration::from_secs(1);

/// The sequences follow from the old head and the order of the arrays.
const APPEND: &str = "WITH advanced AS (
        UPDATE run SET head = $4, ended = $5, bytes = bytes + $8
        WHERE run_id = $1 AND fence = $2 AND head = $3 AND NOT ended RETURNING number
    )
    INSERT INTO event (run_number, sequence, kind, body)
    SELECT advanced.number, $3 + item.place, item.kind, item.body
    FROM advanced, UNNEST($6::text[], $7::text[]) WITH ORDINALITY AS item (kind, body, place)";

/// Two installations for one tenant would not see each other's suites; they go one after the other.
const LOCK_INVENTORY: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";

/// Apart from those of the inventory: the seed is another one.
const LOCK_SCOPE: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended($2, hashtextextended($1, 1)))";

/// Appends wait too, for the few milliseconds a registration takes.
const LOCK_RUNS: &str = "LOCK TABLE run IN SHARE MODE";

/// The store on PostgreSQL.
pub struct PostgresStore {
    pool: PgPool,
    signals: Arc<LocalSignals>,
    broadcast: Broadcast,
    health: WriteHealth,
    cipher: Cipher,
}

impl PostgresStore {
    pub(super) const MENTIONS: &str = "SELECT sequence, body FROM event
        WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND strpos(body, $2) > 0
        ORDER BY sequence";
    /// The lock keeps a subscription from going before the row that follows for it is there.
    pub(super) const FOLLOW_RUN: &str =
        "INSERT INTO webhook_run (webhook_number, run_number, sequence)
        SELECT number, $1, $3 FROM webhook WHERE tenant = $2 AND following AND run_number IS NULL FOR KEY SHARE";
    /// The lock keeps a pack from being removed before the deployments that put it into service are there.
    pub(super) const HOLD_PACK: &str =
        "SELECT version FROM pack WHERE tenant = $1 AND integrity = $2 FOR KEY SHARE";
    /// A transaction that stores the same bytes waits until it is known whether these are deleted.
    pub(super) const LOCK_BLOB: &str = "SELECT digest FROM blob WHERE digest = $1 FOR UPDATE";
    pub(super) const CLAIM_WEBHOOK: &str = concat!(
        "UPDATE webhook SET fence = fence + 1, lease_owner = $1, lease_until = ",
        lease_now!(PostgresStore, "$3"),
        " + $2
        WHERE number = (SELECT w.number FROM webhook w
            WHERE w.lease_until <= ",
        lease_now!(PostgresStore, "$3"),
        " AND w.following AND EXISTS (
                SELECT 1 FROM webhook_run f JOIN run r ON r.number = f.run_number
                WHERE f.webhook_number = w.number AND r.head > f.sequence AND (w.run_number IS NULL OR r.ended))
            ORDER BY w.served_at, w.number LIMIT 1
            FOR NO KEY UPDATE OF w SKIP LOCKED)
        RETURNING fence, id"
    );
    pub(super) const EVENTS_OF: &str = "SELECT sequence, kind, body FROM event
        WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND sequence > $2 AND sequence <= $3
            AND kind IN (SELECT jsonb_array_elements_text($4::text::jsonb))
        ORDER BY sequence LIMIT $5";

    /// Connects and brings the tables up to date.
    ///
    /// # Errors
    /// [`StoreError::Backend`] when the URL is none, the server cannot be reached, or the tables are not ours.
    pub async fn open(url: &str, keys: Arc<dyn HostKeys>) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url).map_err(backend)?;
        let options = options.application_name("touchstone");
        // The pool alone would go on knocking for long where there is no server.
        let first = PgConnection::connect_with(&options).await;
        first.map_err(backend)?.close().await.map_err(backend)?;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE)
            // The query below tells as much as the ping that it replaces, at the same cost.
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
        migrations::postgres().run(&pool).await.map_err(backend)?;
        let signals = Arc::new(LocalSignals::new());
        let broadcast = Broadcast::start(options, Arc::clone(&signals))
            .await
            .map_err(backend)?;
        Ok(Self {
            pool,
            signals,
            broadcast,
            health: WriteHealth::default(),
            cipher: Cipher::new(keys),
        })
    }

    /// Closes the connections in an orderly way. Without it nothing is lost either.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// An owner as leases name it: the server cannot tell whether a process elsewhere is alive.
    pub(super) fn holder(&self, owner: &str) -> String {
        owner.to_owned()
    }

    /// The clock of leases is that of the server.
    pub(super) fn lease_clock(&self) -> Option<i64> {
        None
    }

    /// Leases of a dead process run out.
    pub(super) async fn release_dead(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    pub(super) fn cipher(&self) -> &Cipher {
        &self.cipher
    }

    pub(super) fn readers(&self) -> &PgPool {
        &self.pool
    }

    /// # Errors
    /// None: only the file of the embedded database can be lost.
    pub(super) fn writer(&self) -> Result<&PgPool, StoreError> {
        Ok(&self.pool)
    }

    pub(super) fn health(&self) -> &WriteHealth {
        &self.health
    }

    pub(super) async fn begin_write(&self) -> Result<Transaction<'static, Postgres>, StoreError> {
        self.pool.begin().await.map_err(backend)
    }

    /// A transaction of which there is one at a time for a scope: of two runs at once, the second one sees the first.
    pub(super) async fn begin_scope(
        &self,
        tenant: &TenantId,
        scope: &str,
    ) -> Result<Transaction<'static, Postgres>, StoreError> {
        let mut transaction = self.begin_write().await?;
        sqlx::query(LOCK_SCOPE)
            .bind(tenant.as_str())
            .bind(scope)
            .execute(&mut *transaction)
            .await
            .map_err(backend)?;
        Ok(transaction)
    }

    pub(super) async fn begin_inventory(
        &self,
        tenant: &TenantId,
    ) -> Result<Transaction<'static, Postgres>, StoreError> {
        let mut transaction = self.begin_write().await?;
        sqlx::query(LOCK_INVENTORY)
            .bind(tenant.as_str())
            .execute(&mut *transaction)
            .await
            .map_err(backend)?;
        Ok(transaction)
    }

    /// Waits for those who are creating runs and keeps others from it until the end: a run that is being created while a
    /// subscription is, each transaction not seeing the other's, would be followed by nobody.
    pub(super) async fn begin_registration(
        &self,
    ) -> Result<Transaction<'static, Postgres>, StoreError> {
        let mut transaction = self.begin_write().await?;
        sqlx::query(LOCK_RUNS)
            .execute(&mut *transaction)
            .await
            .map_err(backend)?;
        Ok(transaction)
    }

    pub(super) async fn append_batch(
        &self,
        run: &RunId,
        fence: Fence,
        batch: &Batch<'_>,
        ends: bool,
    ) -> Result<(), StoreError> {
        let mut connection = self.pool.acquire().await.map_err(backend)?;
        Self::append_within(&mut connection, run, fence, batch, ends).await
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

    pub(super) fn local_signals(&self) -> &LocalSignals {
        &self.signals
    }

    pub(super) fn signal_annotated(&self, run: &RunId) {
        self.signals.annotate(Some(run.clone()));
        self.broadcast.annotated(run);
    }

    pub(super) fn signal_cancel(&self, run: &RunId) {
        self.signals.touch(run);
        self.signals.ring();
        self.broadcast.cancel(run);
    }
}

#[async_trait]
impl Signals for PostgresStore {
    async fn run_changed(&self, run: &RunId, known: Head, at_most: Duration) {
        let waiter = self.signals.wait(run);
        if waiter.first
            && let Ok(Some(head)) = self.head(run).await
        {
            self.signals.raise(run, head);
        }
        waiter.changed(known, at_most).await;
    }

    async fn any_run_changed(&self, at_most: Duration) {
        self.signals.any_run(at_most).await;
    }

    async fn work_waiting(&self, at_most: Duration) {
        self.signals.work(at_most).await;
    }

    async fn notify_run(&self, run: &RunId, head: Head) {
        self.signals.raise(run, head);
        self.broadcast.head(run, head);
    }

    async fn notify_work(&self) {
        self.signals.ring();
        self.broadcast.work();
    }
}
