//! The embedded engine: one file, no server.
//!
//! All writes use one connection, so they queue here rather than in SQLite's busy loop. Readers
//! have separate connections and are never blocked (write-ahead log). A commit is on disk when it
//! returns (`synchronous=FULL`). Other processes may open the same file: each write takes the lock
//! before it reads (`BEGIN IMMEDIATE`) and waits for its turn.

pub mod owner;

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection, SqlitePool, Transaction};

use crate::ports::run_log::Fence;
use crate::ports::store::{Outage, StoreError};
use crate::store::convert::{Batch, backend};
use crate::store::database_file::{DatabaseFile, LogFile};
use crate::store::migrations::{self, Leases, Schema};
use crate::store::signals::LocalSignals;
use crate::store::sql::Pool;
use crate::store::sqlite::owner::Process;
use crate::system::private_files;
use touchstone_kit::ids::RunId;

/// Connections for reading.
const READERS: u32 = 4;

/// How long a statement waits for another writing process.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// How long a caller waits for a connection before it gets [`StoreError::Unavailable`]. Even a slow
/// disk needs less.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of rows per insert.
const MOST_ROWS: usize = 1024;

/// Inserts for batches of up to this many rows, each prepared once. A batch is one statement
/// because each statement waits for the connection's thread.
static INSERTS: LazyLock<[(usize, Arc<str>); 5]> =
    LazyLock::new(|| [1, 4, 16, 64, 256].map(|rows| (rows, insert(rows).into())));
static LARGEST_INSERT: LazyLock<Arc<str>> = LazyLock::new(|| insert(MOST_ROWS).into());

/// Unbound rows are skipped. Parameters have no names because SQLite looks names up one by one.
fn insert(rows: usize) -> String {
    let values = vec!["(?, ?, ?, ?)"; rows].join(", ");
    format!(
        "INSERT INTO event (run_number, sequence, kind, body)
        SELECT * FROM (VALUES {values}) WHERE column1 IS NOT NULL"
    )
}

/// The update itself checks fence and head: it changes no row if either differs from what the
/// caller expects.
const ADVANCE: &str = "UPDATE run SET head = $4, ended = $5, bytes = bytes + $6
    WHERE run_id = $1 AND fence = $2 AND head = $3 AND NOT ended RETURNING number";

pub(super) struct Sqlite {
    writer: SqlitePool,
    readers: SqlitePool,
    file: Arc<DatabaseFile>,
    log: Arc<LogFile>,
    signals: LocalSignals,
    process: Process,
    leases: Vec<Leases>,
}

impl Sqlite {
    /// Opens the file, creates it if it does not exist, and migrates its tables.
    ///
    /// # Errors
    /// [`StoreError::Backend`] if the file cannot be opened or is not a Touchstone database.
    pub(super) async fn open(path: &Path, schemas: &[Schema]) -> Result<Self, StoreError> {
        private_files::create_private(path);
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY)
            .foreign_keys(true);
        let writer_options = options
            .clone()
            // 16 MiB of log per checkpoint: pages that are written repeatedly are copied once.
            .pragma("wal_autocheckpoint", "4000")
            // Shrinks the log again after a long reader has delayed checkpoints.
            .pragma("journal_size_limit", "67108864")
            .pragma("secure_delete", "FAST")
            .pragma("cache_size", "-8000");
        let log = Arc::new(LogFile::of(path));
        let same_log = Arc::clone(&log);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(PATIENCE)
            .test_before_acquire(false)
            // A full disk or an I/O error makes SQLite roll back by itself. sqlx still counts that
            // transaction, because its own ROLLBACK fails, and would refuse every later one.
            .before_acquire(|connection, _| {
                let settled = !connection.is_in_transaction();
                Box::pin(async move { Ok(settled) })
            })
            // Closing the last connection removes the log, and the next connection creates a new
            // one.
            .after_connect(move |_, _| {
                same_log.opened();
                Box::pin(async { Ok(()) })
            })
            .idle_timeout(None)
            .max_lifetime(None);
        // Two processes that create the same file at once conflict; the second one retries and
        // finds the tables migrated.
        let open = || async {
            let writer = writer.clone().connect_with(writer_options.clone());
            let writer = writer.await.map_err(backend)?;
            migrations::run(Pool::Sqlite(&writer), schemas).await?;
            Ok::<_, StoreError>(writer)
        };
        let backoff = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(10))
            .with_max_times(6)
            .with_jitter();
        let writer = open
            .retry(backoff)
            .sleep(tokio::time::sleep)
            .when(is_contention)
            .await?;
        // A file that is deleted while the host runs must not be recreated empty.
        writer.set_connect_options(writer_options.create_if_missing(false));
        // A newly created database had no log when the connection was opened.
        log.opened();
        let file = DatabaseFile::opened(path).map_err(|cause| backend(sqlx::Error::Io(cause)))?;
        let file = Arc::new(file);
        let same_file = Arc::clone(&file);
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(PATIENCE)
            .test_before_acquire(false)
            .after_connect(move |_, _| {
                let checked = same_file.check().map_err(sqlx::Error::Io);
                Box::pin(async move { checked })
            })
            .connect_lazy_with(options.read_only(true).pragma("cache_size", "-4000"));
        Ok(Self {
            writer,
            readers,
            file,
            log,
            signals: LocalSignals::new(),
            process: Process::start(path).map_err(backend)?,
            leases: migrations::all(schemas)
                .flat_map(|schema| schema.leases)
                .copied()
                .collect(),
        })
    }

    /// Closes the file cleanly. No data is lost if this is not called.
    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    pub(super) fn file(&self) -> &Path {
        self.file.path()
    }

    pub(super) fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// # Errors
    /// [`StoreError::Unavailable`] if the file or its log was deleted or replaced: further writes
    /// would be lost.
    pub(super) fn writer(&self) -> Result<&SqlitePool, StoreError> {
        let mut checked = self.file.check();
        // While the writer is being replaced, the log may legitimately disappear.
        if checked.is_ok() && self.writer.num_idle() > 0 {
            checked = self.log.check();
        }
        checked.map_err(|cause| backend(sqlx::Error::Io(cause)))?;
        Ok(&self.writer)
    }

    pub(super) fn signals(&self) -> &LocalSignals {
        &self.signals
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    /// A transaction that holds the write lock from the start: one that reads first may fail to get
    /// the lock later.
    pub(super) async fn begin(&self) -> Result<Transaction<'static, sqlx::Sqlite>, StoreError> {
        self.writer()?
            .begin_with("BEGIN IMMEDIATE")
            .await
            .map_err(backend)
    }

    pub(super) async fn append(
        &self,
        run: &RunId,
        fence: Fence,
        batch: &Batch<'_>,
        ends: bool,
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        append_within(&mut transaction, run, fence, batch, ends).await?;
        transaction.commit().await.map_err(backend)
    }
}

