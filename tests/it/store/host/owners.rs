//! Leases of an ended process are released at once where its end can be detected: on SQLite,
//! through a file lock.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::store::runs::calibrations::{attempt, calibration};
use crate::store::webhooks::webhook;
use crate::store::{Engine::*, TTL, TestStore, at, claimed, events, open, record, tenant};
use touchstone_host::ports::idempotency::{
    IdempotencyBegin, IdempotencyClaim, IdempotencyCompletion,
};
use touchstone_host::store::database::Database;
use touchstone_host::store::jobs as job_store;
use touchstone_runs::ports::queue::{Claimable, RunClaim};
use touchstone_runs::store as run_store;

const HOUR: Duration = Duration::from_secs(3600);

async fn claim(store: &Database) -> Option<RunClaim> {
    run_store::queue::claim(store, "worker", Claimable::All, TTL)
        .await
        .unwrap()
}

/// Asks until there is an answer, for less than a lease. A process that another test is starting
/// holds copies of all locks of this one until it executes its program.
async fn soon<T>(ask: impl AsyncFn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < TTL / 2, "the dead process keeps it");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
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

fn lock_files(database: &TestStore) -> usize {
    let TestStore::Sqlite(dir) = database else {
        unreachable!("SQLite was asked for");
    };
    let folder = std::fs::read_dir(dir.path().join("test.db-owners"));
    folder.unwrap().count()
}

#[tokio::test]
async fn a_run_of_a_dead_process_is_claimed_when_the_next_one_starts() {
    open!(Sqlite => database, dead);
    let (run, fence) = claimed(&dead, "run_1").await;
    // Its lock is released when the process ends.
    drop(dead);
    let store = database.open().await;
    let next = soon(async || claim(&store).await).await;
    assert_eq!(next.run.run_id, run);
    assert!(next.fence > fence);
    assert_eq!(
        lock_files(&database),
        1,
        "the dead process's lock file is removed"
    );
}

#[tokio::test]
async fn a_run_of_a_dead_process_is_claimed_by_one_that_was_there_before() {
    open!(Sqlite => database, store);
    assert!(claim(&store).await.is_none());
    let other = database.open().await;
    let (run, _) = claimed(&other, "run_1").await;
    drop(other);
    let next = soon(async || claim(&store).await).await;
    assert_eq!(next.run.run_id, run);
}

#[tokio::test]
async fn a_live_process_keeps_its_leases_when_others_come_and_go() {
    open!(Sqlite => database, store);
    claimed(&store, "run_1").await;
    for _ in 0..3 {
        let other = database.open().await;
        assert!(claim(&other).await.is_none());
    }
    assert!(claim(&store).await.is_none());
}

/// A stopped process keeps its lock, and its lease expires normally.
#[tokio::test]
async fn a_silent_live_process_loses_its_lease() {
    open!(Sqlite => database, store);
    let (run, _) = claimed(&store, "run_1").await;
    let other = database.open().await;
    // The lease also runs while the test works.
    database.pass(15).await;
    assert!(claim(&other).await.is_none());
    database.pass(15).await;
    assert_eq!(claim(&other).await.unwrap().run.run_id, run);
}

