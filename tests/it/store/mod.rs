//! The store's contract: every test runs on both engines.

mod cards;
mod deployments;
mod host;
mod inventory;
mod ratings;
mod runs;
mod suites;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, json};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use tempfile::TempDir;

use crate::support::host_keys;
use crate::support::postgres::TestDatabase;
use touchstone_agents::budget::policy::BudgetSpec;
use touchstone_host::ports::host_keys::HostKeys;
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::run_log::{Head, StoredEvent};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_openwop::suite::{EvalMode, ModelClass};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::LogMark;
use touchstone_runs::ports::queue::Claimable;
use touchstone_runs::rules::kind::Extensions;
use touchstone_runs::rules::run::record::{
    EvalSpec, ExecutionPin, ModelPin, RunRecord, RunSpec, Work,
};
use touchstone_runs::store as run_store;

pub const TTL: Duration = Duration::from_secs(30);

/// A test that waits this long has failed.
pub const TOO_LONG: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

/// An empty database of one engine.
pub enum TestStore {
    Sqlite(TempDir),
    Postgres(TestDatabase),
}

impl Engine {
    /// `None`, with a printed note, if this engine is not available.
    pub async fn database(self) -> Option<TestStore> {
        Some(match self {
            Self::Sqlite => TestStore::Sqlite(TempDir::new().unwrap()),
            Self::Postgres => TestStore::Postgres(TestDatabase::create().await?),
        })
    }
}

impl TestStore {
    pub fn location(&self) -> String {
        match self {
            Self::Sqlite(dir) => format!("sqlite:{}", dir.path().join("test.db").display()),
            Self::Postgres(database) => database.url(),
        }
    }

    /// Moves time for leases and parked runs, which use the database's clock.
    pub async fn pass(&self, seconds: i64) {
        let micros = seconds * 1_000_000;
        for passed in [
            format!(
                "UPDATE run SET lease_until = lease_until - {micros}, active_since = active_since - {micros}"
            ),
            format!("UPDATE idempotency SET lease_until = lease_until - {micros}"),
            format!(
                "UPDATE webhook SET lease_until = lease_until - {micros}, served_at = served_at - {micros}"
            ),
            format!("UPDATE job SET lease_until = lease_until - {micros}"),
            format!("UPDATE calibration_attempt SET lease_until = lease_until - {micros}"),
        ] {
            self.execute(passed).await;
        }
    }

