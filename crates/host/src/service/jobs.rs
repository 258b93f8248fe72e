//! Runs background work: leased work that several replicas share, and periodic work.
//!
//! A panic or an error of one piece of work is logged, and the others go on. A failed write starts
//! an outage of the database, during which no leased work is claimed (ADR 25).

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use metrics::Counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use crate::background::supervised;
use crate::ports::clock::Clock;
use crate::ports::store::StoreError;
use crate::service::fault::{chain, note_outage};
use crate::store::database::Database;
use crate::store::jobs as job_store;
use crate::telemetry::{counter, names};

/// Why leased work was not finished.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Work that replicas claim from the store, each piece under a lease with a fencing token.
#[async_trait]
pub trait Leased: Send + Sync + 'static {
    /// For log lines.
    const NAME: &'static str;

    /// Maximum number of claims in progress.
    const AT_ONCE: usize;

    type Claim: Send + 'static;

    fn store(&self) -> &Database;

    /// Longest interval between two searches for work, and the pause after one that failed.
    fn poll(&self) -> Duration;

    /// # Errors
    /// The store failed.
    async fn claim(&self) -> Result<Option<Self::Claim>, StoreError>;

    /// The id of the claimed work, for log lines.
    fn id(claim: &Self::Claim) -> &str;

    /// Performs the work, extends its lease while that is needed, and gives it back at the end. At
    /// `shutdown` it stops at the next suitable point.
    ///
    /// # Errors
    /// The work keeps its lease until it expires, so that the next try is not immediate.
    async fn perform(
        &self,
        claim: Self::Claim,
        shutdown: &CancellationToken,
    ) -> Result<(), Failure>;

    /// Waits until work may be waiting, after a search that took `search` and found nothing.
    async fn idle(&self, _search: Duration) {
        self.store().work_waiting(self.poll()).await;
    }
}

/// Claims and performs work until `shutdown`, then waits for the claims in progress.
pub async fn perform<L: Leased>(work: Arc<L>, shutdown: CancellationToken) {
    let failures = failures_of(L::NAME);
    let claims = TaskTracker::new();
    let places = Arc::new(Semaphore::new(L::AT_ONCE));
    let next_place = || shutdown.run_until_cancelled(places.clone().acquire_owned());
    while let Some(Ok(place)) = next_place().await {
        let search = supervised(
            L::NAME,
            perform_next(&work, place, &claims, &failures, &shutdown),
        );
        if !matches!(search.await, Ok(Ok(()))) {
            shutdown.run_until_cancelled(sleep(work.poll())).await;
        }
    }
    claims.close();
    claims.wait().await;
}

/// Starts one piece of work, or waits for it.
async fn perform_next<L: Leased>(
    work: &Arc<L>,
    place: OwnedSemaphorePermit,
    claims: &TaskTracker,
    failures: &Counter,
    shutdown: &CancellationToken,
) -> Result<(), StoreError> {
    let began = Instant::now();
    // Work whose result cannot be recorded would be repeated endlessly.
    let claimed = match work.store().takes_writes().await {
        true => work.claim().await,
        false => Ok(None),
    };
    match claimed {
        Ok(Some(claim)) => {
            let (work, failures) = (work.clone(), failures.clone());
            let shutdown = shutdown.clone();
            claims.spawn(async move {
                let id = L::id(&claim).to_owned();
                let performed = supervised(L::NAME, work.perform(claim, &shutdown)).await;
                if let Ok(Err(cause)) = performed {
                    report(work.store(), L::NAME, &id, &cause, &failures);
                }
                drop(place);
            });
            Ok(())
        }
        Ok(None) => {
            drop(place);
            let idle = work.idle(began.elapsed());
            shutdown.run_until_cancelled(idle).await;
            Ok(())
        }
        Err(cause) => {
            note_outage(work.store(), &cause);
            failures.increment(1);
            error!(
                job = L::NAME,
                cause = chain(&cause),
                "could not claim work; the host will retry"
            );
            Err(cause)
        }
    }
}