/// A copied database has no live owners of its leases.
#[tokio::test]
async fn a_copied_database_has_no_lease_owners() {
    open!(Sqlite => database, store);
    let (run, _) = claimed(&store, "run_1").await;
    let TestStore::Sqlite(dir) = &database else {
        unreachable!("SQLite was asked for");
    };
    let copy = tempfile::TempDir::new().unwrap();
    for name in ["test.db", "test.db-wal"] {
        std::fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    let copy = TestStore::Sqlite(copy);
    let moved = copy.open().await;
    assert_eq!(claim(&moved).await.unwrap().run.run_id, run);
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
    soon(async || {
        let begun = store.begin(&other, now, HOUR).await.unwrap();
        (begun == IdempotencyBegin::Fresh).then_some(())
    })
    .await;
    let answer = IdempotencyCompletion {
        claim: other,
        status: 201,
        body: "{}".into(),
    };
    let run = record("run_1", "acme", 1);
    run_store::runs::create(&store, &run, Some(&answer))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_webhook_of_a_dead_process_is_served_by_the_next_one() {
    open!(Sqlite => database, store);
    let dead = database.open().await;
    assert!(
        run_store::webhooks::create(&store, &webhook("wh_1", "acme"), 9)
            .await
            .unwrap()
    );
    let (run, fence) = claimed(&store, "run_1").await;
    run_store::runs::append(&store, &run, fence, &events(&run, 1, 2), false)
        .await
        .unwrap();
    let lost = run_store::webhooks::claim(&dead, "dispatcher", HOUR, at(0))
        .await
        .unwrap();
    let lost = lost.unwrap();
    let waiting = run_store::webhooks::claim(&store, "dispatcher", HOUR, at(0))
        .await
        .unwrap();
    assert!(waiting.is_none(), "a live process holds it");
    drop(dead);
    let next = soon(async || {
        let next = run_store::webhooks::claim(&store, "dispatcher", HOUR, at(0));
        next.await.unwrap()
    })
    .await;
    assert!(next.fence > lost.fence);
}

#[tokio::test]
async fn a_job_and_a_calibration_of_a_dead_process_are_free_at_once() {
    open!(Sqlite => database, store);
    let (ours, dead) = (tenant("acme"), database.open().await);
    let found = calibration("sha256-a", 0.9);
    let (lost, next) = (
        attempt("calibration_1", &found),
        attempt("calibration_2", &found),
    );
    assert!(
        job_store::begin_job(&dead, "job", "a", at(0), HOUR)
            .await
            .unwrap()
    );
    run_store::calibrations::begin_attempt(&dead, &ours, &lost, HOUR, None)
        .await
        .unwrap();
    assert!(
        !job_store::begin_job(&store, "job", "b", at(0), HOUR)
            .await
            .unwrap()
    );
    let refused = run_store::calibrations::begin_attempt(&store, &ours, &next, HOUR, None).await;
    assert!(refused.is_err(), "a live process holds it");
    drop(dead);
    soon(async || {
        let begun = run_store::calibrations::begin_attempt(&store, &ours, &next, HOUR, None);
        begun.await.ok()
    })
    .await;
    let shown = run_store::calibrations::find_attempt(&store, &ours, "calibration_1")
        .await
        .unwrap();
    assert!(!shown.unwrap().held);
    assert!(
        job_store::begin_job(&store, "job", "b", at(0), HOUR)
            .await
            .unwrap()
    );
}

/// The lease clock starts with the machine, decades after the wall clock's epoch.
#[tokio::test]
async fn no_lease_is_measured_by_the_wall_clock() {
    open!(Sqlite => database, store);
    let wall_clock = Timestamp::now().as_microsecond();
    assert!(
        run_store::webhooks::create(&store, &webhook("wh_1", "acme"), 9)
            .await
            .unwrap()
    );
    let (run, fence) = claimed(&store, "run_1").await;
    run_store::runs::append(&store, &run, fence, &events(&run, 1, 2), false)
        .await
        .unwrap();
    run_store::webhooks::claim(&store, "dispatcher", TTL, at(0))
        .await
        .unwrap();
    job_store::begin_job(&store, "job", "a", at(0), TTL)
        .await
        .unwrap();
    let held = attempt("calibration_1", &calibration("sha256-a", 0.9));
    run_store::calibrations::begin_attempt(&store, &tenant("acme"), &held, TTL, None)
        .await
        .unwrap();
    store
        .begin(&request(), Timestamp::now(), TTL)
        .await
        .unwrap();
    for leases in [
        "SELECT CAST(CAST(MAX(lease_until) AS TEXT) AS BLOB) FROM run",
        "SELECT CAST(CAST(MAX(lease_until) AS TEXT) AS BLOB) FROM idempotency",
        "SELECT CAST(CAST(MAX(lease_until) AS TEXT) AS BLOB) FROM webhook",
        "SELECT CAST(CAST(MAX(lease_until) AS TEXT) AS BLOB) FROM job",
        "SELECT CAST(CAST(MAX(lease_until) AS TEXT) AS BLOB) FROM calibration_attempt",
    ] {
        let until = String::from_utf8(database.bytes(leases).await).unwrap();
        let until: i64 = until.parse().unwrap();
        assert!(0 < until && until < wall_clock / 2, "{leases}: {until}");
    }
}
