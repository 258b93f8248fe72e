//! What all processes of a simulation share: time, chance, faults, and what has happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::Notify;
use tokio::time::Instant;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_openwop::events::Event;

use crate::memory::MemoryBus;
use crate::rules::subjects::Operation;
use crate::simulation::database::{Database, Entry, Fenced};
use crate::simulation::schedule::{Fault, FaultKind, Millis, Node, Schedule, slow};

/// Most time between two deliveries of a repeated message.
const REPEATED_WITHIN: Millis = 10_000;

pub struct World {
    pub schedule: Schedule,
    pub bus: MemoryBus,
    pub ids: Arc<dyn Ids>,
    start: Instant,
    state: Mutex<State>,
    /// The run has ended, or an invariant is violated.
    pub ended: Notify,
}

pub struct State {
    pub rng: StdRng,
    pub database: Database,
    pub calls: Vec<Call>,
    pub grants: Vec<Granted>,
    /// Calls whose usage an owner has received.
    pub reported: BTreeSet<u64>,
    /// Attempts that an owner has recorded, though not durably, by task.
    pub attempts: BTreeMap<String, BTreeSet<String>>,
    /// The process that serves a replica.
    pub replicas: BTreeMap<String, Node>,
    pub violations: Vec<String>,
    pub trace: Option<Vec<String>>,
}

/// A call of the model.
#[derive(Clone, Debug)]
pub struct Call {
    pub task: String,
    pub worker: usize,
    pub at: Millis,
}

/// An attempt that an owner has granted.
#[derive(Clone, Debug)]
pub struct Granted {
    pub task: String,
    pub offer: String,
    pub invocation: String,
    pub worker: usize,
    pub at: Millis,
}

