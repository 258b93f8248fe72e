//! State after interruptions: every acknowledged write is there, and no partial ones.

use crate::support::host_keys;
use std::time::Duration;
use touchstone_runs::store as run_store;

use rstest::rstest;
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;

use crate::store::{
    Engine, Engine::*, TTL, TestStore, claimed, events, head, open, record, tenant,
};
use touchstone_host::ports::store::StoreError;
use touchstone_runs::ports::queue::Claimable;

#[rstest]
#[tokio::test]
async fn a_reopened_store_continues_its_logs(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let log = events(&run, 1, 300);
    run_store::runs::append(&store, &run, fence, &log, false)
        .await
        .unwrap();
    drop(store);

    let store = database.open().await;
    assert_eq!(
        run_store::runs::read(&store, &run, 0, 1_000).await.unwrap(),
        log
    );
    let found = run_store::runs::find(&store, &tenant("acme"), &run)
        .await
        .unwrap();
    assert_eq!(found, Some(record("run_1", "acme", 1)));
    database.pass(1_000).await;
    let claim = run_store::queue::claim(&store, "next", Claimable::All, TTL)
        .await
        .unwrap()
        .unwrap();
    assert!(claim.fence > fence);
    assert_eq!(claim.head, head(300, false));
}

/// An append whose caller is dropped at any moment is written completely or not at all.
#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_append_is_written_completely_or_not_at_all(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    const BATCH: u64 = 700;

    open!(engine => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let (mut dropped, mut log) = (0, Vec::new());
    for round in 0..40 {
        let reach = touchstone_host::store::database::head(&store, &run)
            .await
            .unwrap()
            .unwrap()
            .sequence;
        assert_eq!(reach % BATCH, 0, "a half");
        let batch = events(&run, reach + 1, BATCH);
        let patience = Duration::from_micros(200 * round);
        let append = run_store::runs::append(&store, &run, fence, &batch, false);
        match tokio::time::timeout(patience, append).await {
            // A dropped append may still have come first.
            Ok(Ok(()) | Err(StoreError::Fenced)) => {}
            Ok(Err(failed)) => panic!("{failed:?}"),
            Err(_) => dropped += 1,
        }
    }
    assert!(dropped > 0, "no append was interrupted");
    let other = database.open().await;
    loop {
        let end = events(&run, log.len() as u64 + 1, 1);
        match run_store::runs::append(&store, &run, fence, &end, true).await {
            Ok(()) => break,
            Err(_) => {
                log = run_store::runs::read(&other, &run, 0, u32::MAX)
                    .await
                    .unwrap()
            }
        }
    }
    log.extend(events(&run, log.len() as u64 + 1, 1));
    assert_eq!(log.len() as u64 % BATCH, 1);
    assert_eq!(log, events(&run, 1, log.len() as u64));
    assert_eq!(
        run_store::runs::read(&other, &run, 0, u32::MAX)
            .await
            .unwrap(),
        log
    );
}

/// Data is on disk when an append returns: the process may die without closing anything.
#[tokio::test]
async fn an_acknowledged_append_is_on_disk() {
    let Some(TestStore::Sqlite(dir)) = Sqlite.database().await else {
        unreachable!("SQLite is always there");
    };
    let database = TestStore::Sqlite(dir);
    let store = database.open().await;
    let (run, fence) = claimed(&store, "run_1").await;
    for round in 0..5 {
        let batch = events(&run, round * 900 + 1, 900);
        run_store::runs::append(&store, &run, fence, &batch, false)
            .await
            .unwrap();

        let left = TempDir::new().unwrap();
        let TestStore::Sqlite(dir) = &database else {
            unreachable!("SQLite was asked for");
        };
        for name in ["test.db", "test.db-wal"] {
            std::fs::copy(dir.path().join(name), left.path().join(name)).unwrap();
        }
        let left = TestStore::Sqlite(left);
        let log = run_store::runs::read(&*left.open().await, &run, 0, u32::MAX)
            .await
            .unwrap();
        assert_eq!(log, events(&run, 1, (round + 1) * 900));
    }
}

/// Several processes may create and open the same database at once.
#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_open_a_new_database_at_once(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(database) = engine.database().await else {
        return;
    };
    let location = database.location();
    let openers = (0..8).map(|n| {
        let location = location.clone();
        tokio::spawn(async move {
            let store = touchstone::database::open(&location, host_keys::usual())
                .await
                .unwrap();
            let run = record(&format!("run_{n}"), "acme", 1);
            run_store::runs::create(&store, &run, None).await.unwrap();
        })
    });
    for opener in openers.collect::<Vec<_>>() {
        opener.await.unwrap();
    }
    assert_eq!(database.runs("acme").await.len(), 8);
}

#[rstest]
#[case::folder("sqlite:/")]
#[case::missing_folder("sqlite:/nonexistent/folder/x.db")]
#[case::bad_url("postgres://user:hunter2@[::bad/x")]
#[case::no_server("postgres://user:hunter2@127.0.0.1:1/x")]
#[tokio::test]
async fn a_store_that_cannot_be_opened_says_so_without_secrets(#[case] location: &str) {
    let error = match touchstone::database::open(location, host_keys::usual()).await {
        Ok(_) => panic!("{location} was opened"),
        Err(error) => error,
    };
    let debug = format!("{error:?}");
    let chain = format!("{debug} {:#}", anyhow::Error::new(error));
    assert!(!chain.contains("hunter2"), "{chain}");
}

/// The server restarts: operations in flight may fail, and then everything works again.
#[tokio::test]
async fn a_lost_connection_is_made_again() {
    open!(Postgres => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let TestStore::Postgres(server) = &database else {
        unreachable!("PostgreSQL was asked for");
    };
    for sequence in 1..=3 {
        server.disconnect_all().await;
        let event = events(&run, sequence, 1);
        run_store::runs::append(&store, &run, fence, &event, false)
            .await
            .unwrap();
    }
    assert_eq!(
        run_store::runs::read(&store, &run, 0, 10).await.unwrap(),
        events(&run, 1, 3)
    );
}

/// Another process locks the file for longer than a caller should wait.
#[tokio::test]
async fn a_locked_database_file_is_a_temporary_error() {
    open!(Sqlite => database, store);
    let mut other = SqliteConnection::connect(&database.location())
        .await
        .unwrap();
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let run = record("run_1", "acme", 1);
    let refused = run_store::runs::create(&store, &run, None).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    lock.rollback().await.unwrap();
    run_store::runs::create(&store, &run, None).await.unwrap();
}

#[tokio::test]
async fn the_concrete_stores_close_in_order() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("test.db");
    let store = touchstone_host::store::database::Database::sqlite(
        &path,
        host_keys::usual(),
        &touchstone::database::SCHEMAS,
    )
    .await
    .unwrap();
    let run = record("run_1", "acme", 1);
    run_store::runs::create(&store, &run, None).await.unwrap();
    store.close().await;
    assert!(
        !dir.path().join("test.db-wal").exists(),
        "checkpointed into the file"
    );
    let refused = run_store::runs::create(&store, &record("run_2", "acme", 1), None).await;
    assert!(matches!(refused, Err(StoreError::Backend(_))));
}
