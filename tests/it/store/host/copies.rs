//! Copies of a database: what they hold, and what is seen of a database without opening it.

use std::time::Duration;

use rstest::rstest;
use sqlx::{Connection as _, SqliteConnection};

use crate::store::webhooks::webhook;
use crate::store::{Engine, Engine::*, TTL, TestStore, at, claimed, events, open, record, tenant};
use touchstone::database::SCHEMAS;
use touchstone_host::audit::Decision;
use touchstone_host::store::audit;
use touchstone_host::store::copies::held::HeldCount;
use touchstone_host::store::copies::inspection::inspect;
use touchstone_host::store::copies::snapshot::snapshot;
use touchstone_host::store::database::Database;
use touchstone_runs::ports::queue::Claimable;
use touchstone_runs::store as run_store;

const HOUR: Duration = Duration::from_secs(3600);

fn decision(action: &str) -> Decision {
    Decision::done(at(0), "host:restore", action, "database".to_owned())
}

async fn claim(store: &Database) -> Option<String> {
    let claim = run_store::queue::claim(store, "worker", Claimable::All, TTL);
    let claim = claim.await.unwrap();
    claim.map(|claim| claim.run.run_id.to_string())
}

async fn serves_webhooks(store: &Database) -> bool {
    let claim = run_store::webhooks::claim(store, "dispatcher", HOUR, at(0));
    claim.await.unwrap().is_some()
}

fn counts(held: &[HeldCount]) -> Vec<(&'static str, u64)> {
    held.iter().map(|it| (it.name, it.count)).collect()
}

#[rstest]
#[tokio::test]
async fn a_copy_holds_runs_and_webhooks_until_it_takes_over(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let created = run_store::webhooks::create(&store, &webhook("wh_1", "acme"), 9).await;
    assert!(created.unwrap());
    let (run, fence) = claimed(&store, "run_1").await;
    run_store::runs::append(&store, &run, fence, &events(&run, 1, 2), false)
        .await
        .unwrap();
    run_store::queue::release(&store, &run, fence)
        .await
        .unwrap();
    audit::record_alone(&store, &tenant("acme"), &decision("packs:install"))
        .await
        .unwrap();

    let held = store.begin_copy(true, &decision("backup:restore")).await;
    assert_eq!(
        counts(&held.unwrap()),
        [("unfinished runs", 1), ("webhooks", 1)]
    );
    assert_eq!(claim(&store).await, None);
    assert!(!serves_webhooks(&store).await);
    // What is created in the copy is its own.
    run_store::runs::create(&store, &record("run_2", "acme", 1), None)
        .await
        .unwrap();
    assert_eq!(claim(&store).await.as_deref(), Some("run_2"));

    let released = store.release_held(&decision("backup:take-over")).await;
    assert_eq!(
        counts(&released.unwrap()),
        [("unfinished runs", 1), ("webhooks", 1)]
    );
    assert_eq!(store.held().await.unwrap(), []);
    assert_eq!(claim(&store).await, Some(run.to_string()));
    assert!(serves_webhooks(&store).await);
    let entries = store.audit_entries(&tenant("acme"), 0, 9).await.unwrap();
    assert!(entries.iter().all(|link| link.is_intact()));
    let actions: Vec<String> = entries
        .iter()
        .map(|link| {
            let entry: serde_json::Value = serde_json::from_str(&link.body).unwrap();
            entry["action"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        actions,
        ["packs:install", "backup:restore", "backup:take-over"]
    );
}

#[rstest]
#[tokio::test]
async fn a_copy_that_takes_over_at_once_holds_nothing(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    run_store::queue::release(&store, &run, fence)
        .await
        .unwrap();
    let held = store.begin_copy(false, &decision("backup:restore")).await;
    assert_eq!(held.unwrap(), []);
    assert_eq!(claim(&store).await, Some(run.to_string()));
    drop(database);
}

#[rstest]
#[tokio::test]
async fn an_inspection_changes_nothing(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let location = database.location();
    let found = inspect(&location, &SCHEMAS).await.unwrap();
    assert_eq!((found.pending, found.faults.len()), (0, 0));
    assert_eq!(
        found.journal_mode.as_deref(),
        (engine == Sqlite).then_some("wal")
    );
    store.close().await;
    database
        .execute("DELETE FROM schema_migration WHERE feature = 'ratings'".to_owned())
        .await;
    let found = inspect(&location, &SCHEMAS).await.unwrap();
    assert!(found.pending > 0);
    assert_eq!(inspect(&location, &SCHEMAS).await.unwrap(), found);
    let newer = "INSERT INTO schema_migration (feature, version, checksum, applied_at) VALUES ('host', 99, '', 0)";
    database.execute(newer.to_owned()).await;
    let refused = inspect(&location, &SCHEMAS).await.unwrap_err();
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert!(cause.contains("newer version"), "{cause}");
}

#[tokio::test]
async fn a_snapshot_is_whole_while_others_write() {
    open!(Sqlite => database, store);
    let TestStore::Sqlite(folder) = &database else {
        unreachable!("SQLite was asked for");
    };
    let (run, fence) = claimed(&store, "run_1").await;
    let writing = async {
        for n in 0..200 {
            let batch = events(&run, 1 + n * 5, 5);
            run_store::runs::append(&store, &run, fence, &batch, false)
                .await
                .unwrap();
        }
    };
    let copying = async {
        let mut copies = Vec::new();
        for n in 0..5 {
            let to = folder.path().join(format!("copy-{n}.db"));
            snapshot(&folder.path().join("test.db"), &to).await.unwrap();
            copies.push(to);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        copies
    };
    let ((), copies) = tokio::join!(writing, copying);
    let mut last = 0;
    for copy in copies {
        let location = format!("sqlite:{}", copy.display());
        let found = inspect(&location, &SCHEMAS).await.unwrap();
        assert_eq!((found.pending, found.faults), (0, Vec::new()));
        let mut connection = SqliteConnection::connect(&location).await.unwrap();
        let (head, events): (i64, i64) =
            sqlx::query_as("SELECT (SELECT head FROM run), (SELECT COUNT(*) FROM event)")
                .fetch_one(&mut connection)
                .await
                .unwrap();
        assert_eq!(
            head, events,
            "a batch is there with its head, or not at all"
        );
        assert!(head >= last && head % 5 == 0);
        last = head;
    }
    let existing = folder.path().join("copy-0.db");
    assert!(
        snapshot(&folder.path().join("test.db"), &existing)
            .await
            .is_err()
    );
}
