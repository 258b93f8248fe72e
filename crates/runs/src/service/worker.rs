//! Claims runs and renews their leases.
//!
//! A replica claims as many runs as it may execute, renews all leases with one heartbeat, and
//! forwards cancel requests. On shutdown it stops claiming, lets running tasks finish within a
//! grace period, and releases unfinished runs for others to resume.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use metrics::Gauge;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::ports::pauses::PauseRequest;
use crate::ports::queue::{CancelRequest, Claimable, RunClaim};
use crate::service::command::Command;
use crate::service::executor::control::RunControl;
use crate::service::executor::{ExecutionOutcome, Executor};
use crate::service::metrics::RUN_METRICS;
use crate::store;
use touchstone_host::background::{spawn, supervised};
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::store::{Outage, StoreError};
use touchstone_host::service::fault::{chain, note_outage};
use touchstone_host::service::jobs;
use touchstone_host::service::jobs::{Failure, Leased};
use touchstone_host::service::lease::{Lease, LeaseTerm};
use touchstone_host::store::database::Database;
use touchstone_host::telemetry::{gauge, names};
use touchstone_kit::ids::{RunId, TenantId};

#[derive(Clone, Copy, Debug)]
pub struct WorkerSettings {
    /// How long a lease holds without a heartbeat; heartbeats come at a third of it.
    pub lease: Duration,
    /// Runs executed at the same time; at most half of them are one tenant's, so that tenants do
    /// not have to wait for each other.
    pub max_runs: usize,
    /// How long tasks may continue after shutdown was requested.
    pub drain: Duration,
    /// Longest interval between two reads of the queue.
    pub poll: Duration,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            max_runs: 64,
            drain: Duration::from_secs(10),
            poll: Duration::from_secs(1),
        }
    }
}

/// A replica's share of the work.
pub struct Worker {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    executor: Arc<Executor>,
    owner: String,
    settings: WorkerSettings,
    /// The command this process runs; `None` for a host, which executes everything queued for
    /// hosts.
    command: Option<Arc<Command>>,
    held: Mutex<HashMap<Key, HeldRun>>,
    /// When runs that were parked here may be claimed again. Any replica may claim them then; this
    /// only saves the wait for the next read of the queue.
    wakes: Mutex<BTreeSet<Timestamp>>,
    /// Until when no further run is claimed, because this replica does not reach its workers.
    resting: Mutex<Option<Instant>>,
    executing: Gauge,
}

type Key = (RunId, Fence);

/// The fencing token of the first claim of a run.
const FIRST_CLAIM: Fence = Fence(1);

/// A run whose lease this worker holds.
struct HeldRun {
    tenant: TenantId,
    cancel: watch::Sender<Option<CancelRequest>>,
    pause: watch::Sender<Option<PauseRequest>>,
    term: LeaseTerm,
    /// Set when the lease is lost.
    lost: CancellationToken,
}

/// A claimed run, and what its execution learns from the worker.
pub struct ClaimedRun {
    claim: RunClaim,
    cancelled: watch::Receiver<Option<CancelRequest>>,
    paused: watch::Receiver<Option<PauseRequest>>,
    lease: Lease,
    lost: CancellationToken,
}

#[async_trait]
impl Leased for Worker {
    const NAME: &'static str = "runs";

    /// `claim` counts the slots: a run to be cancelled takes a moment and no slot, so it must not
    /// wait for one.
    const AT_ONCE: usize = Semaphore::MAX_PERMITS;

    type Claim = ClaimedRun;

    fn store(&self) -> &Database {
        &self.store
    }

    fn poll(&self) -> Duration {
        self.settings.poll
    }

    async fn claim(&self) -> Result<Option<ClaimedRun>, StoreError> {
        let tenants_at_limit = self.tenants_at_limit();
        let own = self.command.as_ref().map(|command| command.runs());
        let rests = self.resting().is_some_and(|until| Instant::now() < until);
        let free = !rests && self.held().len() < self.settings.max_runs;
        let which = match &own {
            Some(runs) => Claimable::Named(if free { runs } else { &[] }),
            None if free => Claimable::Except(&tenants_at_limit),
            None => Claimable::Cancelled,
        };
        let lease = self.settings.lease;
        let asked_at = self.clock.uptime();
        let claim = with_timeout(
            lease / 3,
            store::queue::claim(&self.store, &self.owner, which, lease),
        )
        .await?;
        Ok(claim.map(|claim| self.hold(claim, LeaseTerm::new(asked_at, lease))))
    }

