//! The runner of background work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::jobs;
use touchstone_host::service::jobs::{Failure, Leased, Periodic};
use touchstone_host::store::database::Database;

use super::bench::{Bench, echo};

const PATIENCE: Duration = Duration::from_secs(60);

/// Work whose steps are given by name.
struct Steps {
    store: Arc<Database>,
    waiting: Mutex<Vec<&'static str>>,
    done: Mutex<Vec<&'static str>>,
    started: Notify,
    go_on: Notify,
}

#[async_trait]
impl Leased for Steps {
    const NAME: &'static str = "steps";

    const AT_ONCE: usize = 1;

    type Claim = &'static str;

    fn store(&self) -> &Database {
        &self.store
    }

    fn poll(&self) -> Duration {
        Duration::from_millis(10)
    }

    async fn claim(&self) -> Result<Option<&'static str>, StoreError> {
        match self.waiting.lock().unwrap().pop() {
            Some("claim fails") => Err(StoreError::Fenced),
            claim => Ok(claim),
        }
    }

    fn id<'a>(claim: &'a &'static str) -> &'a str {
        claim
    }

    async fn perform(&self, claim: &'static str, _: &CancellationToken) -> Result<(), Failure> {
        match claim {
            "panics" => panic!("content"),
            "fails" => return Err("no luck".into()),
            "waits" => {
                self.started.notify_one();
                self.go_on.notified().await;
            }
            _ => {}
        }
        self.done.lock().unwrap().push(claim);
        Ok(())
    }
}

/// Steps are performed from the last to the first.
async fn steps(names: &[&'static str]) -> (Bench, Arc<Steps>) {
    let bench = Bench::new(echo).await;
    let steps = Steps {
        store: bench.store.clone(),
        waiting: Mutex::new(names.to_vec()),
        done: Mutex::default(),
        started: Notify::new(),
        go_on: Notify::new(),
    };
    (bench, Arc::new(steps))
}

#[tokio::test]
async fn work_goes_on_after_a_panic_and_after_failures() {
    let (_bench, steps) = steps(&["waits", "claim fails", "b", "fails", "panics", "a"]).await;
    let shutdown = CancellationToken::new();
    let working = tokio::spawn(jobs::perform(steps.clone(), shutdown.clone()));
    let started = tokio::time::timeout(PATIENCE, steps.started.notified()).await;
    started.unwrap();
    assert_eq!(*steps.done.lock().unwrap(), ["a", "b"]);

    // Work in progress is finished, and nothing else is claimed.
    steps.waiting.lock().unwrap().push("c");
    shutdown.cancel();
    steps.go_on.notify_one();
    working.await.unwrap();
    assert_eq!(*steps.done.lock().unwrap(), ["a", "b", "waits"]);
}

#[tokio::test]
async fn a_periodic_job_that_panics_runs_again() {
    let bench = Bench::new(echo).await;
    let (shutdown, times) = (CancellationToken::new(), AtomicUsize::new(0));
    let job = Periodic {
        name: "test",
        first: Duration::ZERO,
        every: Duration::from_millis(10),
    };
    let step = || async {
        match times.fetch_add(1, Ordering::Relaxed) {
            0 => panic!("content"),
            1 => Err(StoreError::Fenced),
            _ => {
                shutdown.cancel();
                Ok(())
            }
        }
    };
    let ran = job.run(&bench.store, &shutdown, step);
    tokio::time::timeout(PATIENCE, ran).await.unwrap();
    assert_eq!(times.into_inner(), 3);
}
