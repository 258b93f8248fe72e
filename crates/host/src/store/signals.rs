//! Wake-ups within this process: one watched head per run, and a notification for new work.
//!
//! A head here may lag behind the log but is never ahead of it. When there are many runs, those
//! without waiters are forgotten. A waiter for a forgotten run reads the log once, so that it does
//! not miss a signal sent in between.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};
use tokio::time::timeout;

use crate::ports::run_log::Head;
use touchstone_kit::ids::RunId;

/// Number of runs at which runs without waiters are first forgotten.
const REMEMBERED: usize = 1024;

/// Annotations that a listener may lag behind; a listener that lags further reads the store.
const ANNOTATED: usize = 64;

pub struct LocalSignals {
    runs: Mutex<Runs>,
    /// Notified whenever any log may have grown.
    grown: Notify,
    work: Notify,
    annotated: broadcast::Sender<Option<RunId>>,
}

struct Runs {
    heads: HashMap<RunId, watch::Sender<Head>>,
    /// Size at which the next sweep runs. The cost of a sweep is spread over as many insertions.
    sweep_at: usize,
}

pub struct Waiter {
    heads: watch::Receiver<Head>,
    /// Whether the run was unknown here. If so, the caller reads the log and
    /// [raises](LocalSignals::raise) the head that it finds.
    pub(super) first: bool,
}

impl Waiter {
    /// Waits until the head is beyond `known`, the run is touched, or `at_most` has passed.
    pub(super) async fn changed(mut self, known: Head, at_most: Duration) {
        if !is_beyond(*self.heads.borrow_and_update(), known) {
            // Neither a timeout nor a closed store needs handling: the caller reads the log.
            let _ = timeout(at_most, self.heads.changed()).await;
        }
    }
}

impl LocalSignals {
    pub(super) fn new() -> Self {
        let runs = Runs {
            heads: HashMap::new(),
            sweep_at: REMEMBERED,
        };
        Self {
            runs: Mutex::new(runs),
            grown: Notify::new(),
            work: Notify::new(),
            annotated: broadcast::Sender::new(ANNOTATED),
        }
    }

    /// Signals a new annotation; `None` if the run is unknown.
    pub(super) fn annotate(&self, run: Option<RunId>) {
        // Sending fails if there are no listeners.
        let _ = self.annotated.send(run);
    }

    /// Runs that are annotated from now on; `None` if annotations may have been missed.
    pub fn annotated(&self) -> broadcast::Receiver<Option<RunId>> {
        self.annotated.subscribe()
    }

    /// Starts waiting for `run`: from now on, no signal is missed.
    pub(super) fn wait(&self, run: &RunId) -> Waiter {
        let mut runs = self.lock();
        if let Some(sender) = runs.heads.get(run) {
            return Waiter {
                heads: sender.subscribe(),
                first: false,
            };
        }
        let heads = runs.insert(run, Head::default()).subscribe();
        Waiter { heads, first: true }
    }

    /// Signals that the log of `run` has reached `head`.
    pub(super) fn raise(&self, run: &RunId, head: Head) {
        let mut runs = self.lock();
        match runs.heads.get(run) {
            Some(sender) => {
                sender.send_if_modified(|old| {
                    let news = is_beyond(head, *old);
                    if news {
                        *old = head;
                    }
                    news
                });
            }
            None => {
                runs.insert(run, head);
            }
        }
        drop(runs);
        self.grown.notify_one();
    }

    /// Signals that the log of `run` may have grown. The next waiter reads the log.
    pub(super) fn hint(&self, run: &RunId) {
        if let Some(sender) = self.lock().heads.remove(run) {
            sender.send_modify(|_| {});
        }
        self.grown.notify_one();
    }

    /// Signals another change to `run`.
    pub(super) fn touch(&self, run: &RunId) {
        if let Some(sender) = self.lock().heads.get(run) {
            sender.send_modify(|_| {});
        }
    }

    /// Wakes all waiters because signals may have been missed, and forgets runs without waiters.
    pub(super) fn touch_all(&self) {
        let mut runs = self.lock();
        runs.sweep();
        for sender in runs.heads.values() {
            sender.send_modify(|_| {});
        }
        drop(runs);
        self.grown.notify_one();
        self.annotate(None);
        self.ring();
    }

    /// Waits until any log may have grown. At most one waiter per process; a signal sent while it
    /// is not waiting wakes it once.
    pub(super) async fn any_run(&self, at_most: Duration) {
        // A timeout needs no handling: the caller reads the store.
        let _ = timeout(at_most, self.grown.notified()).await;
    }

    /// Signals new work. A worker that is about to wait is woken too.
    pub(super) fn ring(&self) {
        self.work.notify_waiters();
        self.work.notify_one();
    }

    /// Waits for new work.
    pub(super) async fn work(&self, at_most: Duration) {
        // A timeout needs no handling: the caller reads the queue.
        let _ = timeout(at_most, self.work.notified()).await;
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runs {
    fn insert(&mut self, run: &RunId, head: Head) -> &watch::Sender<Head> {
        if self.heads.len() >= self.sweep_at {
            self.sweep();
        }
        self.heads
            .entry(run.clone())
            .or_insert_with(|| watch::Sender::new(head))
    }

    fn sweep(&mut self) {
        self.heads.retain(|_, sender| sender.receiver_count() > 0);
        self.sweep_at = self.heads.len() * 2 + REMEMBERED;
    }
}

fn is_beyond(head: Head, known: Head) -> bool {
    head.sequence > known.sequence || (head.ended && !known.ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_of_runs_without_waiters_are_evicted() {
        let signals = LocalSignals::new();
        let head = Head {
            sequence: 1,
            ended: false,
        };
        let waiting = signals.wait(&"awaited".into());
        for n in 0..10 * REMEMBERED {
            signals.raise(&format!("run_{n}").into(), head);
        }
        assert!(signals.lock().heads.len() <= 2 * REMEMBERED);
        assert!(!signals.wait(&"awaited".into()).first);
        drop(waiting);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hint_ends_waits_and_lets_the_next_waiter_read_the_log() {
        let signals = LocalSignals::new();
        let (run, head) = ("run_1".into(), Head::default());
        signals.raise(&run, head);
        let start = tokio::time::Instant::now();
        let waiter = signals.wait(&run);
        assert!(!waiter.first);
        signals.hint(&run);
        waiter.changed(head, Duration::from_secs(60)).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(signals.wait(&run).first);
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_before_the_wait_ends_one_wait() {
        let signals = LocalSignals::new();
        signals.ring();
        let start = tokio::time::Instant::now();
        signals.work(Duration::from_secs(60)).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        signals.work(Duration::from_secs(60)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(60));
    }
}