    fn id(claimed: &ClaimedRun) -> &str {
        claimed.claim.run.run_id.as_str()
    }

    async fn perform(
        &self,
        claimed: ClaimedRun,
        shutdown: &CancellationToken,
    ) -> Result<(), Failure> {
        let claim = claimed.claim;
        let key = (claim.run.run_id.clone(), claim.fence);
        let (run_id, fence) = &key;
        info!(%run_id, fence = fence.0, "executing run");
        let control = RunControl {
            cancelled: claimed.cancelled,
            paused: claimed.paused,
            lease: claimed.lease,
            lost: claimed.lost,
            draining: shutdown.clone(),
            drain: self.settings.drain,
        };
        let executed = supervised(Self::NAME, self.executor.execute(claim, control)).await;
        // A broken run keeps its lease until it expires, so that others do not fail at once in the
        // same way.
        let released = match executed.unwrap_or(ExecutionOutcome::Broken) {
            ExecutionOutcome::GivenBack => store::queue::release(&self.store, run_id, *fence).await,
            ExecutionOutcome::CutOff => {
                // Leaves the run to others, and does not give up on it if there are none.
                *self.resting() = Some(Instant::now() + self.settings.lease);
                store::queue::release(&self.store, run_id, *fence).await
            }
            ExecutionOutcome::Parked(wait) => {
                self.wake_at(wait.until);
                store::queue::park(&self.store, run_id, *fence, wait).await
            }
            ExecutionOutcome::Ended | ExecutionOutcome::Broken => Ok(()),
        };
        self.held().remove(&key);
        self.executing.decrement(1.0);
        // Another run may be waiting for a free slot.
        self.store.notify_work().await;
        released?;
        Ok(())
    }

    async fn idle(&self, _: Duration) {
        self.store.work_waiting(self.until_next_poll()).await;
        self.forward_requests().await;
    }
}

