//! The database on either engine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::ports::fanout::Fanout;
use crate::ports::host_keys::HostKeys;
use crate::ports::run_log::Fence;
use crate::ports::run_log::Head;
use crate::ports::store::StoreError;
use crate::store::convert::{Batch, head_of};
use crate::store::health::WriteHealth;
use crate::store::migrations::{self, HeldWork, Schema, SecretTable};
use crate::store::postgres::Postgres;
use crate::store::postgres::broadcast::{Origin, receive};
use crate::store::secrets::Cipher;
use crate::store::signals::LocalSignals;
use crate::store::sql::{Pool, Transaction, query};
use crate::store::sqlite::Sqlite;
use touchstone_kit::ids::{RunId, TenantId};

/// The store: an SQLite file, or a PostgreSQL server that several replicas share.
pub struct Database {
    engine: Engine,
    health: WriteHealth,
    cipher: Cipher,
    secrets: Vec<SecretTable>,
    held_work: Vec<HeldWork>,
}

enum Engine {
    Sqlite(Box<Sqlite>),
    Postgres(Postgres),
}

impl Database {
    /// Opens the file, creates it if it does not exist, and migrates its tables. Secrets are
    /// encrypted with `keys`.
    ///
    /// # Errors
    /// [`StoreError::Backend`] if the file cannot be opened or is not a Touchstone database.
    pub async fn sqlite(
        path: &Path,
        keys: Arc<dyn HostKeys>,
        schemas: &[Schema],
    ) -> Result<Self, StoreError> {
        let database = Self::on(
            Engine::Sqlite(Box::new(Sqlite::open(path, schemas).await?)),
            keys,
            schemas,
        );
        // A store that cannot be written to at the moment (locked, disk full) is opened anyway;
        // workers retry.
        if let Err(cause) = database.release_dead().await {
            tracing::warn!(%cause, "could not release the leases of dead processes; workers will retry");
        }
        Ok(database)
    }

    /// Connects and migrates the tables. Secrets are encrypted with `keys`.
    ///
    /// # Errors
    /// [`StoreError::Backend`] if the URL is malformed, the server cannot be reached, or the tables
    /// are not Touchstone's.
    pub async fn postgres(
        url: &str,
        keys: Arc<dyn HostKeys>,
        schemas: &[Schema],
    ) -> Result<Self, StoreError> {
        let engine = Postgres::open(url, schemas).await?;
        Ok(Self::on(Engine::Postgres(engine), keys, schemas))
    }

    fn on(engine: Engine, keys: Arc<dyn HostKeys>, schemas: &[Schema]) -> Self {
        Self {
            engine,
            health: WriteHealth::default(),
            cipher: Cipher::new(keys),
            secrets: migrations::all(schemas)
                .flat_map(|schema| schema.secrets)
                .copied()
                .collect(),
            held_work: migrations::all(schemas)
                .flat_map(|schema| schema.held)
                .copied()
                .collect(),
        }
    }

    /// Closes all connections. No data is lost if this is not called.
    pub async fn close(&self) {
        match &self.engine {
            Engine::Sqlite(engine) => engine.close().await,
            Engine::Postgres(engine) => engine.close().await,
        }
    }

    pub fn cipher(&self) -> &Cipher {
        &self.cipher
    }

    pub(super) fn secrets(&self) -> &[SecretTable] {
        &self.secrets
    }

    pub(super) fn held_work(&self) -> &[HeldWork] {
        &self.held_work
    }

    pub(super) fn health(&self) -> &WriteHealth {
        &self.health
    }

