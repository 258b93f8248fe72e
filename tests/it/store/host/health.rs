//! A database that answers reads and accepts no writes.

use std::time::{Duration, Instant};

use rstest::rstest;
use sqlx::{Connection as _, PgConnection, SqliteConnection};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::store::{Engine, Engine::*, TTL, TestStore, claimed, events, open, record};
use crate::support::host_keys;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_host::store::database::head;
use touchstone_runs::ports::queue::{CancelRequest, Claimable};
use touchstone_runs::store as run_store;

/// A check's result is cached for one second.
const STALE: Duration = Duration::from_millis(1_100);

#[derive(Debug, PartialEq)]
struct Probe {
    written_at: i64,
    length: i64,
}

/// The record of the last check, if there was one.
async fn probe(database: &TestStore) -> Option<Probe> {
    const SQL: &str =
        "SELECT written_at, CAST(LENGTH(filler) AS BIGINT) AS length FROM write_probe WHERE id = 1";
    let location = database.location();
    let row: Option<(i64, i64)> = match database {
        TestStore::Sqlite(_) => {
            let mut connection = SqliteConnection::connect(&location).await.unwrap();
            sqlx::query_as(SQL).fetch_optional(&mut connection).await
        }
        TestStore::Postgres(_) => {
            let mut connection = PgConnection::connect(&location).await.unwrap();
            sqlx::query_as(SQL).fetch_optional(&mut connection).await
        }
    }
    .unwrap();
    row.map(|(written_at, length)| Probe { written_at, length })
}

fn assert_unavailable<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(
        matches!(result, Err(StoreError::Unavailable(_))),
        "{result:?}"
    );
}

#[rstest]
#[tokio::test]
async fn a_check_is_a_write_and_made_once_a_second(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    assert_eq!(probe(&database).await, None);
    let first = loop {
        let begun = Instant::now();
        store.check_writable().await.unwrap();
        let first = probe(&database).await.unwrap();
        assert_eq!(first.length, 0);
        for _ in 0..50 {
            store.check_writable().await.unwrap();
        }
        // If the machine was busy for a second, another check was due.
        let is_fresh = begun.elapsed() < Duration::from_secs(1);
        let last = probe(&database).await.unwrap();
        tokio::time::sleep(STALE).await;
        if is_fresh {
            assert_eq!(last, first);
            break first;
        }
    };
    store.check_writable().await.unwrap();
    assert!(probe(&database).await.unwrap().written_at > first.written_at);
}

#[rstest]
#[tokio::test]
async fn an_outage_ends_when_there_is_room_for_more_than_a_few_bytes(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    assert!(!store.in_outage());
    assert!(store.takes_writes().await);
    assert_eq!(
        probe(&database).await,
        None,
        "without a failure, the store is not checked"
    );
    store.report_outage();
    assert!(store.in_outage());
    assert!(store.takes_writes().await);
    assert!(!store.in_outage());
    assert_eq!(probe(&database).await.unwrap().length, 64 * 1024);
    tokio::time::sleep(STALE).await;
    store.check_writable().await.unwrap();
    assert_eq!(
        probe(&database).await.unwrap().length,
        0,
        "the space is released"
    );
}

/// SQLite does this on a full disk: it rolls the transaction back by itself.
#[rstest]
#[tokio::test]
async fn a_transaction_that_the_database_ended_does_not_spoil_the_next_one(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let created = match engine {
        Sqlite => vec![
            "CREATE TRIGGER broken BEFORE INSERT ON event BEGIN SELECT RAISE(ROLLBACK, 'broken'); END",
        ],
        Postgres => vec![
            "CREATE FUNCTION broken() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$ LANGUAGE plpgsql",
            "CREATE TRIGGER broken BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION broken()",
        ],
    };
    for sql in created {
        database.execute(sql.to_owned()).await;
    }
    for _ in 0..3 {
        let refused =
            run_store::runs::append(&store, &run, fence, &events(&run, 1, 2), false).await;
        assert!(
            matches!(refused, Err(StoreError::Backend(_))),
            "{refused:?}"
        );
    }
    let another = record("run_2", "acme", 1);
    run_store::runs::create(&store, &another, None)
        .await
        .unwrap();
    let dropped = match engine {
        Sqlite => "DROP TRIGGER broken",
        Postgres => "DROP TRIGGER broken ON event",
    };
    database.execute(dropped.to_owned()).await;
    run_store::runs::append(&store, &run, fence, &events(&run, 1, 2), false)
        .await
        .unwrap();
    assert_eq!(
        run_store::runs::read(&store, &run, 0, 10).await.unwrap(),
        events(&run, 1, 2)
    );
}

