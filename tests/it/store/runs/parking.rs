//! Waiting runs: no worker claims them before their time, and a process that needs one claims it by
//! id.

use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use sqlx::{Connection as _, PgConnection, SqliteConnection};
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::ports::run_log::CompanionRecord;
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_host::store::database::head;
use touchstone_host::system::SystemClock;
use touchstone_kit::ids::RunId;
use touchstone_openwop::events::DrainPolicy;
use touchstone_runs::ports::pauses::PauseRequest;
use touchstone_runs::ports::queue::{CancelRequest, Claimable, Wait};
use touchstone_runs::rules::run::record::Work;
use touchstone_runs::store as run_store;

use crate::store::{
    Engine, Engine::*, TOO_LONG, TTL, TestStore, claimed, events, open, record, tenant,
};

async fn claim(store: &Database) -> Option<String> {
    let claim = run_store::queue::claim(store, "worker", Claimable::All, TTL).await;
    claim.unwrap().map(|claim| claim.run.run_id.to_string())
}

/// Records that the run resumes.
async fn resume(
    store: &Database,
    run: &RunId,
    fence: Fence,
    sequence: u64,
) -> Result<(), StoreError> {
    let record = record(run.as_str(), "acme", 1);
    let event = events(run, sequence, 1);
    run_store::runs::append_with(
        store,
        &record,
        fence,
        &event,
        false,
        &CompanionRecord::Resumed,
    )
    .await
}

fn until(until: Option<Timestamp>) -> Wait {
    Wait {
        until,
        pause_known: false,
    }
}

#[rstest]
#[tokio::test]
async fn a_parked_run_is_left_alone_until_its_time(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let at = SystemClock.now() + Duration::from_secs(100);
    run_store::queue::park(&store, &run, fence, until(Some(at)))
        .await
        .unwrap();
    database.pass(70).await;
    assert_eq!(claim(&store).await, None);
    database.pass(30).await;
    assert_eq!(claim(&store).await.as_deref(), Some("run_1"));
    let stale = run_store::queue::park(&store, &run, fence, until(None)).await;
    assert!(matches!(stale, Err(StoreError::Fenced)));
}

#[rstest]
#[tokio::test]
async fn a_run_that_waits_for_an_answer_is_cancelled_at_once(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[values(true, false)] asked_before: bool,
) {
    open!(engine => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let request = CancelRequest {
        cancelled_by: "key".to_owned(),
        reason: None,
    };
    if asked_before {
        assert!(
            run_store::queue::request_cancel(&store, &run, &request)
                .await
                .unwrap()
        );
        run_store::queue::park(&store, &run, fence, until(None))
            .await
            .unwrap();
    } else {
        run_store::queue::park(&store, &run, fence, until(None))
            .await
            .unwrap();
        database.pass(1_000_000_000).await;
        assert_eq!(claim(&store).await, None);
        assert!(
            run_store::queue::request_cancel(&store, &run, &request)
                .await
                .unwrap()
        );
    }
    assert_eq!(claim(&store).await.as_deref(), Some("run_1"));
}

#[rstest]
#[tokio::test]
async fn a_run_is_claimed_by_id_unless_it_is_leased(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let (acme, other) = (tenant("acme"), tenant("other"));
    let claim = async |tenant| {
        let claim = run_store::queue::claim_run(&store, tenant, &run, "service", TTL);
        claim.await.unwrap()
    };
    assert!(claim(&acme).await.is_none(), "a worker has the lease");
    run_store::queue::park(&store, &run, fence, until(None))
        .await
        .unwrap();
    assert!(
        claim(&other).await.is_none(),
        "it belongs to another tenant"
    );
    let taken = claim(&acme).await.unwrap();
    assert!(taken.fence > fence);
    let end = events(&run, 1, 1);
    let stale = run_store::runs::append(&store, &run, fence, &end, false).await;
    assert!(matches!(stale, Err(StoreError::Fenced)));
    run_store::runs::append(&store, &run, taken.fence, &end, true)
        .await
        .unwrap();
    database.pass(1_000).await;
    assert!(claim(&acme).await.is_none(), "it has ended");
}

#[rstest]
#[tokio::test]
async fn a_journal_is_never_claimed(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let mut journal = record("run_1", "acme", 1);
    journal.spec.work = Work::Journal;
    run_store::runs::create(&store, &journal, None)
        .await
        .unwrap();
    database.pass(1_000_000_000).await;
    assert_eq!(claim(&store).await, None);
    let taken =
        run_store::queue::claim_run(&store, &tenant("acme"), &journal.run_id, "service", TTL)
            .await
            .unwrap()
            .unwrap();
    assert_eq!(*taken.run, journal);
    run_store::queue::park(&store, &journal.run_id, taken.fence, until(None))
        .await
        .unwrap();
    database.pass(1_000_000_000).await;
    assert_eq!(claim(&store).await, None);
}

#[rstest]
#[tokio::test]
async fn a_pause_reaches_a_run_however_it_waits(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[values(true, false)] asked_before: bool,
) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let request = PauseRequest {
        paused_by: "key".to_owned(),
        reason: Some("lunch".to_owned()),
        drain_policy: DrainPolicy::Immediate,
        requested_at: crate::store::at(0),
    };
    if asked_before {
        assert!(
            run_store::pauses::request_pause(&store, &run, &request)
                .await
                .unwrap()
        );
        run_store::queue::park(&store, &run, fence, until(None))
            .await
            .unwrap();
    } else {
        run_store::queue::park(&store, &run, fence, until(None))
            .await
            .unwrap();
        assert!(
            run_store::pauses::request_pause(&store, &run, &request)
                .await
                .unwrap()
        );
    }
    assert!(
        !run_store::pauses::request_pause(&store, &run, &request)
            .await
            .unwrap(),
        "once"
    );
    let taken = run_store::queue::claim(&store, "worker", Claimable::All, TTL).await;
    let taken = taken.unwrap().unwrap();
    assert_eq!(
        run_store::pauses::pause_requested(&store, &run)
            .await
            .unwrap(),
        Some(request)
    );
    // A known pause does not wake the run again.
    let paused = Wait {
        until: None,
        pause_known: true,
    };
    run_store::queue::park(&store, &run, taken.fence, paused)
        .await
        .unwrap();
    assert_eq!(claim(&store).await, None);
    let resuming = run_store::queue::claim_run(&store, &tenant("acme"), &run, "service", TTL).await;
    resume(&store, &run, resuming.unwrap().unwrap().fence, 1)
        .await
        .unwrap();
    assert_eq!(
        run_store::pauses::pause_requested(&store, &run)
            .await
            .unwrap(),
        None
    );
}

