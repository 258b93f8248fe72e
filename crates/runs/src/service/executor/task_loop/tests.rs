use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use rstest::rstest;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{AHEAD, EarlyEnd, TaskLoop, WorkUnit};
use crate::ports::pauses::PauseRequest;
use crate::ports::queue::CancelRequest;
use crate::service::executor::control::{RunControl, RunSignals, Stop};
use crate::service::run_writer::Backlog;
use touchstone_agents::budget::Dimension;
use touchstone_host::service::lease::LeaseTerm;
use touchstone_host::system::SystemClock;
use touchstone_openwop::events::DrainPolicy;

const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(3600);

/// What units did.
#[derive(Default)]
struct Observed {
    started: Mutex<Vec<usize>>,
    recorded: Mutex<Vec<usize>>,
    panicked: Mutex<Vec<usize>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    /// The largest number of units that were in flight or scored and not durable.
    most_ahead: AtomicUsize,
}

impl Observed {
    fn started(&self) -> Vec<usize> {
        self.started.lock().unwrap().clone()
    }

    fn recorded(&self) -> Vec<usize> {
        self.recorded.lock().unwrap().clone()
    }
}

#[derive(Clone, Copy)]
enum Ending {
    Recorded,
    Panics,
    /// Panics again when the panic is recorded.
    PanicsTwice,
    Exhausted,
}

struct TestUnit {
    number: usize,
    duration: Duration,
    ending: Ending,
    observed: Arc<Observed>,
    scores: Arc<AtomicUsize>,
}

/// Counts a unit that is executed or aborted.
struct Running<'a>(&'a Observed);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, SeqCst);
    }
}

impl WorkUnit for TestUnit {
    async fn execute(&self) -> Result<(), EarlyEnd> {
        let observed = &self.observed;
        let running = observed.running.fetch_add(1, SeqCst) + 1;
        let counted = Running(observed);
        observed.most_running.fetch_max(running, SeqCst);
        let ahead = running + self.scores.load(SeqCst);
        observed.most_ahead.fetch_max(ahead, SeqCst);
        observed.started.lock().unwrap().push(self.number);
        sleep(self.duration).await;
        drop(counted);
        match self.ending {
            Ending::Recorded => {
                self.scores.fetch_add(1, SeqCst);
                observed.recorded.lock().unwrap().push(self.number);
                Ok(())
            }
            Ending::Panics | Ending::PanicsTwice => panic!("a unit of a test panics"),
            Ending::Exhausted => Err(EarlyEnd::BudgetExhausted(Dimension::Tokens)),
        }
    }

    async fn record_panic(&self) -> Result<(), EarlyEnd> {
        self.observed.panicked.lock().unwrap().push(self.number);
        match self.ending {
            Ending::PanicsTwice => panic!("a unit of a test panics again"),
            Ending::Recorded | Ending::Panics | Ending::Exhausted => Ok(()),
        }
    }
}

/// A run without a store.
struct TestRun {
    cancel: watch::Sender<Option<CancelRequest>>,
    pause: watch::Sender<Option<PauseRequest>>,
    draining: CancellationToken,
    log_closed: CancellationToken,
    scores: Arc<AtomicUsize>,
    durable: watch::Sender<u64>,
    permits: Arc<Semaphore>,
    observed: Arc<Observed>,
}

impl TestRun {
    fn new() -> Self {
        Self {
            cancel: watch::Sender::new(None),
            pause: watch::Sender::new(None),
            draining: CancellationToken::new(),
            log_closed: CancellationToken::new(),
            scores: Arc::default(),
            durable: watch::Sender::new(0),
            permits: Arc::new(Semaphore::new(64)),
            observed: Arc::default(),
        }
    }

    fn signals(&self) -> RunSignals {
        let control = RunControl {
            cancelled: self.cancel.subscribe(),
            paused: self.pause.subscribe(),
            lease: LeaseTerm::new(Duration::ZERO, Duration::MAX).lease(Arc::new(SystemClock)),
            lost: CancellationToken::new(),
            draining: self.draining.clone(),
            drain: LONG,
        };
        RunSignals::new(control, self.log_closed.clone(), None, None)
    }

    fn unit(&self, number: usize, duration: Duration, ending: Ending) -> TestUnit {
        TestUnit {
            number,
            duration,
            ending,
            observed: self.observed.clone(),
            scores: self.scores.clone(),
        }
    }

    /// Short units with the numbers from 0.
    fn units(&self, count: usize) -> Vec<TestUnit> {
        let unit = |number| self.unit(number, SHORT, Ending::Recorded);
        (0..count).map(unit).collect()
    }

    async fn run(&self, concurrency: usize, units: Vec<TestUnit>) -> Result<(), EarlyEnd> {
        let mut waiting = VecDeque::from(units);
        self.run_from(concurrency, || waiting.pop_front()).await
    }

