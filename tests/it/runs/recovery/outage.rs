//! The database accepts no writes for a while, and then recovers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use touchstone_host::store::database::Database;
use touchstone_host::store::database::head;
use touchstone_host::system::SystemClock;
use touchstone_kit::ids::RunId;
use touchstone_runs::rules::run::fold::RunStatus;
use touchstone_runs::service::worker::{Worker, WorkerSettings};

use crate::runs::bench::{Bench, echo};
use crate::store::{Engine, TestStore};

const LEASE: Duration = Duration::from_secs(3);
const SEVERAL_LEASES: Duration = Duration::from_secs(10);
/// Calls in flight when the first write fails have begun if none began for this time.
const SETTLED: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);
const TASKS: usize = 40;
const CONCURRENCY: usize = 4;

/// The part of the storage that rejects writes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lost {
    /// The database file.
    File,
    /// A server's disk: no write succeeds.
    Disk,
    /// Most of a server's disk: small updates still fit.
    MostOfTheDisk,
}

struct Place {
    database: TestStore,
    away: TempDir,
}

impl Place {
    async fn lose(&self, what: Lost) {
        if let TestStore::Sqlite(dir) = &self.database {
            std::fs::rename(dir.path().join("test.db"), self.elsewhere()).unwrap();
            return;
        }
        self.database
            .execute(
                "CREATE FUNCTION full_disk() RETURNS trigger AS $$ BEGIN
                    RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$ LANGUAGE plpgsql"
                    .to_owned(),
            )
            .await;
        let mut lost = vec![
            "INSERT ON event FOR EACH ROW",
            "INSERT OR UPDATE ON write_probe FOR EACH ROW WHEN (LENGTH(NEW.filler) > 0)",
        ];
        if what == Lost::Disk {
            lost.extend(["UPDATE ON run FOR EACH ROW", "INSERT ON blob FOR EACH ROW"]);
        }
        for (n, lost) in lost.iter().enumerate() {
            let sql =
                format!("CREATE TRIGGER full_disk_{n} BEFORE {lost} EXECUTE FUNCTION full_disk()");
            self.database.execute(sql).await;
        }
    }

    async fn restore(&self) {
        if let TestStore::Sqlite(dir) = &self.database {
            std::fs::rename(self.elsewhere(), dir.path().join("test.db")).unwrap();
            return;
        }
        self.database
            .execute("DROP FUNCTION full_disk CASCADE".to_owned())
            .await;
    }

    fn elsewhere(&self) -> PathBuf {
        self.away.path().join("test.db")
    }
}

#[rstest]
#[case::file(Engine::Sqlite, Lost::File)]
#[case::disk(Engine::Postgres, Lost::Disk)]
#[case::most_of_the_disk(Engine::Postgres, Lost::MostOfTheDisk)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_model_is_asked_during_an_outage_and_no_task_twice_after_it(
    #[case] engine: Engine,
    #[case] what: Lost,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let store: Arc<Database> = database.open().await;
    let place = Place {
        database,
        away: TempDir::new().unwrap(),
    };
    let bench = Bench::on(store.clone(), echo);
    let says: Vec<String> = (0..TASKS).map(|n| format!("nap {n}")).collect();
    let says: Vec<&str> = says.iter().map(String::as_str).collect();
    let run = bench.seed(&says, |_| {}).await.run_id;
    let settings = WorkerSettings {
        lease: LEASE,
        poll: Duration::from_millis(20),
        drain: Duration::from_millis(10),
        ..WorkerSettings::default()
    };
    let (clock, owner) = (Arc::new(SystemClock), "replica".to_owned());
    let worker = Worker::new(store, clock, bench.executor.clone(), owner, settings, None);
    let shutdown = CancellationToken::new();
    let working = tokio::spawn(worker.work(shutdown.clone()));

    until(async || bench.model.total() >= 8).await;
    place.lose(what).await;
    let mut asked = 0;
    while bench.model.total() > asked {
        asked = bench.model.total();
        tokio::time::sleep(SETTLED).await;
    }
    assert!(asked < TASKS, "the outage came too late");
    tokio::time::sleep(SEVERAL_LEASES).await;
    assert_eq!(
        bench.model.total(),
        asked,
        "the model was called while nothing could be written"
    );

    place.restore().await;
    until(async || status(&bench, &run).await == RunStatus::Completed).await;
    shutdown.cancel();
    working.await.unwrap();
    for text in &says {
        let calls = bench.model.calls(text);
        assert!((1..=2).contains(&calls), "{text}: {calls} calls");
    }
    // Tasks in flight, and tasks whose results were not yet durable.
    let again = bench.model.total() - TASKS;
    assert!(
        again <= 4 * CONCURRENCY,
        "{again} tasks were requested again"
    );
    let state = bench.state(&run).await;
    let scored = says.iter().enumerate();
    let scored = scored.filter(|(n, _)| state.eval.scored(&format!("task-{n}").into()).is_some());
    assert_eq!(scored.count(), TASKS);
}

async fn status(bench: &Bench, run: &RunId) -> RunStatus {
    let head = head(&bench.store, run).await;
    match head {
        Ok(Some(_)) => bench.state(run).await.status,
        _ => RunStatus::Pending,
    }
}

async fn until(reached: impl AsyncFn() -> bool) {
    let reaching = async {
        while !reached().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reaching).await.unwrap();
}