#[rstest]
#[tokio::test]
async fn a_pause_is_taken_or_withdrawn_but_never_both(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let request = PauseRequest {
        paused_by: "key".to_owned(),
        reason: None,
        drain_policy: DrainPolicy::DrainCurrentNode,
        requested_at: crate::store::at(0),
    };
    assert!(
        !run_store::pauses::withdraw_pause(&store, &run)
            .await
            .unwrap(),
        "no pause is pending"
    );
    assert_eq!(
        run_store::pauses::take_pause(&store, &run, fence)
            .await
            .unwrap(),
        None
    );

    assert!(
        run_store::pauses::request_pause(&store, &run, &request)
            .await
            .unwrap()
    );
    assert!(
        run_store::pauses::withdraw_pause(&store, &run)
            .await
            .unwrap()
    );
    assert_eq!(
        run_store::pauses::take_pause(&store, &run, fence)
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        run_store::pauses::pause_requested(&store, &run)
            .await
            .unwrap(),
        None
    );

    assert!(
        run_store::pauses::request_pause(&store, &run, &request)
            .await
            .unwrap()
    );
    let stale = Fence(fence.0 - 1);
    assert_eq!(
        run_store::pauses::take_pause(&store, &run, stale)
            .await
            .unwrap(),
        None
    );
    let taken = run_store::pauses::take_pause(&store, &run, fence)
        .await
        .unwrap();
    assert_eq!(taken.as_ref(), Some(&request));
    assert!(
        !run_store::pauses::withdraw_pause(&store, &run)
            .await
            .unwrap(),
        "it was taken"
    );
    assert_eq!(
        run_store::pauses::pause_requested(&store, &run)
            .await
            .unwrap(),
        taken
    );

    resume(&store, &run, fence, 1).await.unwrap();
    assert!(
        run_store::pauses::request_pause(&store, &run, &request)
            .await
            .unwrap()
    );
    assert!(
        run_store::pauses::withdraw_pause(&store, &run)
            .await
            .unwrap(),
        "a new one"
    );
}

#[rstest]
#[tokio::test]
async fn a_late_resume_does_not_end_a_later_pause(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, first) = claimed(&store, "run_1").await;
    let request = |by: &str| PauseRequest {
        paused_by: by.to_owned(),
        reason: None,
        drain_policy: DrainPolicy::Immediate,
        requested_at: crate::store::at(0),
    };
    assert!(
        run_store::pauses::request_pause(&store, &run, &request("first"))
            .await
            .unwrap()
    );
    run_store::pauses::take_pause(&store, &run, first)
        .await
        .unwrap()
        .unwrap();
    run_store::queue::release(&store, &run, first)
        .await
        .unwrap();
    let second = run_store::queue::claim_run(&store, &tenant("acme"), &run, "service", TTL).await;
    let second = second.unwrap().unwrap().fence;
    resume(&store, &run, second, 1).await.unwrap();

    let later = request("second");
    assert!(
        run_store::pauses::request_pause(&store, &run, &later)
            .await
            .unwrap()
    );
    for (fence, sequence) in [(first, 2), (second, 1)] {
        let late = resume(&store, &run, fence, sequence).await;
        assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    }
    assert_eq!(
        run_store::pauses::pause_requested(&store, &run)
            .await
            .unwrap(),
        Some(later)
    );
    let head = head(&store, &run).await.unwrap();
    assert_eq!(head, Some(crate::store::head(1, false)));
}

#[rstest]
#[tokio::test]
async fn a_host_secret_is_made_once(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let first = store.host_secret("tokens", [1; 32]).await.unwrap();
    let other = database.open().await;
    assert_eq!(other.host_secret("tokens", [2; 32]).await.unwrap(), first);
    assert_eq!(other.host_secret("others", [3; 32]).await.unwrap(), [3; 32]);
}

#[rstest]
#[tokio::test]
async fn a_host_secret_that_is_there_costs_no_write(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let made = store.host_secret("tokens", [1; 32]).await.unwrap();
    let asked = async {
        let found = store.host_secret("tokens", [2; 32]).await;
        assert_eq!(found.unwrap(), made);
    };
    // Writes are blocked in the meantime.
    match &database {
        TestStore::Sqlite(_) => {
            let mut other = SqliteConnection::connect(&database.location())
                .await
                .unwrap();
            let _held = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
            asked.await;
        }
        TestStore::Postgres(_) => {
            let mut other = PgConnection::connect(&database.location()).await.unwrap();
            let mut held = other.begin().await.unwrap();
            sqlx::query("LOCK TABLE host_secret IN SHARE ROW EXCLUSIVE MODE")
                .execute(&mut *held)
                .await
                .unwrap();
            tokio::time::timeout(TOO_LONG, asked).await.unwrap();
        }
    }
}