fn report(store: &Database, job: &'static str, id: &str, cause: &Failure, failures: &Counter) {
    match cause.downcast_ref::<StoreError>() {
        // Another replica has claimed the work, or it was deleted.
        Some(StoreError::Fenced) => return,
        Some(cause) => note_outage(store, cause),
        None => {}
    }
    failures.increment(1);
    let cause = chain(&**cause);
    error!(
        job,
        id, cause, "could not finish work; its lease will expire"
    );
}

/// The number of failures of a job, exported from the start of the job.
fn failures_of(work: &'static str) -> Counter {
    counter(names::BACKGROUND_FAILURES, &[("work", work)])
}

/// When a job of every replica runs.
#[derive(Clone, Copy, Debug)]
pub struct Periodic {
    /// For log lines.
    pub name: &'static str,
    /// Wait before the first time. A process started for a single command has other work to do.
    pub first: Duration,
    pub every: Duration,
}

impl Periodic {
    /// Runs `job` until `shutdown`. What fails is tried again the next time.
    pub async fn run<F, T>(
        self,
        store: &Database,
        shutdown: &CancellationToken,
        job: impl Fn() -> F,
    ) where
        F: Future<Output = Result<T, StoreError>>,
    {
        let failures = failures_of(self.name);
        let mut wait = self.first;
        while shutdown.run_until_cancelled(sleep(wait)).await.is_some() {
            wait = self.every;
            // Boxed, because the compiler limits how deep the types of futures nest.
            match supervised(self.name, Box::pin(job())).await {
                // Another replica does it.
                Ok(Ok(_) | Err(StoreError::Fenced)) | Err(_) => {}
                Ok(Err(cause)) => {
                    note_outage(store, &cause);
                    failures.increment(1);
                    let cause = chain(&cause);
                    error!(
                        job = self.name,
                        cause, "a background job failed and will be retried"
                    );
                }
            }
        }
    }
}

/// A job that one replica at a time does, recorded in the store. Doing it twice is harmless.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    pub name: &'static str,
    pub every: SignedDuration,
    /// Duration of a lease without [`Turn::hold`].
    pub lease: Duration,
}

/// A replica that does shared jobs.
#[derive(Clone)]
pub struct Replica {
    pub store: Arc<Database>,
    pub clock: Arc<dyn Clock>,
    /// Unique among all replicas and starts.
    pub owner: String,
}

impl Replica {
    /// Starts a job that is due, unless another replica does it.
    ///
    /// # Errors
    /// The store failed.
    pub async fn begin(&self, job: Shared) -> Result<Option<Turn<'_>>, StoreError> {
        let now = self.clock.now();
        let before = now.checked_sub(job.every).unwrap_or(Timestamp::MIN);
        let begun =
            job_store::begin_job(&self.store, job.name, &self.owner, before, job.lease).await?;
        Ok(begun.then_some(Turn {
            replica: self,
            job,
            now,
        }))
    }
}

/// A replica's turn at a shared job.
pub struct Turn<'r> {
    replica: &'r Replica,
    job: Shared,
    /// When it began.
    pub now: Timestamp,
}

impl Turn<'_> {
    /// Extends the lease.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if another replica has the job; the store failed.
    pub async fn hold(&self) -> Result<(), StoreError> {
        let Shared { name, lease, .. } = self.job;
        let Replica { store, owner, .. } = self.replica;
        job_store::hold_job(store, name, owner, lease).await
    }

    /// Marks the job as done, unless `shutdown` interrupted it: the next replica starts it again.
    ///
    /// # Errors
    /// The store failed.
    pub async fn end(self, shutdown: &CancellationToken) -> Result<(), StoreError> {
        if shutdown.is_cancelled() {
            return Ok(());
        }
        let Replica { store, owner, .. } = self.replica;
        job_store::end_job(store, self.job.name, owner, self.now).await
    }
}
