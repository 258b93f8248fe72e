//! A log's single writer, when its flusher or its store stops.

use crate::support::host_keys;
use std::sync::Arc;
use std::time::Duration;
use touchstone::database;
use touchstone_host::store::database::Database;
use touchstone_host::store::database::head;

use rstest::rstest;
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;
use tokio::time::timeout;
use touchstone_host::ports::run_log::Head;
use touchstone_host::system::{SystemClock, SystemIds};
use touchstone_kit::ids::RunId;
use touchstone_openwop::events::{EvalScored, Event, NewEvent, RunCancelled};
use touchstone_runs::ports::queue::RunClaim;
use touchstone_runs::rules::run::fold::RunState;
use touchstone_runs::service::run_writer::{Closed, RunWriter};
use touchstone_runs::store as run_store;
use touchstone_runs::store::projection;

use crate::store::{claimed, record};

const PATIENCE: Duration = Duration::from_secs(60);

struct Desk {
    dir: TempDir,
    store: Arc<Database>,
    run: RunId,
    writer: RunWriter,
}

impl Desk {
    async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let store = database::open(&location(&dir), host_keys::usual())
            .await
            .unwrap();
        let (run, fence) = claimed(&store, "run_1").await;
        let claim = RunClaim {
            run: Arc::new(record("run_1", "acme", 1)),
            fence,
            head: Head::default(),
            active: Duration::ZERO,
        };
        let writer = RunWriter::new(
            &claim,
            None,
            RunState::default(),
            store.clone(),
            Arc::new(SystemClock),
            Arc::new(SystemIds),
        );
        Self {
            dir,
            store,
            run,
            writer,
        }
    }
}

fn location(dir: &TempDir) -> String {
    format!("sqlite:{}", dir.path().join("writer.db").display())
}

fn cancelled() -> NewEvent {
    NewEvent::of_run(Event::RunCancelled(RunCancelled {
        reason: None,
        cancelled_by: "key".to_owned(),
    }))
}

/// An aborted task ends like one that panics: it is dropped, perhaps before it ran.
#[rstest]
#[tokio::test]
async fn a_stopped_flusher_blocks_no_writer(#[values(true, false)] begun: bool) {
    let desk = Desk::new().await;
    let flusher = tokio::spawn(desk.writer.run_flusher());
    if begun {
        tokio::task::yield_now().await;
    }
    flusher.abort();
    desk.writer.emit(&cancelled());
    let flushed = timeout(PATIENCE, desk.writer.flush()).await.unwrap();
    assert!(matches!(flushed, Err(Closed)));
    timeout(PATIENCE, desk.writer.closed_token().cancelled())
        .await
        .unwrap();
    assert!(flusher.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_log_that_has_ended_is_not_closed_by_its_flusher() {
    let desk = Desk::new().await;
    let flusher = tokio::spawn(desk.writer.run_flusher());
    desk.writer.emit(&cancelled());
    timeout(PATIENCE, flusher).await.unwrap().unwrap();
    desk.writer.flush().await.unwrap();
    assert!(!desk.writer.is_closed());
    assert!(head(&desk.store, &desk.run).await.unwrap().unwrap().ended);
}

/// The state that is stored during a run is the fold of the log up to its sequence.
#[tokio::test]
async fn states_of_a_run_in_progress_are_stored() {
    let desk = Desk::new().await;
    desk.writer.checkpoint(0, 10);
    let flusher = tokio::spawn(desk.writer.run_flusher());
    let mut last = 0;
    for n in 0..500 {
        let scored = Event::EvalScored(EvalScored {
            task_id: format!("task-{}", n % 100).into(),
            score: 1.0,
            passed: true,
            cost_usd: None,
            latency_ms: Some(n),
            schema_valid: None,
            safety_finding_count: None,
        });
        let task = format!("task-{}", n % 100).into();
        desk.writer.emit(&NewEvent::of_task(scored, &task, None));
        if n % 5 == 0 {
            desk.writer.flush().await.unwrap();
        }
        let stored = projection::load(&desk.store, &desk.run).await.unwrap();
        if let Some(read) = stored.unwrap().state {
            let read = read.unwrap();
            assert!(read.sequence >= last);
            last = read.sequence;
            let mut folded = RunState::default();
            let log = run_store::runs::read(&desk.store, &desk.run, 0, 1000);
            for event in log.await.unwrap() {
                if event.sequence <= last {
                    folded.apply_stored(event.sequence, &event.body);
                }
            }
            assert_eq!(read, folded);
        }
    }
    assert!(last >= 10, "{last}");
    desk.writer.emit(&cancelled());
    timeout(PATIENCE, flusher).await.unwrap().unwrap();
}

/// The lease is lost while the store does not answer.
#[tokio::test]
async fn a_store_that_does_not_answer_keeps_no_lost_run() {
    let desk = Desk::new().await;
    let mut other = SqliteConnection::connect(&location(&desk.dir))
        .await
        .unwrap();
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let flusher = tokio::spawn(desk.writer.run_flusher());
    desk.writer.emit(&cancelled());
    let waiting = timeout(Duration::from_millis(100), desk.writer.flush()).await;
    assert!(waiting.is_err(), "the store was locked");
    desk.writer.close();
    // The store itself gives up after a few seconds, and is then tried again.
    timeout(Duration::from_secs(3), flusher)
        .await
        .unwrap()
        .unwrap();
    assert!(desk.writer.flush().await.is_err());
    lock.rollback().await.unwrap();
}
