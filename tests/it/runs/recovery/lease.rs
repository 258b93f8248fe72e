//! Runs whose lease may be lost, whose store does not respond, or that were interrupted for long.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::service::lease::LeaseTerm;
use touchstone_host::system::SystemClock;
use touchstone_runs::ports::pauses::PauseRequest;
use touchstone_runs::ports::queue::{CancelRequest, Claimable, RunClaim};
use touchstone_runs::rules::run::fold::RunStatus;
use touchstone_runs::service::executor::ExecutionOutcome;
use touchstone_runs::service::executor::control::RunControl;
use touchstone_runs::store as run_store;

use crate::runs::bench::{Bench, echo, undisturbed};

const LEASE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(60);

async fn claim(bench: &Bench) -> RunClaim {
    let claim = run_store::queue::claim(&bench.store, "bench", Claimable::All, LEASE).await;
    claim.unwrap().unwrap()
}

/// A control that does not interrupt the run while the value lives.
struct Undisturbed {
    control: Option<RunControl>,
    _cancel: watch::Sender<Option<CancelRequest>>,
    _pause: watch::Sender<Option<PauseRequest>>,
}

impl Undisturbed {
    fn new() -> Self {
        let ((cancel, cancelled), (pause, paused)) = (watch::channel(None), watch::channel(None));
        let control = RunControl {
            cancelled,
            paused,
            ..undisturbed()
        };
        Self {
            control: Some(control),
            _cancel: cancel,
            _pause: pause,
        }
    }

    fn control(&mut self) -> RunControl {
        self.control.take().unwrap()
    }
}

/// A process that wakes after its lease expired makes no calls until it knows that it still owns
/// the run.
#[tokio::test]
async fn no_call_is_made_while_the_lease_may_have_expired() {
    let bench = Bench::new(echo).await;
    let run = bench.seed(&["a", "b"], |_| {}).await;
    let term = LeaseTerm::new(SystemClock.uptime(), Duration::ZERO);
    let mut outside = Undisturbed::new();
    let control = RunControl {
        lease: term.lease(Arc::new(SystemClock)),
        ..outside.control()
    };
    let executing = bench.executor.execute(claim(&bench).await, control);
    tokio::pin!(executing);
    assert!(
        timeout(Duration::from_millis(300), &mut executing)
            .await
            .is_err()
    );
    assert_eq!(bench.model.total(), 0);

    term.renew(SystemClock.uptime(), LEASE);
    let outcome = timeout(PATIENCE, executing).await.unwrap();
    assert_eq!(outcome, ExecutionOutcome::Ended);
    assert_eq!(bench.model.total(), 2);
    let status = bench.state(&run.run_id).await.status;
    assert_eq!(status, RunStatus::Completed);
}

#[tokio::test]
async fn a_lease_that_is_lost_while_it_is_waited_for_ends_the_work() {
    let bench = Bench::new(echo).await;
    bench.seed(&["a"], |_| {}).await;
    let term = LeaseTerm::new(SystemClock.uptime(), Duration::ZERO);
    let mut outside = Undisturbed::new();
    let control = RunControl {
        lease: term.lease(Arc::new(SystemClock)),
        ..outside.control()
    };
    let lost = control.lost.clone();
    let executing = bench.executor.execute(claim(&bench).await, control);
    let losing = async {
        sleep(Duration::from_millis(100)).await;
        lost.cancel();
    };
    let (outcome, ()) = timeout(PATIENCE, async { tokio::join!(executing, losing) })
        .await
        .unwrap();
    assert_eq!(outcome, ExecutionOutcome::Broken);
    assert_eq!(bench.model.total(), 0);
}

