//! Signals: every waiter wakes when there is news, and no waiter polls the database.

use crate::support::host_keys;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use touchstone_host::store::database::Database;
use touchstone_runs::store as run_store;

use rstest::rstest;
use sqlx::postgres::PgListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::store::{Engine, Engine::*, TOO_LONG, TestStore, claimed, events, head, open, record};
use touchstone_host::ports::fanout::{Fanout, Undelivered};
use touchstone_host::ports::run_log::Head;
use touchstone_runs::ports::queue::CancelRequest;

/// Follows a run to its end like a stream: read, then wait for more.
async fn follow(store: Arc<Database>, run: touchstone_kit::ids::RunId) -> u64 {
    let mut known = Head::default();
    while !known.ended {
        store.run_changed(&run, known, TOO_LONG).await;
        // A connection may break during a query; the next query gets another one.
        if let Ok(Some(reach)) = touchstone_host::store::database::head(&store, &run).await
            && let Ok(news) = run_store::runs::read(&store, &run, known.sequence, u32::MAX).await
        {
            assert!(known.sequence + news.len() as u64 >= reach.sequence);
            known = reach;
        }
    }
    known.sequence
}

/// Appends come as fast as possible, so that many fall between a follower's read and its wait.
#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_up_is_lost(#[values(Sqlite, Postgres)] engine: Engine) {
    const EVENTS: u64 = 300;

    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let mut followers = JoinSet::new();
    for _ in 0..8 {
        followers.spawn(follow(Arc::clone(&store), run.clone()));
    }
    for sequence in 1..=EVENTS {
        let ends = sequence == EVENTS;
        let event = events(&run, sequence, 1);
        run_store::runs::append(&store, &run, fence, &event, ends)
            .await
            .unwrap();
        store.notify_run(&run, head(sequence, ends)).await;
    }
    let all = timeout(TOO_LONG / 2, followers.join_all()).await.unwrap();
    assert_eq!(all, [EVENTS; 8]);
}

#[rstest]
#[tokio::test]
async fn signals_raised_before_the_wait_end_it_at_once(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let batch = events(&run, 1, 3);
    run_store::runs::append(&store, &run, fence, &batch, false)
        .await
        .unwrap();
    // Without a signal: this replica has just started.
    let start = Instant::now();
    store.run_changed(&run, head(0, false), TOO_LONG).await;
    store.notify_run(&run, head(3, false)).await;
    store.run_changed(&run, head(2, false), TOO_LONG).await;
    assert!(start.elapsed() < TOO_LONG / 2);
    // Without news, the wait times out.
    let start = Instant::now();
    let pause = Duration::from_millis(50);
    store.run_changed(&run, head(3, false), pause).await;
    assert!(start.elapsed() >= pause);
    // The run's end alone wakes waiters.
    store.notify_run(&run, head(3, true)).await;
    store.run_changed(&run, head(3, false), TOO_LONG).await;
    assert!(start.elapsed() < TOO_LONG / 2);
}

#[rstest]
#[tokio::test]
async fn a_cancel_request_wakes_the_owner(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, _) = claimed(&store, "run_1").await;
    let waiting = {
        let (store, run) = (Arc::clone(&store), run.clone());
        tokio::spawn(async move {
            while run_store::queue::cancel_requested(&store, &run)
                .await
                .unwrap()
                .is_none()
            {
                let at_most = Duration::from_secs(2);
                store.run_changed(&run, Head::default(), at_most).await;
            }
        })
    };
    let request = CancelRequest {
        cancelled_by: "key_1".to_owned(),
        reason: None,
    };
    assert!(
        run_store::queue::request_cancel(&store, &run, &request)
            .await
            .unwrap()
    );
    timeout(TOO_LONG, waiting).await.unwrap().unwrap();
}

#[rstest]
#[tokio::test]
async fn new_work_wakes_current_and_imminent_waiters(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    store.notify_work().await;
    let mut workers = JoinSet::new();
    timeout(TOO_LONG / 2, store.work_waiting(TOO_LONG))
        .await
        .unwrap();
    for _ in 0..4 {
        let store = Arc::clone(&store);
        workers.spawn(async move { store.work_waiting(TOO_LONG).await });
    }
    let all = async {
        while !workers.is_empty() {
            store.notify_work().await;
            let _ = timeout(Duration::from_millis(5), workers.join_next()).await;
        }
    };
    timeout(TOO_LONG / 2, all).await.unwrap();
}