/// On a full disk the statement succeeds and its commit does not.
#[rstest]
#[tokio::test]
async fn a_claim_whose_commit_fails_is_not_a_claim(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let run = record("run_1", "acme", 1);
    run_store::runs::create(&store, &run, None).await.unwrap();
    let table = "CREATE TABLE broken (
        run_id TEXT REFERENCES run (run_id) DEFERRABLE INITIALLY DEFERRED)";
    let trigger = match engine {
        Sqlite => vec![
            "CREATE TRIGGER broken AFTER UPDATE ON run BEGIN INSERT INTO broken VALUES ('none'); END",
        ],
        Postgres => vec![
            "CREATE FUNCTION broken() RETURNS trigger AS $$ BEGIN
                INSERT INTO broken VALUES ('none'); RETURN NULL; END $$ LANGUAGE plpgsql",
            "CREATE TRIGGER broken AFTER UPDATE ON run FOR EACH ROW EXECUTE FUNCTION broken()",
        ],
    };
    database.execute(table.to_owned()).await;
    for sql in trigger {
        database.execute(sql.to_owned()).await;
    }
    let claimed = run_store::queue::claim(&store, "worker", Claimable::All, TTL).await;
    assert!(
        matches!(claimed, Err(StoreError::Backend(_))),
        "{claimed:?}"
    );
    let dropped = match engine {
        Sqlite => "DROP TRIGGER broken",
        Postgres => "DROP TRIGGER broken ON run",
    };
    database.execute(dropped.to_owned()).await;
    let claim = run_store::queue::claim(&store, "worker", Claimable::All, TTL)
        .await
        .unwrap();
    assert_eq!(claim.unwrap().run.run_id, run.run_id);
}

async fn assert_refuses_writes(store: &Database) {
    let run = record("run_2", "acme", 1);
    assert_unavailable(run_store::runs::create(store, &run, None).await);
    let request = CancelRequest {
        cancelled_by: "key_1".to_owned(),
        reason: None,
    };
    assert_unavailable(run_store::queue::request_cancel(store, &run.run_id, &request).await);
    assert_unavailable(store.check_writable().await);
}

/// Data written to a deleted file is lost when the process ends.
#[cfg(unix)]
#[rstest]
#[tokio::test]
async fn nothing_is_written_to_a_deleted_moved_or_replaced_database_file(
    #[values("deleted", "moved", "replaced")] way: &str,
) {
    let dir = TempDir::new().unwrap();
    let other = TempDir::new().unwrap();
    let path = dir.path().join("test.db");
    let store = touchstone::database::open(path.to_str().unwrap(), host_keys::usual())
        .await
        .unwrap();
    let (run, _) = claimed(&store, "run_1").await;
    match way {
        "moved" => std::fs::rename(&path, other.path().join("away.db")).unwrap(),
        way => {
            for name in ["test.db", "test.db-wal", "test.db-shm"] {
                std::fs::remove_file(dir.path().join(name)).unwrap();
            }
            if way == "replaced" {
                let fresh = touchstone_host::store::database::Database::sqlite(
                    &path,
                    host_keys::usual(),
                    &touchstone::database::SCHEMAS,
                )
                .await
                .unwrap();
                fresh.close().await;
            }
        }
    }
    assert_refuses_writes(&store).await;
    assert_eq!(
        path.exists(),
        way == "replaced",
        "the file was created again"
    );
    if way == "moved" {
        std::fs::rename(other.path().join("away.db"), &path).unwrap();
        tokio::time::sleep(STALE).await;
        store.check_writable().await.unwrap();
        run_store::runs::create(&store, &record("run_2", "acme", 1), None)
            .await
            .unwrap();
        assert!(head(&store, &run).await.unwrap().is_some());
    }
}