    pub fn readers(&self) -> Pool<'_> {
        match &self.engine {
            Engine::Sqlite(engine) => Pool::Sqlite(engine.readers()),
            Engine::Postgres(engine) => Pool::Postgres(engine.pool()),
        }
    }

    /// # Errors
    /// [`StoreError::Unavailable`] if SQLite's file or its log was deleted or replaced: further
    /// writes would be lost.
    pub fn writer(&self) -> Result<Pool<'_>, StoreError> {
        Ok(match &self.engine {
            Engine::Sqlite(engine) => Pool::Sqlite(engine.writer()?),
            Engine::Postgres(engine) => Pool::Postgres(engine.pool()),
        })
    }

    pub async fn begin_write(&self) -> Result<Transaction, StoreError> {
        Ok(match &self.engine {
            Engine::Sqlite(engine) => Transaction::Sqlite(engine.begin().await?),
            Engine::Postgres(engine) => Transaction::Postgres(engine.begin().await?),
        })
    }

    /// A write transaction that is exclusive within a scope: of two concurrent ones, the second
    /// sees the first one's run.
    pub async fn begin_scope(
        &self,
        tenant: &TenantId,
        scope: &str,
    ) -> Result<Transaction, StoreError> {
        // The seed keeps these locks distinct from those of `begin_inventory`.
        self.begin_locked(
            "SELECT pg_advisory_xact_lock(hashtextextended($2, hashtextextended($1, 1)))",
            &[tenant.as_str(), scope],
        )
        .await
    }

    /// A write transaction that is exclusive within a tenant: concurrent installations would not
    /// see each other's suites.
    pub async fn begin_inventory(&self, tenant: &TenantId) -> Result<Transaction, StoreError> {
        self.begin_locked(
            "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
            &[tenant.as_str()],
        )
        .await
    }

    /// A write transaction that excludes the creation of runs. Otherwise a run and a subscription
    /// created at the same time would not see each other, and the run would not be followed.
    /// Appends wait too, for the few milliseconds that a registration takes.
    pub async fn begin_registration(&self) -> Result<Transaction, StoreError> {
        self.begin_locked("LOCK TABLE run IN SHARE MODE", &[]).await
    }

    /// Runs `lock` on PostgreSQL. SQLite allows only one writer anyway.
    async fn begin_locked(
        &self,
        lock: &'static str,
        parameters: &[&str],
    ) -> Result<Transaction, StoreError> {
        let mut transaction = self.begin_write().await?;
        if matches!(transaction, Transaction::Postgres(_)) {
            let mut statement = query(lock);
            for parameter in parameters {
                statement = statement.bind(*parameter);
            }
            statement.execute(&mut transaction).await?;
        }
        Ok(transaction)
    }

    pub async fn append_batch(
        &self,
        run: &RunId,
        fence: Fence,
        batch: &Batch<'_>,
        ends: bool,
    ) -> Result<(), StoreError> {
        match &self.engine {
            Engine::Sqlite(engine) => engine.append(run, fence, batch, ends).await,
            Engine::Postgres(engine) => engine.append(run, fence, batch, ends).await,
        }
    }

    /// Runs a pragma; a no-op on PostgreSQL.
    pub(super) async fn pragma(&self, pragma: &'static str) -> Result<(), StoreError> {
        if let Engine::Sqlite(_) = &self.engine {
            query(pragma).execute(self.writer()?).await?;
        }
        Ok(())
    }

    /// The lease owner as stored. On SQLite it includes the process id; a PostgreSQL server cannot
    /// check whether a process on another machine is alive.
    pub fn holder(&self, owner: &str) -> String {
        match &self.engine {
            Engine::Sqlite(engine) => engine.process().holder(owner),
            Engine::Postgres(_) => owner.to_owned(),
        }
    }

    /// The clock that leases use: on SQLite that of the machine; `None` on PostgreSQL, which uses
    /// the server's clock.
    pub fn lease_clock(&self) -> Option<i64> {
        match &self.engine {
            Engine::Sqlite(_) => Some(crate::store::sqlite::owner::lease_clock()),
            Engine::Postgres(_) => None,
        }
    }

    pub fn engine_name(&self) -> &'static str {
        match &self.engine {
            Engine::Sqlite(_) => "SQLite",
            Engine::Postgres(_) => "PostgreSQL",
        }
    }

    /// The file of the database; `None` on PostgreSQL.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.engine {
            Engine::Sqlite(engine) => Some(engine.file()),
            Engine::Postgres(_) => None,
        }
    }

    /// Releases the leases of dead processes; `true` if there were any. On PostgreSQL leases expire
    /// instead.
    pub async fn release_dead(&self) -> Result<bool, StoreError> {
        match &self.engine {
            Engine::Sqlite(engine) => engine.release_dead().await,
            Engine::Postgres(_) => Ok(false),
        }
    }

    pub fn local_signals(&self) -> &LocalSignals {
        match &self.engine {
            Engine::Sqlite(engine) => engine.signals(),
            Engine::Postgres(engine) => engine.signals(),
        }
    }

    /// Sends later signals to the other replicas by `fanout`, and through the database only if that
    /// fails. Without effect on SQLite, which has no other replicas.
    pub fn fan_out_by(&self, fanout: Arc<dyn Fanout>) {
        if let Engine::Postgres(engine) = &self.engine {
            engine.broadcast().send_by(fanout);
        }
    }

    /// Receives a signal that another replica sent by its [`Fanout`]. It only makes those who wait
    /// read the log, so a wrong one is harmless.
    pub fn receive_signal(&self, signal: &str) {
        receive(signal, Origin::Fanout, self.local_signals());
    }

    /// Makes all who wait read the log, because signals of other replicas may have been missed.
    pub fn signals_missed(&self) {
        self.local_signals().touch_all();
    }

    pub fn signal_annotated(&self, run: &RunId) {
        self.local_signals().annotate(Some(run.clone()));
        if let Engine::Postgres(engine) = &self.engine {
            engine.broadcast().annotated(run);
        }
    }

    pub fn signal_cancel(&self, run: &RunId) {
        self.local_signals().touch(run);
        self.local_signals().ring();
        if let Engine::Postgres(engine) = &self.engine {
            engine.broadcast().cancel(run);
        }
    }
}