    /// Changes rows directly.
    pub async fn execute(&self, sql: String) {
        let sql = AssertSqlSafe(sql);
        match self {
            Self::Sqlite(_) => {
                let mut connection = SqliteConnection::connect(&self.location()).await.unwrap();
                sqlx::query(sql).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
            Self::Postgres(_) => {
                let mut connection = PgConnection::connect(&self.location()).await.unwrap();
                sqlx::query(sql).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    }

    /// Removes the protection of audit entries against changes.
    pub async fn let_audit_entries_change(&self) {
        let dropped = match self {
            Self::Sqlite(_) => vec![
                "DROP TRIGGER audit_entry_changed",
                "DROP TRIGGER audit_entry_deleted",
            ],
            Self::Postgres(_) => vec!["DROP TRIGGER audit_entry_kept ON audit_entry"],
        };
        for sql in dropped {
            self.execute(sql.to_owned()).await;
        }
    }

    /// Makes every writability check fail, while other writes succeed.
    pub async fn fail_checks(&self) {
        let created = match self {
            Self::Sqlite(_) => vec![
                "CREATE TRIGGER no_check BEFORE INSERT ON write_probe BEGIN SELECT RAISE(ABORT, 'no check'); END",
            ],
            Self::Postgres(_) => vec![
                "CREATE FUNCTION no_check() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'no check'; END $$ LANGUAGE plpgsql",
                "CREATE TRIGGER no_check BEFORE INSERT ON write_probe FOR EACH ROW EXECUTE FUNCTION no_check()",
            ],
        };
        for sql in created {
            self.execute(sql.to_owned()).await;
        }
    }

    /// Makes the checks succeed again.
    pub async fn pass_checks(&self) {
        let dropped = match self {
            Self::Sqlite(_) => "DROP TRIGGER no_check",
            Self::Postgres(_) => "DROP TRIGGER no_check ON write_probe",
        };
        self.execute(dropped.to_owned()).await;
    }

    /// The content of the database, as in a copy of its files.
    pub async fn raw(&self) -> Raw {
        match self {
            Self::Sqlite(folder) => {
                let mut bytes = Vec::new();
                for entry in std::fs::read_dir(folder.path()).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_file() {
                        bytes.extend(std::fs::read(path).unwrap());
                    }
                }
                Raw(bytes)
            }
            Self::Postgres(database) => Raw(dump(&database.url()).await),
        }
    }

    /// The bytes that a query returns.
    pub async fn bytes(&self, sql: &'static str) -> Vec<u8> {
        match self {
            Self::Sqlite(_) => {
                let mut connection = SqliteConnection::connect(&self.location()).await.unwrap();
                let found = sqlx::query_scalar(sql).fetch_one(&mut connection).await;
                found.unwrap()
            }
            Self::Postgres(_) => {
                let mut connection = PgConnection::connect(&self.location()).await.unwrap();
                let found = sqlx::query_scalar(sql).fetch_one(&mut connection).await;
                found.unwrap()
            }
        }
    }

    /// A tenant's runs, newest first.
    pub async fn runs(&self, tenant: &str) -> Vec<RunRecord> {
        runs_in(&self.location(), tenant).await
    }

    /// Opens another replica on this database.
    pub async fn open(&self) -> Arc<Database> {
        self.open_with(host_keys::usual()).await.unwrap()
    }

    /// The same with other encryption keys.
    pub async fn open_with(&self, keys: Arc<dyn HostKeys>) -> Result<Arc<Database>, StoreError> {
        touchstone::database::open(&self.location(), keys).await
    }
}

pub struct Raw(pub Vec<u8>);

impl Raw {
    /// Whether it contains these bytes, raw or in hexadecimal.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        let hex: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
        let within = |part: &[u8]| self.0.windows(part.len()).any(|window| window == part);
        within(bytes) || within(hex.as_bytes())
    }
}

/// Every row of every table, as text.
pub async fn dump(url: &str) -> Vec<u8> {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'";
    let tables: Vec<String> = sqlx::query_scalar(tables)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let mut dumped = Vec::new();
    for table in tables {
        let rows = AssertSqlSafe(format!("SELECT t::text FROM \"{table}\" t"));
        let rows: Vec<String> = sqlx::query_scalar(rows)
            .fetch_all(&mut connection)
            .await
            .unwrap();
        dumped.extend(rows.concat().into_bytes());
    }
    dumped
}

/// A tenant's runs in the database at this location, newest first. The store has no such list.
pub async fn runs_in(location: &str, tenant: &str) -> Vec<RunRecord> {
    const SQL: &str = "SELECT record FROM run JOIN run_record ON run_number = number
        WHERE tenant = $1 ORDER BY number DESC";
    let records: Vec<String> = match location.starts_with("sqlite:") {
        true => {
            let mut connection = SqliteConnection::connect(location).await.unwrap();
            let records = sqlx::query_scalar(SQL).bind(tenant);
            records.fetch_all(&mut connection).await.unwrap()
        }
        false => {
            let mut connection = PgConnection::connect(location).await.unwrap();
            let records = sqlx::query_scalar(SQL).bind(tenant);
            records.fetch_all(&mut connection).await.unwrap()
        }
    };
    let record = |text: &String| serde_json::from_str(text).unwrap();
    records.iter().map(record).collect()
}

/// Starts a test with an empty database and a store on it, or returns early.
macro_rules! open {
    ($engine:expr => $database:ident, $store:ident) => {
        let Some($database) = $engine.database().await else {
            return;
        };
        let $store = $database.open().await;
    };
}
use open;

/// A timestamp this many seconds after the tests' epoch.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

pub fn tenant(name: &str) -> TenantId {
    TenantId::from(name)
}

pub fn record(id: &str, tenant: &str, tasks: usize) -> RunRecord {
    let tasks = (0..tasks).map(|n| TaskId::from(format!("task-{n}")));
    RunRecord {
        run_id: id.into(),
        tenant: tenant.into(),
        principal: "key_1".to_owned(),
        created_at: at(0),
        spec: RunSpec {
            workflow_id: "eval:suite@1.0.0".to_owned(),
            scope: None,
            work: Work::Eval(Arc::new(EvalSpec {
                suite_id: "suite".to_owned(),
                suite_version: "1.0.0".to_owned(),
                suite_digest: "sha256-suite".to_owned(),
                scoring_digest: None,
                suite_signed: true,
                suite_task_count: tasks.len(),
                agent_id: "pack.agent".into(),
                agent_version: "1.0.0".to_owned(),
                agent_channel: None,
                pack_integrity: "sha256-pack".to_owned(),
                agent_content: None,
                model_class: ModelClass::Classification,
                model: ModelPin {
                    provider: "p".to_owned(),
                    model: "m".to_owned(),
                },
                judge: None,
                safety_judge: None,
                compares_answers: false,
                fixture_runs: BTreeMap::new(),
                judges: Vec::new(),
                simulated_user: None,
                attachments_pack: None,
                modes: vec![EvalMode::Golden],
                modes_left_out: Vec::new(),
                tasks: tasks.collect(),
                baseline: None,
                ignore: Vec::new(),
                concurrency: 10,
                temperature: None,
                max_tokens: None,
                max_loop_iterations: None,
                task_timeout_ms: None,
                prices: None,
                cost_ceiling: None,
                budget: BudgetSpec::default(),
                retry_of: None,
                trial: None,
                facts_recorded_at: None,
                partial_rerun: None,
                extensions: Extensions::default(),
                deciders: touchstone_runs::rules::run::deciders::Deciders::default(),
                execution: ExecutionPin::default(),
            })),
            run_timeout_ms: Some(60_000),
            configurable: Map::new(),
            inputs: Map::new(),
            tags: Vec::new(),
            metadata: Map::new(),
        },
        fork: None,
        trace: None,
        log: LogMark::of_new(Major::V1),
    }
}

/// Events `first..first + count`, each with a distinct id.
pub fn events(run: &RunId, first: u64, count: u64) -> Vec<StoredEvent> {
    let event = |sequence| {
        let body = json!({"eventId": format!("evt_{run}_{sequence}"), "runId": run, "sequence": sequence,
            "type": "eval.scored", "causationId": format!("evt_{run}_{}", sequence - 1)});
        StoredEvent {
            sequence,
            kind: "eval.scored".into(),
            body: body.to_string().into(),
        }
    };
    (first..first + count).map(event).collect()
}

pub fn head(sequence: u64, ended: bool) -> Head {
    Head { sequence, ended }
}

/// Creates a run and claims it.
pub async fn claimed(store: &Database, id: &str) -> (RunId, Fence) {
    run_store::runs::create(store, &record(id, "acme", 1), None)
        .await
        .unwrap();
    let claim = run_store::queue::claim(store, "worker", Claimable::All, TTL)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(claim.run.run_id.as_str(), id);
    (claim.run.run_id.clone(), claim.fence)
}