impl Worker {
    /// A worker named `owner`, unique among all replicas and starts. With a `command` it claims
    /// only the runs that the command was asked to execute.
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        executor: Arc<Executor>,
        owner: String,
        settings: WorkerSettings,
        command: Option<Arc<Command>>,
    ) -> Arc<Self> {
        let (held, wakes, resting) = (Mutex::default(), Mutex::default(), Mutex::default());
        gauge(names::WORKER_RUNS_LIMIT, &[]).set(settings.max_runs as f64);
        Arc::new(Self {
            store,
            clock,
            executor,
            owner,
            settings,
            command,
            held,
            wakes,
            resting,
            executing: gauge(names::WORKER_RUNS, &[]),
        })
    }

    /// Works until `shutdown`, then drains. Returns when none of its runs is being executed.
    pub async fn work(self: Arc<Self>, shutdown: CancellationToken) {
        let stop = CancellationToken::new();
        let heartbeat = spawn("heartbeat", self.clone().beat(stop.clone()));
        self.store.require_check();
        jobs::perform(self, shutdown).await;
        stop.cancel();
        // It logs its own failures.
        let _ = heartbeat.await;
    }

    /// The tenants that have used up their share of the slots.
    fn tenants_at_limit(&self) -> Vec<TenantId> {
        let share = self.settings.max_runs.div_ceil(2);
        let mut held: HashMap<TenantId, usize> = HashMap::new();
        for run in self.held().values() {
            *held.entry(run.tenant.clone()).or_default() += 1;
        }
        held.retain(|_, runs| *runs >= share);
        held.into_keys().collect()
    }

    fn hold(&self, claim: RunClaim, term: LeaseTerm) -> ClaimedRun {
        let (cancel, cancelled) = watch::channel(None);
        let (pause, paused) = watch::channel(None);
        let (lease, lost) = (term.lease(self.clock.clone()), CancellationToken::new());
        let held = HeldRun {
            tenant: claim.run.tenant.clone(),
            cancel,
            pause,
            term,
            lost: lost.clone(),
        };
        let key = (claim.run.run_id.clone(), claim.fence);
        self.held().insert(key, held);
        self.executing.increment(1.0);
        if claim.fence == FIRST_CLAIM {
            let waited = self.clock.now().duration_since(claim.run.created_at);
            RUN_METRICS.first_claimed(waited.try_into().unwrap_or_default());
        }
        ClaimedRun {
            claim,
            cancelled,
            paused,
            lease,
            lost,
        }
    }

    fn wake_at(&self, at: Option<Timestamp>) {
        let mut wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        wakes.extend(at);
    }

    /// How long to wait for a signal before the next read of the queue.
    fn until_next_poll(&self) -> Duration {
        let now = self.clock.now();
        let mut wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        *wakes = wakes.split_off(&now);
        let next = wakes.first().map(|at| {
            // Rounded up: a read that comes too early finds nothing.
            let micros = at.as_microsecond().saturating_sub(now.as_microsecond());
            Duration::from_micros(u64::try_from(micros).unwrap_or(0)) + Duration::from_millis(1)
        });
        next.map_or(self.settings.poll, |wait| wait.min(self.settings.poll))
    }

    async fn beat(self: Arc<Self>, stop: CancellationToken) {
        let mut renewed_at = Instant::now();
        let next = || stop.run_until_cancelled(sleep(self.settings.lease / 3));
        while next().await.is_some() {
            // It logs its own failures.
            let _ = supervised("heartbeat", self.renew(&mut renewed_at)).await;
        }
    }

    async fn renew(&self, renewed_at: &mut Instant) {
        let asked_at = Instant::now();
        let uptime = self.clock.uptime();
        // Only runs held before the renewal can have lost their lease; one claimed meanwhile is not
        // in the response.
        let before: Vec<Key> = self.held().keys().cloned().collect();
        // A response after the leases expired is too late.
        let lease = self.settings.lease;
        let left = (*renewed_at + lease).saturating_duration_since(asked_at);
        let timeout = if left.is_zero() { lease / 3 } else { left };
        match with_timeout(
            timeout,
            store::queue::renew(&self.store, &self.owner, &before, lease),
        )
        .await
        {
            Ok(kept) => {
                *renewed_at = asked_at;
                self.apply_renewal(&before, &kept, uptime);
            }
            Err(cause) => {
                note_outage(self.store.as_ref(), &cause);
                error!(cause = chain(&cause), "could not renew leases");
                if renewed_at.elapsed() >= lease {
                    // Others may hold the runs by now; calls made for them would be paid twice.
                    self.held().values().for_each(|held| held.lost.cancel());
                }
            }
        }
    }

    fn apply_renewal(
        &self,
        before: &[Key],
        kept: &[(RunId, Fence, Option<CancelRequest>)],
        asked_at: Duration,
    ) {
        let held = self.held();
        for key @ (run, fence) in before {
            let Some(ours) = held.get(key) else {
                continue;
            };
            match kept.iter().find(|(id, of, _)| id == run && of == fence) {
                Some((_, _, cancel)) => {
                    ours.term.renew(asked_at, self.settings.lease);
                    forward(&ours.cancel, cancel.clone());
                }
                // A run that has just ended no longer has a lease either; its task does not need
                // one.
                None => ours.lost.cancel(),
            }
        }
    }

    async fn forward_requests(&self) {
        let runs: Vec<Key> = self.held().keys().cloned().collect();
        for key in runs {
            let run = &key.0;
            // The next read is soon enough; each further query would only wait as long as this one.
            let Ok(cancel) = store::queue::cancel_requested(&self.store, run).await else {
                return;
            };
            let Ok(pause) = store::pauses::pause_requested(&self.store, run).await else {
                return;
            };
            if let Some(held) = self.held().get(&key) {
                forward(&held.cancel, cancel);
                // Unlike a cancel, a pause may be withdrawn and requested again.
                held.pause.send_if_modified(|known| {
                    let changed = *known != pause;
                    *known = pause;
                    changed
                });
            }
        }
    }

    fn resting(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<Key, HeldRun>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Treats a store that does not respond in time as failed: a connection to a dead machine may stay
/// silent for minutes.
async fn with_timeout<T>(
    timeout: Duration,
    query: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let result = tokio::time::timeout(timeout, query).await;
    result.unwrap_or_else(|late| Err(StoreError::Unavailable(Outage(Box::new(late)))))
}

/// Forwards a request the first time it is seen.
fn forward<T>(channel: &watch::Sender<Option<T>>, request: Option<T>) {
    channel.send_if_modified(|known| {
        let changed = known.is_none() && request.is_some();
        if changed {
            *known = request;
        }
        changed
    });
}