/// A thousand streams wait for one run and are woken although no database connection is free.
#[tokio::test]
async fn waiting_for_events_uses_no_database_connection() {
    let dir = tempfile::TempDir::new().unwrap();
    let store = touchstone_host::store::database::Database::sqlite(
        &dir.path().join("test.db"),
        host_keys::usual(),
        &touchstone::database::SCHEMAS,
    )
    .await
    .unwrap();
    let run = record("run_1", "acme", 1);
    run_store::runs::create(&store, &run, None).await.unwrap();
    let run = run.run_id;
    let pause = Duration::from_millis(1);
    store.run_changed(&run, Head::default(), pause).await;
    store.close().await;
    assert!(
        touchstone_host::store::database::head(&store, &run)
            .await
            .is_err()
    );

    let store = Arc::new(store);
    let mut waiting = JoinSet::new();
    for _ in 0..1_000 {
        let (store, run) = (Arc::clone(&store), run.clone());
        waiting.spawn(async move { store.run_changed(&run, Head::default(), TOO_LONG).await });
    }
    tokio::task::yield_now().await;
    store.notify_run(&run, head(1, false)).await;
    timeout(TOO_LONG / 2, waiting.join_all()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_on_postgresql_wake_each_other() {
    open!(Postgres => database, one);
    let two = database.open().await;
    let (run, fence) = claimed(&one, "run_1").await;
    let mut followers = JoinSet::new();
    for _ in 0..4 {
        followers.spawn(follow(Arc::clone(&two), run.clone()));
    }
    for sequence in 1..=100 {
        let ends = sequence == 100;
        let event = events(&run, sequence, 1);
        run_store::runs::append(&one, &run, fence, &event, ends)
            .await
            .unwrap();
        one.notify_run(&run, head(sequence, ends)).await;
        tokio::task::yield_now().await;
    }
    let all = timeout(TOO_LONG / 2, followers.join_all()).await.unwrap();
    assert_eq!(all, [100; 4]);

    one.notify_work().await;
    timeout(TOO_LONG / 2, two.work_waiting(TOO_LONG))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn signals_come_through_again_after_a_lost_connection() {
    open!(Postgres => database, one);
    let two = database.open().await;
    let (run, fence) = claimed(&one, "run_1").await;
    let follower = tokio::spawn(follow(Arc::clone(&two), run.clone()));
    let TestStore::Postgres(server) = &database else {
        unreachable!("PostgreSQL was asked for");
    };
    for sequence in 1..=5 {
        server.disconnect_all().await;
        let event = events(&run, sequence, 1);
        run_store::runs::append(&one, &run, fence, &event, false)
            .await
            .unwrap();
        one.notify_run(&run, head(sequence, false)).await;
    }
    run_store::runs::append(&one, &run, fence, &events(&run, 6, 1), true)
        .await
        .unwrap();
    // A signal may be lost with its connection; a later one arrives.
    let told = async {
        while !follower.is_finished() {
            one.notify_run(&run, head(6, true)).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        follower.await.unwrap()
    };
    assert_eq!(timeout(TOO_LONG / 2, told).await.unwrap(), 6);
}

/// Passes signals to one other replica while it is connected.
struct TestFanout {
    to: Arc<Database>,
    connected: AtomicBool,
    end_passed_on: Notify,
}

#[async_trait::async_trait]
impl Fanout for TestFanout {
    async fn send(&self, signals: &[String]) -> Result<(), Undelivered> {
        if !self.connected.load(Ordering::SeqCst) {
            return Err(Undelivered("not connected".to_owned()));
        }
        signals.iter().for_each(|it| self.to.receive_signal(it));
        if signals.iter().any(|it| it.contains(r#""ended":true"#)) {
            self.end_passed_on.notify_one();
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_database_carries_only_the_signals_that_the_fan_out_does_not() {
    open!(Postgres => database, one);
    let two = database.open().await;
    let TestStore::Postgres(server) = &database else {
        unreachable!("PostgreSQL was asked for");
    };
    let mut notifications = PgListener::connect(&server.url()).await.unwrap();
    notifications.listen("touchstone").await.unwrap();
    let fanout = Arc::new(TestFanout {
        to: Arc::clone(&two),
        connected: AtomicBool::new(true),
        end_passed_on: Notify::new(),
    });
    one.fan_out_by(fanout.clone());
    let (run, fence) = claimed(&one, "run_1").await;
    let follower = tokio::spawn(follow(Arc::clone(&two), run.clone()));
    for sequence in 1..=100 {
        let ends = sequence == 100;
        let event = events(&run, sequence, 1);
        run_store::runs::append(&one, &run, fence, &event, ends)
            .await
            .unwrap();
        one.notify_run(&run, head(sequence, ends)).await;
        tokio::task::yield_now().await;
    }
    let reached = timeout(TOO_LONG / 2, follower).await.unwrap();
    assert_eq!(reached.unwrap(), 100);

    // The follower may have read the last event before its signal was sent.
    let passed_on = fanout.end_passed_on.notified();
    timeout(TOO_LONG / 2, passed_on).await.unwrap();
    fanout.connected.store(false, Ordering::SeqCst);
    one.notify_work().await;
    let first = timeout(TOO_LONG / 2, notifications.recv()).await.unwrap();
    assert_eq!(first.unwrap().payload(), "\"work\"");
    timeout(TOO_LONG / 2, two.work_waiting(TOO_LONG))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_wrong_signal_of_a_fan_out_only_makes_waiters_read_the_log() {
    open!(Postgres => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    run_store::runs::append(&store, &run, fence, &events(&run, 1, 1), false)
        .await
        .unwrap();
    let known = head(1, false);
    store.notify_run(&run, known).await;
    let wrong = r#"{"head":{"run":"run_1","sequence":99,"ended":true}}"#;
    store.receive_signal(wrong);
    let (start, pause) = (Instant::now(), Duration::from_millis(50));
    store.run_changed(&run, known, pause).await;
    assert!(start.elapsed() >= pause, "the wrong head was believed");
}
