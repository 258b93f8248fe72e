//! Leases of a process that has ended are released at once where that can be known: on SQLite, by a lock that ends with it.

use std::time::Duration;

use jiff::Timestamp;

use super::{Database, Engine::*, TTL, claimed, open, record};
use touchstone::ports::{
    Claim, Claimable, IdempotencyBegin, IdempotencyClaim, IdempotencyCompletion, Store,
};

const HOUR: Duration = Duration::from_secs(3600);

async fn claim(store: &dyn Store) -> Option<Claim> {
    store.claim("worker", Claimable::All, TTL).await.unwrap()
}

fn request() -> IdempotencyClaim {
    IdempotencyClaim {
        tenant: "acme".into(),
        endpoint: "POST /v1/runs".to_owned(),
        key_hash: [1; 32],
        digest: [1; 32],
        owner: "request".to_owned(),
    }
}

fn lock_files(database: &Database) -> usize {
    let Database::Sqlite(dir) = database else {
        unreachable!("SQLite was asked for");
    };
    let folder = std::fs::read_dir(dir.path().join("test.db-owners"));
    folder.unwrap().count()
}

#[tokio::test]
async fn a_run_of_a_dead_process_is_claimed_when_the_next_one_starts() {
    open!(Sqlite => database, dead);
    let (run, fence) = claimed(&*dead, "run_1").await;
    // Its lock ends when the process does.
    drop(dead);
    let store = database.open().await;
    let next = claim(&*store).await.unwrap();
    assert_eq!(next.run.run_id, run);
    assert!(next.fence > fence);
    assert_eq!(lock_files(&database), 1, "the dead one's is removed");
}

#[tokio::test]
async fn a_run_of_a_dead_process_is_claimed_by_one_that_was_there_before() {
    open!(Sqlite => database, store);
    assert!(claim(&*store).await.is_none());
    let other = database.open().await;
    let (run, _) = claimed(&*other, "run_1").await;
    drop(other);
    assert_eq!(claim(&*store).await.unwrap().run.run_id, run);
}

#[tokio::test]
async fn a_live_process_keeps_its_leases_when_others_come_and_go() {
    open!(Sqlite => database, store);
    claimed(&*store, "run_1").await;
    for _ in 0..3 {
        let other = database.open().await;
        assert!(claim(&*other).await.is_none());
    }
    assert!(claim(&*store).await.is_none());
}

/// A stopped process keeps its lock, and its lease runs out all the same.
#[tokio::test]
async fn a_live_process_that_is_not_heard_of_loses_its_lease() {
    open!(Sqlite => database, store);
    let (run, _) = claimed(&*store, "run_1").await;
    let other = database.open().await;
    database.pass(29).await;
    assert!(claim(&*other).await.is_none());
    database.pass(1).await;
    assert_eq!(claim(&*other).await.unwrap().run.run_id, run);
}

/// A copy of a database has none of the processes that held its leases.
#[tokio::test]
async fn a_database_that_was_moved_has_no_owners() {
    open!(Sqlite => database, store);
    let (run, _) = claimed(&*store, "run_1").await;
    let Database::Sqlite(dir) = &database else {
        unreachable!("SQLite was asked for");
    };
    let copy = tempfile::TempDir::new().unwrap();
    for name in ["test.db", "test.db-wal"] {
        std::fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    let copy = Database::Sqlite(copy);
    let moved = copy.open().await;
    assert_eq!(claim(&*moved).await.unwrap().run.run_id, run);
}

#[tokio::test]
async fn a_key_of_a_dead_process_is_free_at_once() {
    open!(Sqlite => database, store);
    let dead = database.open().await;
    let now = Timestamp::now();
    let begun = dead.begin(&request(), now, HOUR).await.unwrap();
    assert_eq!(begun, IdempotencyBegin::Fresh);
    let other = IdempotencyClaim {
        owner: "another request".to_owned(),
        ..request()
    };
    let waiting = store.begin(&other, now, HOUR).await.unwrap();
    assert!(
        matches!(waiting, IdempotencyBegin::InFlight { .. }),
        "{waiting:?}"
    );
    drop(dead);
    let begun = store.begin(&other, now, HOUR).await.unwrap();
    assert_eq!(begun, IdempotencyBegin::Fresh);
    let answer = IdempotencyCompletion {
        claim: other,
        status: 201,
        body: "{}".into(),
    };
    let run = record("run_1", "acme", 1);
    store.create(&run, Some(&answer)).await.unwrap();
}