pub(super) async fn append_within(
    transaction: &mut SqliteConnection,
    run: &RunId,
    fence: Fence,
    batch: &Batch<'_>,
    ends: bool,
) -> Result<(), StoreError> {
    let number: Option<i64> = sqlx::query_scalar(ADVANCE)
        .bind(run.as_str())
        .bind(fence.0)
        .bind(batch.before)
        .bind(batch.head)
        .bind(ends)
        .bind(batch.bytes)
        .fetch_optional(&mut *transaction)
        .await
        .map_err(backend)?;
    let number = number.ok_or(StoreError::Fenced)?;
    let mut sequence = batch.before;
    for chunk in batch.rows.chunks(MOST_ROWS) {
        let fits = INSERTS.iter().find(|(rows, _)| chunk.len() <= *rows);
        let sql = fits.map_or(&*LARGEST_INSERT, |(_, sql)| sql);
        let mut insert = sqlx::query(AssertSqlSafe(sql.clone()));
        for &(kind, body) in chunk {
            sequence += 1;
            insert = insert.bind(number).bind(sequence).bind(kind).bind(body);
        }
        insert.execute(&mut *transaction).await.map_err(backend)?;
    }
    Ok(())
}

/// Whether another process locks the file, for example to create it.
fn is_contention(error: &StoreError) -> bool {
    const BUSY: i32 = 5;
    const LOCKED: i32 = 6;
    let StoreError::Unavailable(Outage(cause)) = error else {
        return false;
    };
    let Some(sqlx::Error::Database(error)) = cause.downcast_ref::<sqlx::Error>() else {
        return false;
    };
    let code = error.code().and_then(|code| code.parse::<i32>().ok());
    // The low byte is the error code, the other bytes the extended code.
    code.is_some_and(|code| matches!(code & 0xff, BUSY | LOCKED))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILL: &str = "INSERT INTO write_probe (id, written_at, filler) VALUES (2, 0, $1)";

    #[tokio::test]
    async fn the_host_writes_again_after_its_disk_was_full() {
        let dir = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&dir.path().join("test.db"), &[])
            .await
            .unwrap();
        // The limit applies only to the connection that is currently open.
        sqlx::query("PRAGMA max_page_count = 1")
            .execute(&store.writer)
            .await
            .unwrap();
        let mut transaction = store.begin().await.unwrap();
        let full = sqlx::query(FILL)
            .bind("0".repeat(10_000_000))
            .execute(&mut *transaction)
            .await;
        let full = full.unwrap_err();
        assert!(full.to_string().contains("full"), "{full}");
        assert!(matches!(backend(full), StoreError::Unavailable(_)));
        drop(transaction);

        let transaction = store.begin().await.unwrap();
        transaction.commit().await.unwrap();
        sqlx::query(FILL)
            .bind("0")
            .execute(store.writer().unwrap())
            .await
            .unwrap();
    }

    /// Otherwise each execution of a statement with a bound `LIMIT` prepares it again.
    #[tokio::test]
    async fn sqlite_is_built_so_that_plans_do_not_depend_on_bound_values() {
        let dir = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&dir.path().join("test.db"), &[])
            .await
            .unwrap();
        let options: Vec<String> = sqlx::query_scalar("PRAGMA compile_options")
            .fetch_all(&store.writer)
            .await
            .unwrap();
        assert!(
            options.contains(&"ENABLE_QPSG".to_owned()),
            "`LIBSQLITE3_FLAGS` of `.cargo/config.toml` was not read: {options:?}"
        );
    }
}
