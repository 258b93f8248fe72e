//! Paused eval runs: judged tasks are kept, tasks in flight are repeated or finish first.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use tokio_util::sync::CancellationToken;
use touchstone_host::ports::run_log::CompanionRecord;
use touchstone_host::system::{SystemClock, SystemIds};
use touchstone_kit::ids::RunId;
use touchstone_openwop::events::{DrainPolicy, Event, NewEvent, RunResumed};
use touchstone_runs::ports::pauses::PauseRequest;
use touchstone_runs::rules::run::fold::{RunState, RunStatus};
use touchstone_runs::service::journal::{Journal, JournalError};
use touchstone_runs::service::worker::{Worker, WorkerSettings};
use touchstone_runs::store as run_store;

use crate::runs::bench::{Bench, echo, outline};

const PATIENCE: Duration = Duration::from_secs(60);

fn worker(bench: &Bench) -> Arc<Worker> {
    let settings = WorkerSettings {
        poll: Duration::from_millis(20),
        drain: Duration::from_millis(10),
        ..WorkerSettings::default()
    };
    Worker::new(
        bench.store.clone(),
        Arc::new(SystemClock),
        bench.executor.clone(),
        "replica".to_owned(),
        settings,
        None,
    )
}

async fn until(bench: &Bench, run: &RunId, reached: impl Fn(&Bench) -> bool, status: RunStatus) {
    let waited = async {
        while !(reached(bench) && bench.state(run).await.status == status) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.unwrap();
}

#[rstest]
#[case::at_once(DrainPolicy::Immediate)]
#[case::drained(DrainPolicy::DrainCurrentNode)]
#[tokio::test]
async fn a_paused_eval_keeps_what_was_judged(#[case] policy: DrainPolicy) {
    let bench = Bench::new(echo).await;
    // One at a time: the second task hangs on its first call, or lasts until the worker has seen
    // the pause.
    let held = match policy {
        DrainPolicy::Immediate => "stuck",
        DrainPolicy::DrainCurrentNode => "rest",
    };
    let run = bench
        .seed(&["a", held, "c"], |spec| spec.concurrency = 1)
        .await;
    let id = run.run_id.clone();
    let shutdown = CancellationToken::new();
    let working = tokio::spawn(worker(&bench).work(shutdown.clone()));
    until(
        &bench,
        &id,
        |bench| bench.model.calls(held) == 1,
        RunStatus::Running,
    )
    .await;
    let request = PauseRequest {
        paused_by: "key".to_owned(),
        reason: None,
        drain_policy: policy,
        requested_at: Timestamp::now(),
    };
    assert!(
        run_store::pauses::request_pause(&bench.store, &id, &request)
            .await
            .unwrap()
    );
    bench.store.notify_work().await;
    until(&bench, &id, |_| true, RunStatus::Paused).await;

    let state = bench.state(&id).await;
    let judged = match policy {
        DrainPolicy::Immediate => 1,
        DrainPolicy::DrainCurrentNode => 2,
    };
    assert_eq!(state.eval.scored_count, judged);
    assert_eq!(
        bench.model.calls("c"),
        0,
        "nothing starts while the run is paused"
    );
    let log = outline(&bench.log(&id).await);
    assert_eq!(log.last().unwrap().0, "run.paused");

    let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
    let journal = Journal::new(bench.store.clone(), clock, ids, "service".to_owned());
    let resumed = Event::RunResumed(RunResumed {
        resumed_by: "key".to_owned(),
    });
    let resume = |_: &RunState| Ok::<_, JournalError>(vec![NewEvent::of_run(resumed)]);
    let over = |_: &[NewEvent]| Some(CompanionRecord::Resumed);
    journal
        .append_with(&bench.tenant, &id, resume, over)
        .await
        .unwrap();
    assert_eq!(
        run_store::pauses::pause_requested(&bench.store, &id)
            .await
            .unwrap(),
        None
    );
    until(&bench, &id, |_| true, RunStatus::Completed).await;
    let log = outline(&bench.log(&id).await);
    let count = |kind: &str| log.iter().filter(|(found, _)| found == kind).count();
    assert_eq!((count("eval.started"), count("eval.scored")), (1, 3));
    let calls = match policy {
        DrainPolicy::Immediate => 2,
        DrainPolicy::DrainCurrentNode => 1,
    };
    assert_eq!(bench.model.calls(held), calls);
    assert_eq!(count("agent.invocation.started"), 2 + calls);
    assert_eq!(
        count("agent.invocation.started"),
        count("agent.invocation.completed")
    );
    shutdown.cancel();
    working.await.unwrap();
}

#[tokio::test]
async fn a_pause_that_is_taken_back_holds_an_eval_no_longer() {
    let bench = Bench::new(echo).await;
    // Two at a time; one of them hangs, so that the pause cannot take effect. The third lasts until
    // the worker has seen the pause.
    let run = bench
        .seed(&["a", "stuck", "rest", "c", "d"], |spec| {
            spec.concurrency = 2
        })
        .await;
    let id = run.run_id.clone();
    let shutdown = CancellationToken::new();
    let working = tokio::spawn(worker(&bench).work(shutdown.clone()));
    let asked = |bench: &Bench| bench.model.calls("rest") == 1;
    until(&bench, &id, asked, RunStatus::Running).await;
    let request = PauseRequest {
        paused_by: "key".to_owned(),
        reason: None,
        drain_policy: DrainPolicy::DrainCurrentNode,
        requested_at: Timestamp::now(),
    };
    assert!(
        run_store::pauses::request_pause(&bench.store, &id, &request)
            .await
            .unwrap()
    );
    let waited = async {
        while bench.state(&id).await.eval.scored_count < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.unwrap();
    assert_eq!(bench.model.calls("c"), 0, "the run is paused");
    assert!(
        run_store::pauses::withdraw_pause(&bench.store, &id)
            .await
            .unwrap()
    );
    let others = |bench: &Bench| bench.model.calls("d") == 1;
    until(&bench, &id, others, RunStatus::Running).await;
    let log = outline(&bench.log(&id).await);
    assert!(log.iter().all(|(kind, _)| kind != "run.paused"), "{log:?}");
    shutdown.cancel();
    working.await.unwrap();
}