impl World {
    pub fn new(schedule: Schedule, traced: bool) -> Arc<Self> {
        let seed = schedule.seed;
        let state = State {
            rng: StdRng::seed_from_u64(seed.wrapping_add(0x5eed)),
            database: Database::new(&schedule),
            calls: Vec::new(),
            grants: Vec::new(),
            reported: BTreeSet::new(),
            attempts: BTreeMap::new(),
            replicas: BTreeMap::new(),
            violations: Vec::new(),
            trace: traced.then(Vec::new),
        };
        Arc::new(Self {
            schedule,
            bus: MemoryBus::default(),
            ids: Arc::new(SimulatedIds::default()),
            start: Instant::now(),
            state: Mutex::new(state),
            ended: Notify::new(),
        })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn now(&self) -> Millis {
        u64::try_from(self.start.elapsed().as_millis()).unwrap()
    }

    pub async fn sleep_until(&self, time: Millis) {
        tokio::time::sleep_until(self.start + Duration::from_millis(time)).await;
    }

    /// Adds a line to the trace.
    pub fn trace(&self, line: impl FnOnce() -> String) {
        let now = self.now();
        if let Some(trace) = &mut self.state().trace {
            trace.push(format!("{now:>6} {}", line()));
        }
    }

    /// Records that an invariant is violated.
    pub fn violated(&self, what: impl Display) {
        let text = format!("at {} ms: {what}", self.now());
        self.trace(|| format!("VIOLATED {what}"));
        self.state().violations.push(text);
        self.ended.notify_one();
    }

    fn fault(&self, is_it: impl Fn(FaultKind) -> bool) -> Option<Fault> {
        let now = self.now();
        let mut faults = self.schedule.faults.iter();
        faults
            .find(|fault| fault.is_at(now) && is_it(fault.kind))
            .copied()
    }

    fn has(&self, kind: FaultKind) -> bool {
        self.fault(|it| it == kind).is_some()
    }

    pub fn is_forging(&self) -> bool {
        self.has(FaultKind::Forged)
    }

    pub fn is_stalled(&self, node: Node) -> bool {
        self.has(FaultKind::Stalled(node))
    }

    /// Waits while the process is stopped.
    pub async fn running(&self, node: Node) {
        while let Some(fault) = self.fault(|it| it == FaultKind::Stalled(node)) {
            self.sleep_until(fault.to).await;
        }
    }

    pub fn has_database(&self, host: usize) -> bool {
        !self.has(FaultKind::DatabaseDown) && !self.has(FaultKind::WithoutDatabase(host))
    }

    /// Whether queues take and deliver messages for a process.
    pub fn has_queues(&self, node: Node) -> bool {
        let down = self.fault(|kind| match kind {
            FaultKind::BusDown | FaultKind::QueuesDown => true,
            FaultKind::CutOff { node: cut, .. } => cut == node,
            _ => false,
        });
        down.is_none()
    }

    /// Whether a process hears what it announces to all.
    pub fn hears_itself(&self, node: Node) -> bool {
        let lost = self.fault(|kind| match kind {
            FaultKind::BusDown => true,
            FaultKind::Stalled(it) | FaultKind::CutOff { node: it, .. } => it == node,
            _ => false,
        });
        lost.is_none()
    }

    /// The delays after which a message arrives; none if it is lost. The bus itself is `None`.
    pub fn transit(
        &self,
        sender: Option<Node>,
        receiver: Option<Node>,
        operation: Option<Operation>,
    ) -> Vec<Duration> {
        let lost = self.fault(|kind| match kind {
            FaultKind::BusDown => true,
            FaultKind::Loses {
                operation: lost,
                worker,
            } => {
                let of_worker = worker.is_none_or(|it| sender == Some(Node::Worker(it)));
                operation == Some(lost) && of_worker
            }
            FaultKind::LosesAnswers {
                operation: lost,
                worker,
            } => {
                let to_worker = worker.is_none_or(|it| receiver == Some(Node::Worker(it)));
                let is_answer = matches!(sender, Some(Node::Host(_)));
                operation == Some(lost) && is_answer && to_worker
            }
            FaultKind::CutOff {
                node,
                sends,
                receives,
            } => (sends && sender == Some(node)) || (receives && receiver == Some(node)),
            _ => false,
        });
        let is_slow = self.has(FaultKind::Slow(None)) || self.has(FaultKind::Slow(receiver));
        let (noise, is_healed) = (self.schedule.noise, self.now() >= self.schedule.healed());
        let mut state = self.state();
        let rng = &mut state.rng;
        // Chance is asked equally often in every case, so that a fault changes little else.
        let is_lost = rng.random_bool(noise.lost) && !is_healed;
        let is_repeated = rng.random_bool(noise.repeated) && !is_healed;
        let again = rng.random_range(0..=REPEATED_WITHIN);
        let mut delay = rng.random_range(1..=noise.delay);
        if is_slow {
            delay += slow(rng);
        }
        if lost.is_some() || is_lost {
            return Vec::new();
        }
        let mut delays = vec![Duration::from_millis(delay)];
        if is_repeated {
            delays.push(Duration::from_millis(delay + again));
        }
        delays
    }

    pub fn random(&self, range: RangeInclusive<Millis>) -> Millis {
        self.state().rng.random_range(range)
    }

    /// The clock of a process: it has a speed and an origin of its own.
    pub fn clock(&self, node: Node) -> Arc<dyn Clock> {
        let [hosts, workers] = &self.schedule.speeds;
        let (speed, origin) = match node {
            Node::Host(host) => (hosts[host], 1_000 * (1 + host as u64)),
            Node::Worker(worker) => (workers[worker], 50_000 * (1 + worker as u64)),
        };
        Arc::new(SimulatedClock {
            start: self.start,
            speed,
            origin: Duration::from_secs(origin),
        })
    }

    /// Appends to the log, and checks what is appended.
    pub fn append(&self, fence: u64, entries: Vec<Entry>) -> Result<(), Fenced> {
        let (problems, is_ended) = {
            let state = &mut *self.state();
            let (calls, grants) = (&state.calls, &state.grants);
            let problems = state.database.append(fence, entries, calls, grants)?;
            (problems, state.database.is_ended())
        };
        for problem in problems {
            self.violated(problem);
        }
        if is_ended {
            self.ended.notify_one();
        }
        Ok(())
    }

    /// An owner has received an event of an attempt.
    pub fn reported(&self, task: &str, event: &Event) {
        let mut state = self.state();
        match event {
            Event::AgentInvocationStarted(it) => {
                let attempts = state.attempts.entry(task.to_owned()).or_default();
                attempts.insert(it.invocation_id.clone());
            }
            Event::ProviderUsage(usage) => state.reported.extend(usage.cache_read_tokens),
            _ => {}
        }
    }

    /// A worker calls the model. Returns the number of the call.
    pub fn call(&self, worker: usize, task: &str, was_stalled: bool) -> u64 {
        let at = self.now();
        let number = {
            let mut state = self.state();
            state.calls.push(Call {
                task: task.to_owned(),
                worker,
                at,
            });
            state.calls.len() as u64 - 1
        };
        self.trace(|| format!("w{worker} calls the model for {task}, call {number}"));
        if !was_stalled && let Some(problem) = self.call_problem(worker, task, at) {
            self.violated(problem);
        }
        number
    }

    /// Why a worker that was not stopped must not make a call.
    fn call_problem(&self, worker: usize, task: &str, at: Millis) -> Option<String> {
        let state = self.state();
        let mut of_task = state.grants.iter().filter(|it| it.task == task);
        let Some(own) = of_task.clone().rfind(|it| it.worker == worker) else {
            return Some(format!(
                "w{worker} calls the model for {task} without a grant"
            ));
        };
        // A new owner does not wait for the holds that another one gave.
        let latest = of_task.rfind(|it| it.offer == own.offer);
        if let Some(latest) = latest.filter(|it| it.worker != worker && it.at < at) {
            return Some(format!(
                "w{worker} calls the model for {task}, which w{} was granted at {} ms",
                latest.worker, latest.at
            ));
        }
        drop(state);
        let faults = &self.schedule.faults;
        let outage = faults.iter().find(|it| {
            let known = it.from + self.schedule.longest_delay();
            it.kind == FaultKind::DatabaseDown && it.is_at(at) && known < at
        })?;
        // What was stopped in between may act late, once.
        let stalled = |it: &Fault| {
            matches!(it.kind, FaultKind::Stalled(_)) && it.from <= at && it.to >= outage.from
        };
        (!faults.iter().any(stalled)).then(|| {
            format!(
                "w{worker} calls the model for {task} while the log takes nothing since {} ms",
                outage.from
            )
        })
    }
}

struct SimulatedClock {
    start: Instant,
    speed: f64,
    origin: Duration,
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn uptime(&self) -> Duration {
        self.origin + self.start.elapsed().mul_f64(self.speed)
    }
}

#[derive(Default)]
struct SimulatedIds(AtomicU64);

impl Ids for SimulatedIds {
    fn mint(&self, prefix: &str) -> String {
        format!("{prefix}_{}", self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::nil()
    }

    fn secret(&self) -> [u8; 32] {
        let mut secret = [7; 32];
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        secret[..8].copy_from_slice(&number.to_le_bytes());
        secret
    }
}
