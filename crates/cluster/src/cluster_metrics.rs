//! Metrics of owners, workers and the connection to NATS, for the operator. Labels are fixed words:
//! no run, no worker, no model.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};
use touchstone_host::telemetry::{counter, gauge, histogram, names};

use crate::rules::presence::{Capacity, ReplicaState, WorkerState};
use crate::rules::wire::{Claimed, Received};

/// What an owner counts.
pub struct OwnerMetrics {
    granted: Counter,
    gone: Counter,
    forbidden: Counter,
    unanswered: Counter,
    ended: Counter,
    lost: Counter,
    withdrawn: Counter,
    superseded: Counter,
    missing: Counter,
    refused: Counter,
    wait: Histogram,
}

impl Default for OwnerMetrics {
    fn default() -> Self {
        let claims = |answer| counter(names::CLUSTER_CLAIMS, &[("answer", answer)]);
        let attempts = |outcome| counter(names::CLUSTER_ATTEMPTS, &[("outcome", outcome)]);
        let ignored = |reason| counter(names::CLUSTER_FACTS_IGNORED, &[("reason", reason)]);
        Self {
            granted: claims("granted"),
            gone: claims("gone"),
            forbidden: claims("forbidden"),
            unanswered: claims("none"),
            ended: attempts("ended"),
            lost: attempts("lost"),
            withdrawn: attempts("withdrawn"),
            superseded: ignored("superseded"),
            missing: ignored("missing"),
            refused: ignored("refused"),
            wait: histogram(names::CLUSTER_TASK_WAIT, &[]),
        }
    }
}

impl OwnerMetrics {
    /// Counts the answer to a claim; none if the task took too long.
    pub fn claimed(&self, answer: Option<&Claimed>) {
        let answers = match answer {
            Some(Claimed::Granted(_) | Claimed::Part { .. }) => &self.granted,
            Some(Claimed::Gone) => &self.gone,
            Some(Claimed::Forbidden { .. }) => &self.forbidden,
            None => &self.unanswered,
        };
        answers.increment(1);
    }

    /// Records how long a task waited until a worker got it.
    pub fn taken(&self, waited: Duration) {
        self.wait.record(waited.as_secs_f64());
    }

    /// Counts an attempt whose worker has reported its end.
    pub fn attempt_ended(&self) {
        self.ended.increment(1);
    }

    /// Counts an attempt whose worker was silent for too long.
    pub fn attempt_lost(&self) {
        self.lost.increment(1);
    }

    /// Counts an attempt that ended because its run did, or stopped here.
    pub fn attempt_withdrawn(&self) {
        self.withdrawn.increment(1);
    }

    /// Counts facts from number `from` on if they were not recorded.
    pub fn answered_facts(&self, from: u64, answer: Option<&Received>) {
        match answer {
            Some(Received::Superseded) => self.superseded.increment(1),
            Some(Received::Recorded { next }) if *next < from => self.missing.increment(1),
            Some(Received::Recorded { .. }) | None => {}
        }
    }

    /// Counts facts that could not be read, or name another worker than their sender.
    pub fn facts_refused(&self) {
        self.refused.increment(1);
    }
}

/// What a replica reads from time to time.
pub struct ReplicaGauges {
    replicas: Gauge,
    workers: Gauge,
    places: Gauge,
    free_places: Gauge,
    waiting: Gauge,
    held: Gauge,
    unserved: Gauge,
}

impl Default for ReplicaGauges {
    fn default() -> Self {
        let tasks = |state| gauge(names::CLUSTER_TASKS, &[("state", state)]);
        Self {
            replicas: gauge(names::CLUSTER_REPLICAS, &[]),
            workers: gauge(names::CLUSTER_WORKERS, &[]),
            places: gauge(names::CLUSTER_PLACES, &[]),
            free_places: gauge(names::CLUSTER_FREE_PLACES, &[]),
            waiting: tasks("waiting"),
            held: tasks("held"),
            unserved: gauge(names::CLUSTER_UNSERVED_RUNS, &[]),
        }
    }
}

impl ReplicaGauges {
    pub fn set(&self, capacity: Capacity, tasks: &ReplicaState) {
        let set = |gauge: &Gauge, value: u64| gauge.set(value as f64);
        set(&self.replicas, capacity.replicas);
        set(&self.workers, capacity.workers);
        set(&self.places, capacity.places);
        set(&self.free_places, capacity.free);
        set(&self.waiting, tasks.runs.iter().map(|it| it.offered).sum());
        set(&self.held, tasks.runs.iter().map(|it| it.held).sum());
        let unserved = tasks.runs.iter().filter(|it| it.unserved.is_some());
        set(&self.unserved, unserved.count() as u64);
    }
}

/// What a worker counts and reads.
pub struct WorkerMetrics {
    ended: Counter,
    lost: Counter,
    tasks: Gauge,
    places: Gauge,
}

impl Default for WorkerMetrics {
    fn default() -> Self {
        let attempts = |outcome| counter(names::CLUSTER_WORKER_ATTEMPTS, &[("outcome", outcome)]);
        Self {
            ended: attempts("ended"),
            lost: attempts("lost"),
            tasks: gauge(names::CLUSTER_WORKER_TASKS, &[]),
            places: gauge(names::CLUSTER_WORKER_PLACES, &[]),
        }
    }
}

impl WorkerMetrics {
    /// Counts an attempt; `lost` if its owner did not take its result.
    pub fn attempt_ended(&self, lost: bool) {
        let outcome = if lost { &self.lost } else { &self.ended };
        outcome.increment(1);
    }

    pub fn set(&self, state: &WorkerState) {
        self.places.set(state.capacity as f64);
        self.tasks
            .set(state.capacity.saturating_sub(state.free) as f64);
    }
}

/// What happened to the connection to NATS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusFault {
    Disconnected,
    /// The server reports an error, such as a missing permission.
    ServerError,
    ClientError,
    /// The client dropped messages that this process did not read in time.
    SlowConsumer,
    /// A queue took or gave no message.
    Queue,
}

impl BusFault {
    /// In the order of their declaration.
    const ALL: [Self; 5] = [
        Self::Disconnected,
        Self::ServerError,
        Self::ClientError,
        Self::SlowConsumer,
        Self::Queue,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Disconnected => "disconnected",
            Self::ServerError => "server_error",
            Self::ClientError => "client_error",
            Self::SlowConsumer => "slow_consumer",
            Self::Queue => "queue",
        }
    }
}

/// The state of the connection to NATS.
#[derive(Clone)]
pub struct BusMetrics {
    connected: Gauge,
    /// In the order of [`BusFault::ALL`].
    faults: [Counter; BusFault::ALL.len()],
}

impl Default for BusMetrics {
    fn default() -> Self {
        let connected = gauge(names::CLUSTER_CONNECTED, &[]);
        connected.set(0.0);
        Self {
            connected,
            faults: BusFault::ALL
                .map(|fault| counter(names::CLUSTER_BUS_FAULTS, &[("fault", fault.as_str())])),
        }
    }
}

impl BusMetrics {
    pub fn connected(&self) {
        self.connected.set(1.0);
    }

    pub fn fault(&self, fault: BusFault) {
        if fault == BusFault::Disconnected {
            self.connected.set(0.0);
        }
        if let Some(counter) = self.faults.get(fault as usize) {
            counter.increment(1);
        }
    }
}