/// The worker that continues after a kill repeats only these calls.
#[rstest]
#[case(1)]
#[case(4)]
#[tokio::test]
async fn a_blocked_store_bounds_the_number_of_calls(#[case] concurrency: u32) {
    const TASKS: usize = 60;

    let bench = Bench::new(echo).await;
    let says: Vec<String> = (0..TASKS).map(|n| format!("text {n}")).collect();
    let says: Vec<&str> = says.iter().map(String::as_str).collect();
    let run = bench
        .seed(&says, |spec| spec.concurrency = concurrency)
        .await;
    let claim = claim(&bench).await;
    let mut other = SqliteConnection::connect(&bench.location()).await.unwrap();
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let mut outside = Undisturbed::new();
    let executing = bench.executor.execute(claim, outside.control());
    let watching = async {
        sleep(Duration::from_secs(2)).await;
        let asked = bench.model.total();
        lock.rollback().await.unwrap();
        asked
    };
    let (outcome, asked) = timeout(PATIENCE, async { tokio::join!(executing, watching) })
        .await
        .unwrap();
    let most = concurrency as usize * 2;
    assert!(
        asked <= most,
        "{asked} calls while nothing became durable, at most {most} allowed"
    );
    assert_eq!(outcome, ExecutionOutcome::Ended);
    let state = bench.state(&run.run_id).await;
    assert_eq!(state.eval.scored_count, TASKS);
    for say in says {
        assert_eq!(bench.model.calls(say), 1, "{say}");
    }
}

/// A waiting store does not delay stopping a run.
#[tokio::test]
async fn a_run_that_waits_for_its_store_can_lose_its_lease() {
    let bench = Bench::new(echo).await;
    bench
        .seed(&["a", "b", "c", "d"], |spec| spec.concurrency = 1)
        .await;
    let claim = claim(&bench).await;
    let mut other = SqliteConnection::connect(&bench.location()).await.unwrap();
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let mut outside = Undisturbed::new();
    let control = outside.control();
    let lost = control.lost.clone();
    let executing = bench.executor.execute(claim, control);
    let losing = async {
        sleep(Duration::from_millis(500)).await;
        lost.cancel();
    };
    let (outcome, ()) = timeout(Duration::from_secs(10), async {
        tokio::join!(executing, losing)
    })
    .await
    .expect("it does not wait for the store");
    assert_eq!(outcome, ExecutionOutcome::Broken);
    lock.rollback().await.unwrap();
}

/// The same events, recorded a day earlier.
fn a_day_earlier(log: &[StoredEvent]) -> Vec<StoredEvent> {
    let earlier = |event: &StoredEvent| {
        let mut body: Value = serde_json::from_slice(&event.body).unwrap();
        let at: Timestamp = body["timestamp"].as_str().unwrap().parse().unwrap();
        let earlier = at - SignedDuration::from_hours(24);
        body["timestamp"] = json!(format!("{earlier:.6}"));
        StoredEvent {
            body: body.to_string().into(),
            ..event.clone()
        }
    };
    log.iter().map(earlier).collect()
}

#[tokio::test]
async fn a_run_that_was_interrupted_for_a_day_resumes() {
    let whole = {
        let bench = Bench::new(echo).await;
        let run = bench.seed(&["a", "b"], |_| {}).await;
        assert!(bench.execute().await);
        bench.log(&run.run_id).await
    };
    let bench = Bench::new(echo).await;
    let run = bench.seed(&["a", "b"], |_| {}).await;
    let left = a_day_earlier(&whole[..3]);
    bench.leave_behind(&run.run_id, &left).await;
    assert!(bench.execute().await);
    let state = bench.state(&run.run_id).await;
    assert_eq!(state.status, RunStatus::Completed, "{:?}", state.error);
    let log = bench.log(&run.run_id).await;
    let last: Value = serde_json::from_slice(&log.last().unwrap().body).unwrap();
    let duration = last["payload"]["durationMs"].as_u64().unwrap();
    assert!(duration < 60_000, "the day is not counted: {duration}");
}

/// Time used by earlier processes counts towards the maximum duration.
#[tokio::test]
async fn the_longest_duration_is_that_of_all_processes_together() {
    let bench = Bench::new(echo).await;
    let run = bench.seed_within(&["a"], 600, |_| {}).await;
    let first = claim(&bench).await;
    sleep(Duration::from_millis(700)).await;
    run_store::queue::release(&bench.store, &run.run_id, first.fence)
        .await
        .unwrap();
    let second = claim(&bench).await;
    assert!(second.active >= Duration::from_millis(700));
    let mut outside = Undisturbed::new();
    let outcome = bench.executor.execute(second, outside.control()).await;
    assert_eq!(outcome, ExecutionOutcome::Ended);
    let error = bench.state(&run.run_id).await.error.unwrap();
    assert_eq!(error.code, "run_timeout");
    assert_eq!(bench.model.total(), 0);
}
