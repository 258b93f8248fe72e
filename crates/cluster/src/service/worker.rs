//! A worker: takes tasks whose models it serves, executes them, and keeps its holds alive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use touchstone_agents::ports::model::{ModelBinding, Models};
use touchstone_agents::rules::ModelIdentity;
use touchstone_agents::rules::worker_labels::WorkerLabels;
use touchstone_agents::runtime::Runtime;
use touchstone_host::background::supervised;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_openwop::suite::ModelClass;
use tracing::{info, warn};

use crate::cluster_metrics::WorkerMetrics;
use crate::ports::bus::{Bus, BusError, Delivery};
use crate::rules::access::pools::Pool;
use crate::rules::access::rights::Forbidden;
use crate::rules::lane::{Lane, subsets};
use crate::rules::pauses::{Pauses, RecentWarnings, set_aside};
use crate::rules::presence::WorkerState;
use crate::rules::silence::{ASKED_AGAIN, SilentOwners};
use crate::rules::subjects::{Address, Operation};
use crate::rules::wire::{
    self, Assignment, Beat, Beaten, Claim, Claimed, Grant, Held, MAX_HELD, Offered, Proof, Served,
    WorkerId,
};
use crate::service::assignment::Job;
use crate::service::attempt::Attempt;
use crate::service::watching::Watching;

/// How long an answer of an owner is awaited. An owner answers earlier, even if only "wait".
pub(super) const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// The same for claims, which an owner answers at once unless it is stopped or has no connection.
const CLAIM_ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// Time between two heartbeats.
const BEAT: Duration = Duration::from_secs(1);
/// How long an empty queue is watched with one request.
const WATCHED: Duration = Duration::from_millis(1_500);
/// The same if the worker has fewer free places than lanes, which then take turns.
const WATCHED_IN_TURN: Duration = Duration::from_millis(500);
/// Pause after a fault of the bus.
const AFTER_FAULT: Duration = Duration::from_secs(1);
/// Most tasks that are taken from a queue at once.
const MAX_TAKEN: usize = 16;
/// How often a claim without an answer is repeated.
const CLAIMS: usize = 3;
/// How often it is checked whether the pause of a lane is over.
const LOOK: Duration = Duration::from_millis(500);

/// Why a task that was offered is left in the queue.
enum Unclaimed {
    Forbidden(Forbidden),
    /// The owner does not answer.
    Silent,
}

/// The settings of a worker.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Its name, one token of a subject.
    pub name: String,
    /// Maximum number of tasks in flight.
    pub concurrency: usize,
    /// How long tasks in flight may take after the worker was asked to stop.
    pub drain: Duration,
    /// The pools whose tasks it takes.
    pub pools: Vec<Pool>,
    pub labels: WorkerLabels,
    /// Largest task in bytes that it fetches in parts.
    pub largest: usize,
}

pub struct Worker {
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    /// One binding for each model of agents.
    models: Vec<ModelBinding>,
    user: Option<ModelBinding>,
    runtime: Runtime,
    settings: WorkerSettings,
    id: WorkerId,
    /// Attempts in flight, by invocation.
    active: Mutex<BTreeMap<String, Arc<Attempt>>>,
    metrics: WorkerMetrics,
    silent: Mutex<SilentOwners>,
    pauses: Mutex<Pauses>,
    recent_warnings: Mutex<RecentWarnings>,
    watching: Watching,
}

impl Worker {
    /// A worker that serves the models of a configuration, and commands in place of models. Its
    /// tasks can have any class of agents: what counts is the model.
    pub fn new(
        bus: Arc<dyn Bus>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        models: &dyn Models,
        commands: Vec<ModelBinding>,
        settings: WorkerSettings,
    ) -> Self {
        let mut served: Vec<ModelBinding> = Vec::new();
        let classes = ModelClass::ALL.into_iter();
        for binding in classes.filter_map(|it| models.resolve(it)).chain(commands) {
            let identity = binding.identity();
            if identity.endpoint.is_some() && served.iter().all(|it| it.identity() != identity) {
                served.push(binding);
            }
        }
        let user = models.simulated_user();
        let watching = watching(&served, user.as_ref(), &settings);
        let id = WorkerId {
            worker: settings.name.clone(),
            epoch: ids.mint("epoch"),
        };
        Self {
            bus,
            clock,
            ids,
            models: served,
            user,
            runtime: Runtime::default(),
            settings,
            id,
            active: Mutex::default(),
            metrics: WorkerMetrics::default(),
            silent: Mutex::default(),
            pauses: Mutex::default(),
            recent_warnings: Mutex::default(),
            watching,
        }
    }