    async fn run_from(
        &self,
        concurrency: usize,
        next: impl FnMut() -> Option<TestUnit> + Send,
    ) -> Result<(), EarlyEnd> {
        let units = TaskLoop {
            run_id: "run-1".into(),
            concurrency,
            permits: self.permits.clone(),
            backlog: Backlog::new(self.scores.clone(), self.durable.subscribe()),
        };
        units.run(&mut self.signals(), next).await
    }

    /// Makes everything durable, as the log's flusher does after each batch.
    fn flush(&self) {
        self.scores.store(0, SeqCst);
        self.durable.send_modify(|sequence| *sequence += 1);
    }

    /// Flushes at this interval, for ever.
    async fn flush_every(&self, interval: Duration) {
        loop {
            sleep(interval).await;
            self.flush();
        }
    }

    fn request_pause(&self, drain_policy: DrainPolicy) {
        self.pause.send_replace(Some(PauseRequest {
            paused_by: "user-1".to_owned(),
            reason: None,
            drain_policy,
            requested_at: Timestamp::UNIX_EPOCH,
        }));
    }
}

#[tokio::test(start_paused = true)]
async fn without_units_the_loop_ends_at_once() {
    let run = TestRun::new();
    run.run(4, Vec::new()).await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_unit_is_executed_once_and_no_limit_is_exceeded(
        durations in prop::collection::vec(0_u64..50, 0..40),
        concurrency in 1_usize..9,
        permits in 1_usize..9,
        interval in 1_u64..40,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let run = TestRun {
            permits: Arc::new(Semaphore::new(permits)),
            ..TestRun::new()
        };
        let unit = |(number, millis): (usize, &u64)| {
            run.unit(number, Duration::from_millis(*millis), Ending::Recorded)
        };
        let units: Vec<TestUnit> = durations.iter().enumerate().map(unit).collect();
        runtime.block_on(async {
            tokio::select! {
                end = run.run(concurrency, units) => end.unwrap(),
                () = run.flush_every(Duration::from_millis(interval)) => {}
            }
        });
        let observed = &run.observed;
        let most_running = observed.most_running.load(SeqCst);
        prop_assert!(most_running <= concurrency.min(permits), "{most_running} in flight");
        let most_ahead = observed.most_ahead.load(SeqCst);
        prop_assert!(most_ahead <= concurrency * AHEAD, "{most_ahead} ahead");
        let mut recorded = observed.recorded();
        recorded.sort_unstable();
        prop_assert_eq!(recorded, (0..durations.len()).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn unwritten_scores_limit_the_number_of_started_units() {
    let run = TestRun::new();
    let running = run.run(3, run.units(20));
    tokio::pin!(running);
    assert!(timeout(LONG, &mut running).await.is_err());
    assert_eq!(run.observed.started().len(), 3 * AHEAD);

    run.flush();
    assert!(timeout(LONG, &mut running).await.is_err());
    assert_eq!(run.observed.started().len(), 6 * AHEAD);

    let flushing = run.flush_every(SHORT);
    tokio::select! {
        end = running => end.unwrap(),
        () = flushing => {}
    }
    assert_eq!(run.observed.recorded().len(), 20);
}

/// The last scores need not be durable before the run is concluded: its terminal event follows
/// them.
#[tokio::test(start_paused = true)]
async fn the_loop_does_not_wait_for_the_last_scores() {
    let run = TestRun::new();
    run.run(3, run.units(3 * AHEAD)).await.unwrap();
    assert_eq!(run.scores.load(SeqCst), 3 * AHEAD);
}

#[tokio::test(start_paused = true)]
async fn a_pause_lets_units_in_flight_end_and_starts_none() {
    let run = TestRun::new();
    let pausing = async {
        sleep(SHORT / 2).await;
        run.request_pause(DrainPolicy::DrainCurrentNode);
    };
    let (end, ()) = tokio::join!(run.run(2, run.units(5)), pausing);
    assert!(
        matches!(end, Err(EarlyEnd::Stopped(Stop::Paused))),
        "{end:?}"
    );
    assert_eq!(run.observed.recorded(), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_pause_lets_the_loop_continue() {
    let run = TestRun::new();
    let changing = async {
        sleep(SHORT / 3).await;
        run.request_pause(DrainPolicy::DrainCurrentNode);
        sleep(SHORT / 3).await;
        run.pause.send_replace(None);
    };
    let (end, ()) = tokio::join!(run.run(1, run.units(2)), changing);
    end.unwrap();
    assert_eq!(run.observed.recorded(), [0, 1]);
}

/// The response to the request said that the run pauses.
#[tokio::test(start_paused = true)]
async fn a_pause_takes_effect_even_if_no_unit_is_left() {
    let run = TestRun::new();
    let pausing = async {
        sleep(SHORT / 2).await;
        run.request_pause(DrainPolicy::DrainCurrentNode);
    };
    let (end, ()) = tokio::join!(run.run(2, run.units(2)), pausing);
    assert!(
        matches!(end, Err(EarlyEnd::Stopped(Stop::Paused))),
        "{end:?}"
    );
}

#[rstest]
#[case::units_left(3, false)]
#[case::no_unit_left(2, true)]
#[tokio::test(start_paused = true)]
async fn a_drain_gives_the_run_back_unless_it_is_complete(
    #[case] units: usize,
    #[case] is_complete: bool,
) {
    let run = TestRun::new();
    let draining = async {
        sleep(SHORT / 2).await;
        run.draining.cancel();
    };
    let (end, ()) = tokio::join!(run.run(2, run.units(units)), draining);
    match is_complete {
        true => end.unwrap(),
        false => assert!(
            matches!(end, Err(EarlyEnd::Stopped(Stop::Draining))),
            "{end:?}"
        ),
    }
    assert_eq!(run.observed.recorded(), [0, 1]);
}

#[rstest]
#[case::cancel(|run: &TestRun| {
    run.cancel.send_replace(Some(CancelRequest { cancelled_by: "user-1".to_owned(), reason: None }));
})]
#[case::immediate_pause(|run: &TestRun| run.request_pause(DrainPolicy::Immediate))]
#[case::closed_log(|run: &TestRun| run.log_closed.cancel())]
#[tokio::test(start_paused = true)]
async fn a_stop_aborts_the_units_in_flight(#[case] stop: fn(&TestRun)) {
    let run = TestRun::new();
    let units = (0..5).map(|number| run.unit(number, LONG, Ending::Recorded));
    let stopping = async {
        sleep(SHORT).await;
        stop(&run);
    };
    let (end, ()) = tokio::join!(run.run(2, units.collect()), stopping);
    assert!(matches!(end, Err(EarlyEnd::Stopped(_))), "{end:?}");
    assert_eq!(run.observed.started(), [0, 1]);
    assert_eq!(run.observed.running.load(SeqCst), 0, "none runs on");
    assert!(run.observed.recorded().is_empty());
}

#[tokio::test(start_paused = true)]
async fn units_whose_log_is_closed_do_not_complete_the_run() {
    let run = TestRun::new();
    run.log_closed.cancel();
    let end = run.run(2, Vec::new()).await;
    assert!(matches!(end, Err(EarlyEnd::Stopped(Stop::Lost))), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_recorded_by_its_unit_and_ends_no_other() {
    let run = TestRun::new();
    let mut units = run.units(3);
    units.insert(1, run.unit(7, SHORT, Ending::Panics));
    run.run(2, units).await.unwrap();
    assert_eq!(*run.observed.panicked.lock().unwrap(), [7]);
    assert_eq!(run.observed.recorded(), [0, 1, 2]);
    assert_eq!(run.permits.available_permits(), 64);
}

#[tokio::test(start_paused = true)]
async fn a_panic_that_cannot_be_recorded_gives_the_run_back() {
    let run = TestRun::new();
    let unit = run.unit(0, SHORT, Ending::PanicsTwice);
    let end = run.run(2, vec![unit]).await;
    assert!(matches!(end, Err(EarlyEnd::Stopped(Stop::Lost))), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_budget_ends_the_loop_with_nothing_in_flight() {
    let run = TestRun::new();
    let units = vec![
        run.unit(0, LONG, Ending::Recorded),
        run.unit(1, SHORT, Ending::Exhausted),
        run.unit(2, LONG, Ending::Recorded),
    ];
    let end = run.run(2, units).await;
    assert!(
        matches!(end, Err(EarlyEnd::BudgetExhausted(Dimension::Tokens))),
        "{end:?}"
    );
    assert_eq!(run.observed.started(), [0, 1]);
    assert_eq!(run.observed.running.load(SeqCst), 0);
}

/// As a phase that requires the one before it.
#[tokio::test(start_paused = true)]
async fn units_that_become_ready_later_are_started() {
    let run = TestRun::new();
    let mut numbers = 0..6;
    let next = || {
        let is_ready = numbers.start < 3 || run.observed.recorded().len() >= 3;
        let number = is_ready.then(|| numbers.next()).flatten()?;
        Some(run.unit(number, SHORT, Ending::Recorded))
    };
    run.run_from(4, next).await.unwrap();
    assert_eq!(run.observed.recorded(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(run.observed.most_running.load(SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn runs_of_one_tenant_share_its_permits() {
    let first = TestRun {
        permits: Arc::new(Semaphore::new(2)),
        ..TestRun::new()
    };
    let second = TestRun {
        permits: first.permits.clone(),
        observed: first.observed.clone(),
        ..TestRun::new()
    };
    let (one, two) = tokio::join!(first.run(4, first.units(8)), second.run(4, second.units(8)));
    one.unwrap();
    two.unwrap();
    assert_eq!(first.observed.most_running.load(SeqCst), 2);
    assert_eq!(first.observed.recorded().len(), 16);
}