/// The last commits are only in that file.
#[cfg(unix)]
#[tokio::test]
async fn nothing_is_written_when_the_write_ahead_log_is_missing() {
    open!(Sqlite => database, store);
    claimed(&store, "run_1").await;
    let TestStore::Sqlite(dir) = &database else {
        unreachable!("SQLite was asked for");
    };
    // The connection returns to its pool in the background.
    tokio::time::sleep(STALE).await;
    let (log, away) = (dir.path().join("test.db-wal"), dir.path().join("away"));
    std::fs::rename(&log, &away).unwrap();
    assert_refuses_writes(&store).await;
    assert!(!log.exists(), "the log was created again");
    std::fs::rename(&away, &log).unwrap();
    tokio::time::sleep(STALE).await;
    store.check_writable().await.unwrap();
    run_store::runs::create(&store, &record("run_2", "acme", 1), None)
        .await
        .unwrap();
    assert!(head(&store, &"run_1".into()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_full_disk_of_the_server_is_an_outage() {
    open!(Postgres => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    for sql in [
        "CREATE FUNCTION full_disk() RETURNS trigger AS $$ BEGIN
            RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$ LANGUAGE plpgsql",
        "CREATE TRIGGER full_disk BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION full_disk()",
    ] {
        database.execute(sql.to_owned()).await;
    }
    assert_unavailable(
        run_store::runs::append(&store, &run, fence, &events(&run, 1, 2), false).await,
    );
    database
        .execute("DROP TRIGGER full_disk ON event".to_owned())
        .await;
    run_store::runs::append(&store, &run, fence, &events(&run, 1, 2), false)
        .await
        .unwrap();
}

/// After a failover, existing connections lead to a server that is now read-only; new ones are made
/// when needed.
#[tokio::test]
async fn a_read_only_server_is_an_outage_that_no_connection_outlives() {
    open!(Postgres => database, store);
    let TestStore::Postgres(server) = &database else {
        unreachable!("PostgreSQL was asked for");
    };
    claimed(&store, "run_1").await;
    let read_only = async |value: &str| {
        let mut connection = PgConnection::connect(&database.location()).await.unwrap();
        let sql = format!(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = {value}', current_database()); END $$"
        );
        for sql in ["SET default_transaction_read_only = off", sql.as_str()] {
            let sql = sqlx::AssertSqlSafe(sql.to_owned());
            sqlx::query(sql).execute(&mut connection).await.unwrap();
        }
        connection.close().await.unwrap();
    };
    read_only("on").await;
    server.disconnect_all().await;
    assert_refuses_writes(&store).await;
    assert!(head(&store, &"run_1".into()).await.unwrap().is_some());
    read_only("off").await;
    tokio::time::sleep(STALE).await;
    store.check_writable().await.unwrap();
    for n in 2..20 {
        let run = record(&format!("run_{n}"), "acme", 1);
        run_store::runs::create(&store, &run, None).await.unwrap();
    }
}

/// Error responses of proxies while the server behind them restarts.
#[rstest]
#[case::zero(b"\0")]
#[case::http(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")]
#[case::nothing(b"")]
#[case::half_a_handshake(b"S\x16\x03")]
#[case::half_a_message(b"NR\0")]
#[tokio::test]
async fn a_proxy_without_its_server_is_an_outage(#[case] answer: &'static [u8]) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let proxy = tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut asked = [0; 8];
            let _ = client.read_exact(&mut asked).await;
            let _ = client.write_all(answer).await;
        }
    });
    let url = format!("postgres://someone@{address}/x?sslmode=prefer");
    match touchstone::database::open(&url, host_keys::usual()).await {
        Ok(_) => panic!("connected without a server"),
        Err(refused) => assert_unavailable(Err::<(), _>(refused)),
    }
    proxy.abort();
}