    pub fn name(&self) -> &str {
        &self.settings.name
    }

    pub const fn labels(&self) -> &WorkerLabels {
        &self.settings.labels
    }

    /// The models that this worker serves.
    pub fn models(&self) -> impl Iterator<Item = ModelIdentity> {
        self.models.iter().map(ModelBinding::identity)
    }

    /// What it announces; `draining` if it takes no more tasks. A worker that cannot find the queues of
    /// tasks with labels and of large tasks announces that it takes none.
    pub fn state(&self, draining: bool) -> WorkerState {
        let (labels, largest) = match self.watching.finds() {
            true => (self.settings.labels.clone(), self.settings.largest),
            false => (WorkerLabels::default(), 0),
        };
        let capacity = self.settings.concurrency;
        let free = capacity.saturating_sub(self.active().len());
        WorkerState {
            capacity: u64::try_from(capacity).unwrap_or(u64::MAX),
            free: u64::try_from(free).unwrap_or(u64::MAX),
            models: self.models().map(|it| it.to_string()).collect(),
            draining,
            labels,
            largest,
        }
    }

    /// Sets the gauges to the state of now.
    pub fn measure(&self) {
        self.metrics.set(&self.state(false));
    }

    fn serves(&self, wanted: &Served) -> Option<ModelBinding> {
        let wanted = wanted.identity();
        let mut known = self.models.iter().chain(&self.user);
        known.find(|it| it.identity().serves(&wanted)).cloned()
    }