pub async fn append_within(
    transaction: &mut Transaction,
    run: &RunId,
    fence: Fence,
    batch: &Batch<'_>,
    ends: bool,
) -> Result<(), StoreError> {
    match transaction {
        Transaction::Sqlite(it) => {
            crate::store::sqlite::append_within(it, run, fence, batch, ends).await
        }
        Transaction::Postgres(it) => {
            crate::store::postgres::append_within(it, run, fence, batch, ends).await
        }
    }
}

/// Wakes the waiters of a run. Only a hint: a lost signal costs a poll interval, never an event.
impl Database {
    /// Waits until something may have changed in `run` (new events, a cancel request) or `at_most`
    /// has passed.
    pub async fn run_changed(&self, run: &RunId, known: Head, at_most: Duration) {
        let waiter = self.local_signals().wait(run);
        if waiter.first
            && let Ok(Some(head)) = head(self, run).await
        {
            self.local_signals().raise(run, head);
        }
        waiter.changed(known, at_most).await;
    }

    /// Waits until some log may have grown, of any run, or `at_most` has passed.
    pub async fn any_run_changed(&self, at_most: Duration) {
        self.local_signals().any_run(at_most).await;
    }

    /// Waits until work may be waiting or `at_most` has passed.
    pub async fn work_waiting(&self, at_most: Duration) {
        self.local_signals().work(at_most).await;
    }

    /// Notifies every replica that `run`'s log now reaches `head`.
    pub async fn notify_run(&self, run: &RunId, head: Head) {
        self.local_signals().raise(run, head);
        if let Engine::Postgres(engine) = &self.engine {
            engine.broadcast().head(run, head);
        }
    }

    /// Notifies every replica that a run waits, or that a cancel was requested.
    pub async fn notify_work(&self) {
        self.local_signals().ring();
        if let Engine::Postgres(engine) = &self.engine {
            engine.broadcast().work();
        }
    }
}

const HEAD: &str = "SELECT head, ended FROM run WHERE run_id = $1";
/// The end of the log.
pub async fn head(database: &Database, run: &RunId) -> Result<Option<Head>, StoreError> {
    let row = query(HEAD)
        .bind(run.as_str())
        .fetch_optional(database.readers())
        .await?;
    row.map(head_of).transpose()
}