    fn active(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Attempt>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> MutexGuard<'_, SilentOwners> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pauses(&self) -> MutexGuard<'_, Pauses> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until `stop` is cancelled, then finishes the tasks in flight.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let beating = async {
            let mut beats = tokio::time::interval(BEAT);
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                beats.tick().await;
                self.beat().await;
            }
        };
        let looking = async {
            tokio::select! {
                () = stop.cancelled() => std::future::pending().await,
                () = self.watching.look(&*self.bus, &*self.ids) => {}
            }
        };
        tokio::select! {
            biased;
            () = self.work(&stop) => {}
            () = beating => {}
            () = looking => {}
        }
    }

    async fn work(self: &Arc<Self>, stop: &CancellationToken) {
        let watching = &self.watching;
        let places = Arc::new(Semaphore::new(self.settings.concurrency));
        let mut tasks = JoinSet::new();
        let mut idle = Vec::new();
        let mut pulls = FuturesUnordered::new();
        loop {
            idle.extend(watching.begin());
            while let Some((lane, free)) = self.next_pull(&mut idle, &places) {
                let in_turn = !idle.is_empty() && places.available_permits() == 0;
                let longest = if in_turn { WATCHED_IN_TURN } else { WATCHED };
                let longest = watching.waits(&lane, longest);
                pulls.push(self.pull(lane, free, longest));
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
                Some((lane, taken)) = pulls.next(), if !pulls.is_empty() => {
                    let took = !taken.is_empty();
                    for (delivery, place) in taken {
                        let (worker, lane) = (Arc::clone(self), lane.clone());
                        let task = async move {
                            worker.take(&lane, delivery).await;
                            drop(place);
                        };
                        tasks.spawn(supervised("cluster task", task).map(drop));
                    }
                    idle.extend(watching.again(lane, took, self.clock.uptime()));
                }
                () = watching.found() => {}
                () = tokio::time::sleep(LOOK), if !idle.is_empty() => {}
            }
        }
        drop(pulls);
        info!(tasks = self.active().len(), "the worker finishes its tasks");
        let finished = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(self.settings.drain, finished)
            .await
            .is_err()
        {
            let left = self.active().len();
            warn!(tasks = left, "the worker leaves tasks to other workers");
        }
    }

    /// The next lane to look at, with its share of the free places.
    fn next_pull(
        &self,
        idle: &mut Vec<Lane>,
        places: &Arc<Semaphore>,
    ) -> Option<(Lane, Vec<OwnedSemaphorePermit>)> {
        let (next, lanes) = {
            let pauses = self.pauses();
            let now = self.clock.uptime();
            let ready = (0..).zip(&*idle);
            let mut ready = ready.filter(|(_, lane)| !pauses.is_paused(lane, now));
            let (next, _) = ready.next()?;
            (next, ready.count().saturating_add(1))
        };
        let share = places
            .available_permits()
            .checked_div(lanes)?
            .clamp(1, MAX_TAKEN);
        let mut free = Vec::with_capacity(share);
        while free.len() < share {
            let Ok(place) = Arc::clone(places).try_acquire_owned() else {
                break;
            };
            free.push(place);
        }
        (!free.is_empty()).then(|| (idle.remove(next), free))
    }

    /// Takes tasks of a lane, each with a place.
    async fn pull(
        &self,
        lane: Lane,
        free: Vec<OwnedSemaphorePermit>,
        longest: Duration,
    ) -> (Lane, Vec<(Delivery, OwnedSemaphorePermit)>) {
        let pulled = self.bus.pull(&lane, free.len(), longest).await;
        let deliveries = match pulled {
            Ok(deliveries) => deliveries,
            Err(cause) => {
                warn!(%lane, %cause, "could not take tasks");
                tokio::time::sleep(AFTER_FAULT).await;
                Vec::new()
            }
        };
        (lane, deliveries.into_iter().zip(free).collect())
    }

    /// Claims a task and executes it.
    async fn take(&self, lane: &Lane, delivery: Delivery) {
        let Delivery {
            message,
            deliveries,
            receipt,
        } = delivery;
        let claimed = match wire::read::<Offered>(&message) {
            Ok(offered) => self.claim(offered).await,
            Err(cause) => {
                warn!(%cause, "a message in a queue was ignored");
                Ok(None)
            }
        };
        let claimed = match claimed {
            Ok(claimed) => claimed,
            Err(Unclaimed::Forbidden(reason)) => {
                self.forbidden(lane, reason);
                receipt.release(set_aside(deliveries)).await;
                return;
            }
            // The owner believes that the message is in the queue.
            Err(Unclaimed::Silent) => {
                receipt.release(ASKED_AGAIN).await;
                return;
            }
        };
        // Whatever the answer: an owner offers its task again as long as it waits.
        receipt.acknowledge().await;
        let Some((attempt, grant)) = claimed else {
            return;
        };
        self.pauses().end(lane);
        let attempt = Arc::new(attempt);
        let invocation = attempt.proof().invocation.clone();
        self.active()
            .insert(invocation.clone(), Arc::clone(&attempt));
        let _listed = Listed {
            worker: self,
            invocation: &invocation,
        };
        // Heartbeats keep the attempt while its parts are fetched.
        match self.job(&attempt, grant).await {
            Some(job) => attempt.execute(job, &self.runtime).await,
            None if attempt.is_lost() => {}
            None => return,
        }
        self.metrics.attempt_ended(attempt.is_lost());
    }

    /// Leaves a lane for a while, whose tasks other workers may execute.
    fn forbidden(&self, lane: &Lane, reason: Forbidden) {
        let now = self.clock.uptime();
        self.pauses().pause(lane, reason, now);
        let mut recent = self
            .recent_warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if recent.is_due(&format!("{lane} {reason}"), now) {
            let worker = &self.id.worker;
            warn!(worker, %lane, %reason, "a host refused a task to this worker; allow it in `[[cluster.workers]]` of the host, or start the worker with the --name of another entry");
        }
    }

    /// `None` if there is nothing to execute.
    async fn claim(&self, offered: Offered) -> Result<Option<(Attempt, Grant)>, Unclaimed> {
        let replica = &offered.replica;
        if !self.silent().may_ask(replica, self.clock.uptime()) {
            return Err(Unclaimed::Silent);
        }
        let claim = Claim {
            worker: self.id.clone(),
            offer: offered.offer,
            claim: self.ids.mint("claim"),
            labels: self.settings.labels.clone(),
            largest: self.settings.largest,
        };
        let address = self.address(Operation::Claim, replica);
        let Ok(message) = wire::write(&claim) else {
            return Ok(None);
        };
        for _ in 0..CLAIMS {
            let claimed_at = self.clock.uptime();
            let asked = self
                .bus
                .request(&address, message.clone(), CLAIM_ANSWERED_WITHIN);
            let answer = asked.await;
            match answer {
                Err(BusError::NoAnswer) => {
                    self.silent().no_answer(replica, self.clock.uptime());
                    continue;
                }
                Ok(_) | Err(BusError::NoResponder) => self.silent().answered(replica),
                Err(BusError::Failed(_)) => {}
            }
            let Ok(answer) = answer else {
                return Ok(None);
            };
            let granted = match wire::read::<Claimed>(&answer) {
                Ok(Claimed::Granted(granted)) => *granted,
                Ok(Claimed::Gone | Claimed::Part { .. }) => return Ok(None),
                Ok(Claimed::Forbidden { reason }) => return Err(Unclaimed::Forbidden(reason)),
                Err(cause) => {
                    warn!(%cause, "the answer to a claim was ignored");
                    return Ok(None);
                }
            };
            return Ok(Some(self.granted(
                granted,
                offered.replica,
                claim,
                claimed_at,
            )));
        }
        Err(Unclaimed::Silent)
    }

    fn granted(
        &self,
        granted: Grant,
        replica: String,
        claim: Claim,
        claimed_at: Duration,
    ) -> (Attempt, Grant) {
        let proof = Proof {
            worker: claim.worker,
            offer: claim.offer,
            invocation: granted.invocation.clone(),
            token: granted.token.clone(),
        };
        let attempt = Attempt::new(
            Arc::clone(&self.bus),
            Arc::clone(&self.clock),
            replica,
            proof,
            claimed_at,
            Duration::from_millis(granted.hold_ms),
            &granted,
        );
        (attempt, granted)
    }

    /// The task of a grant. `None` if this worker cannot execute it, or the attempt is lost; the
    /// owner gives it to another worker when the hold is over.
    async fn job(&self, attempt: &Attempt, grant: Grant) -> Option<Job> {
        let text = match grant.parts_of {
            None => grant.task,
            Some(bytes) if bytes <= self.settings.largest => attempt.fetch(bytes).await?,
            Some(bytes) => {
                warn!(bytes, "a granted task is larger than this worker takes");
                return None;
            }
        };
        let task = Assignment::read(&text);
        let task = task.inspect_err(|cause| warn!(%cause, "a granted task was ignored"));
        let job = Job::new(task.ok()?, |wanted| self.serves(wanted));
        if job.is_none() {
            warn!("a granted task cannot be executed: the worker does not serve its models");
        }
        job
    }

    fn address(&self, operation: Operation, replica: &str) -> Address {
        Address {
            operation,
            replica: replica.to_owned(),
            worker: self.id.worker.clone(),
        }
    }

    /// Sends one heartbeat to each owner of attempts in flight.
    async fn beat(&self) {
        let mut owners: BTreeMap<String, Vec<Arc<Attempt>>> = BTreeMap::new();
        for attempt in self.active().values() {
            attempt.check_contact();
            let attempts = owners.entry(attempt.replica().to_owned()).or_default();
            attempts.push(Arc::clone(attempt));
        }
        let beats = owners.iter().flat_map(|(replica, attempts)| {
            let parts = attempts.chunks(MAX_HELD);
            parts.map(move |part| self.beat_to(replica, part))
        });
        join_all(beats).await;
    }

    async fn beat_to(&self, replica: &str, attempts: &[Arc<Attempt>]) {
        let held = attempts.iter().map(|attempt| {
            let proof = attempt.proof();
            Held {
                offer: proof.offer.clone(),
                invocation: proof.invocation.clone(),
                token: proof.token.clone(),
            }
        });
        let beat = Beat {
            worker: self.id.clone(),
            held: held.collect(),
        };
        let Ok(message) = wire::write(&beat) else {
            return;
        };
        let address = self.address(Operation::Beat, replica);
        let sent_at = self.clock.uptime();
        let answer = self.bus.request(&address, message, BEAT).await;
        let beaten = answer.ok().and_then(|it| wire::read::<Beaten>(&it).ok());
        let Some(beaten) = beaten else {
            // The holds run out unless a later heartbeat is answered.
            return;
        };
        self.silent().answered(replica);
        for (attempt, verdict) in attempts.iter().zip(beaten.held) {
            attempt.judged(verdict, sent_at);
        }
    }
}

/// The lanes of all tasks that a worker can execute.
fn watching(
    models: &[ModelBinding],
    user: Option<&ModelBinding>,
    settings: &WorkerSettings,
) -> Watching {
    let users = [None, user.map(ModelBinding::identity)];
    let sets = subsets(&settings.labels);
    let sizes = [Some(false), (settings.largest > 0).then_some(true)];
    let (mut plain, mut optional) = (BTreeSet::new(), BTreeSet::new());
    for model in models.iter().map(ModelBinding::identity) {
        let pools = settings.pools.iter();
        for (pool, user) in pools.flat_map(|pool| users.iter().map(move |user| (pool, user))) {
            let kinds = sets
                .iter()
                .flat_map(|set| sizes.iter().flatten().map(move |it| (set, *it)));
            for (set, large) in kinds {
                match Lane::with(pool, &model, user.as_ref(), set, large) {
                    Some(lane) if lane.is_optional() => optional.insert(lane),
                    Some(lane) => plain.insert(lane),
                    None => false,
                };
            }
        }
    }
    Watching::new(plain, optional)
}

/// Removes an attempt from those in flight.
struct Listed<'a> {
    worker: &'a Worker,
    invocation: &'a str,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.worker.active().remove(self.invocation);
    }
}
