//! What a simulation does, decided by its seed.

use std::fmt;
use std::ops::RangeInclusive;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::rules::subjects::Operation;

/// Milliseconds since the start of a simulation.
pub type Millis = u64;

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Host(usize),
    Worker(usize),
}

/// The latest start of a fault.
const LAST_FAULT: Millis = 6_000;
/// One of how many schedules tests holds.
const HOLDS_OF: u64 = 4;
/// One of how many schedules tests outages that last longer than holds.
const OUTAGES_OF: u64 = 8;
/// One of how many groups of eight successive seeds has hosts or workers of an earlier version.
const EARLIER_OF: u64 = 4;
/// Longest delay of a message on a slow network, one way.
const SLOW: Millis = 2_500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A process is killed, and started again at the end of the fault.
    Killed(Node),
    /// A worker is asked to stop, and started again at the end of the fault.
    Drained(usize),
    /// A process does not run, and continues later.
    Stalled(Node),
    /// Messages of a process do not reach the bus, or those of the bus do not reach the process.
    CutOff {
        node: Node,
        sends: bool,
        receives: bool,
    },
    /// No message is delivered.
    BusDown,
    /// No message is put into a queue or taken from one.
    QueuesDown,
    /// The database cannot be reached by any host.
    DatabaseDown,
    /// The database cannot be reached by one host.
    WithoutDatabase(usize),
    /// Messages to a process take up to seconds; those to all processes if none is named.
    Slow(Option<Node>),
    /// All requests of this kind are lost, or those of one worker.
    Loses {
        operation: Operation,
        worker: Option<usize>,
    },
    /// The requests of this kind arrive, and their answers are lost, or those to one worker.
    LosesAnswers {
        operation: Operation,
        worker: Option<usize>,
    },
    /// A foreign process imitates messages of workers.
    Forged,
}

/// A fault, from a time to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    pub from: Millis,
    pub to: Millis,
}

impl Fault {
    pub const fn is_at(&self, now: Millis) -> bool {
        self.from <= now && now < self.to
    }
}

/// What the network does to any message until the faults are over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// The share of messages that are lost.
    pub lost: f64,
    /// The share of messages that arrive again later.
    pub repeated: f64,
    /// Longest delay, one way.
    pub delay: Millis,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub seed: u64,
    pub hold: Millis,
    pub hosts: usize,
    pub workers: usize,
    /// The places of each worker.
    pub places: usize,
    /// The number of model calls of each task.
    pub tasks: Vec<u32>,
    /// Number of tasks that the host executes at the same time.
    pub at_once: usize,
    /// The limit of the run's budget.
    pub max_tokens: Option<u64>,
    /// How long a model call takes.
    pub call: RangeInclusive<Millis>,
    /// Speeds of the clocks of hosts and workers.
    pub speeds: [Vec<f64>; 2],
    pub noise: Noise,
    /// Whether hosts or workers are of an earlier version, which asks each question alone.
    pub earlier: bool,
    pub faults: Vec<Fault>,
}

/// Tokens of a model call, which are fewer than its estimate.
pub const TOKENS: u64 = 30;

impl Schedule {
    pub fn of(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let hosts = rng.random_range(1..=2);
        let workers = rng.random_range(1..=3);
        let tasks: Vec<u32> = (0..rng.random_range(1..=6))
            .map(|_| rng.random_range(1..=3))
            .collect();
        let needed = TOKENS * u64::from(tasks.iter().sum::<u32>());
        let limited = rng.random_bool(0.3);
        let noise = match rng.random_range(0..4) {
            0 => Noise {
                lost: 0.0,
                repeated: 0.0,
                delay: 5,
            },
            1 => Noise {
                lost: 0.0,
                repeated: 0.1,
                delay: 300,
            },
            2 => Noise {
                lost: 0.02,
                repeated: 0.02,
                delay: 50,
            },
            _ => Noise {
                lost: 0.15,
                repeated: 0.1,
                delay: 200,
            },
        };
        let longest = [300, 1_500, 4_000][rng.random_range(0..3)];
        let mut schedule = Self {
            seed,
            hold: rng.random_range(3_000..=8_000),
            hosts,
            workers,
            places: rng.random_range(1..=4),
            at_once: rng.random_range(1..=8),
            max_tokens: limited.then(|| rng.random_range(0..=needed)),
            call: 10..=longest,
            speeds: [
                (0..hosts).map(|_| rng.random_range(0.97..1.05)).collect(),
                (0..workers).map(|_| rng.random_range(0.95..1.03)).collect(),
            ],
            noise,
            earlier: seed / OUTAGES_OF % EARLIER_OF == 1,
            tasks,
            faults: Vec::new(),
        };
        for _ in 0..rng.random_range(0..=6) {
            let fault = fault(&mut rng, hosts, workers);
            schedule.add(fault);
        }
        if seed.is_multiple_of(HOLDS_OF) {
            schedule.test_holds(&mut rng);
        } else if seed % OUTAGES_OF == 1 {
            schedule.test_outages(&mut rng);
        }
        schedule
    }

    /// Lets tasks lose many attempts although every worker is well: the answers to claims are lost,
    /// and then nothing is delivered for longer than a hold, several times. The tasks are so long
    /// that they do not end in between, and the host does not leave its run.
    fn test_outages(&mut self, rng: &mut StdRng) {
        self.hosts = 1;
        self.workers = 3;
        self.places = 4;
        self.hold = rng.random_range(5_000..=6_000);
        self.tasks = vec![rng.random_range(11..=13); 6];
        self.at_once = 6;
        self.max_tokens = None;
        self.call = 2_500..=3_500;
        self.speeds = [vec![1.0; self.hosts], vec![1.0; self.workers]];
        self.noise = Noise {
            lost: 0.0,
            repeated: 0.0,
            delay: 20,
        };
        self.faults.clear();
        let mut from = 0;
        if rng.random_bool(0.5) {
            let to = from + rng.random_range(30_000..=50_000);
            let kind = FaultKind::LosesAnswers {
                operation: Operation::Claim,
                worker: rng.random_bool(0.5).then_some(0),
            };
            self.faults.push(Fault { kind, from, to });
            from = to + 4_000;
        }
        for _ in 0..4 {
            let to = from + self.hold * 5 / 4 + rng.random_range(0..=self.hold / 2);
            let kind = FaultKind::BusDown;
            self.faults.push(Fault { kind, from, to });
            from = to + rng.random_range(4_000..=7_000);
        }
    }

    /// Makes a worker lose its holds while it makes calls all the time, which seldom happens
    /// otherwise: its heartbeats are lost, its messages are slow, and its clock is slower than the
    /// one of the host.
    fn test_holds(&mut self, rng: &mut StdRng) {
        self.workers = 2;
        self.places = 3;
        self.hold = rng.random_range(5_000..=8_000);
        self.tasks = vec![rng.random_range(6..=10); 4];
        self.at_once = 4;
        self.max_tokens = None;
        self.call = 10..=200;
        self.speeds = [vec![1.05; self.hosts], vec![0.95; self.workers]];
        self.noise.lost = 0.0;
        self.noise.delay = 10;
        let slow_from = rng.random_range(200..=4_000);
        let lost_from = rng.random_range(200..=4_000);
        let to = lost_from + rng.random_range(9_000..=12_000);
        let (node, worker) = (Node::Worker(0), Some(0));
        let operation = Operation::Beat;
        self.faults = vec![
            Fault {
                kind: FaultKind::Slow(Some(node)),
                from: slow_from,
                to,
            },
            Fault {
                kind: FaultKind::Loses { operation, worker },
                from: lost_from,
                to,
            },
        ];
    }

    /// Adds a fault, unless its process would be started or stopped twice at the same time.
    fn add(&mut self, fault: Fault) {
        let overlaps = |other: &Fault| {
            stopped(other.kind).is_some()
                && stopped(other.kind) == stopped(fault.kind)
                && other.from <= fault.to
                && fault.from <= other.to
        };
        if !self.faults.iter().any(overlaps) {
            self.faults.push(fault);
        }
    }

    /// When every fault is over, and messages are lost no more.
    pub fn healed(&self) -> Millis {
        let ends = self.faults.iter().map(|fault| fault.to);
        ends.max().unwrap_or(0).max(LAST_FAULT)
    }

    /// Whether no process has a fault and messages arrive soon, though not always once.
    pub fn is_calm(&self) -> bool {
        self.faults.is_empty() && self.noise.lost == 0.0
    }

    /// Whether no fault strikes single workers, so that no task may be given up.
    pub fn spares_workers(&self) -> bool {
        let spares = |it: &Fault| match it.kind {
            FaultKind::BusDown
            | FaultKind::QueuesDown
            | FaultKind::DatabaseDown
            | FaultKind::WithoutDatabase(_)
            | FaultKind::LosesAnswers {
                operation: Operation::Claim,
                ..
            }
            | FaultKind::Forged
            | FaultKind::Killed(Node::Host(_))
            | FaultKind::Stalled(Node::Host(_)) => true,
            FaultKind::CutOff {
                node: Node::Host(_),
                sends,
                receives,
            } => sends && receives,
            _ => false,
        };
        self.noise.lost == 0.0 && self.faults.iter().all(spares)
    }

    /// Longest time from the answer of an owner to its arrival.
    pub fn longest_delay(&self) -> Millis {
        let slows = |it: &Fault| matches!(it.kind, FaultKind::Slow(_));
        let is_slow = self.faults.iter().any(slows);
        self.noise.delay + if is_slow { SLOW } else { 0 }
    }
}

/// The process that is started and stopped.
const fn stopped(kind: FaultKind) -> Option<Node> {
    match kind {
        FaultKind::Killed(node) => Some(node),
        FaultKind::Drained(worker) => Some(Node::Worker(worker)),
        _ => None,
    }
}

fn fault(rng: &mut StdRng, hosts: usize, workers: usize) -> Fault {
    let host = rng.random_range(0..hosts);
    let worker = rng.random_range(0..workers);
    let node = match rng.random_bool(0.6) {
        true => Node::Worker(worker),
        false => Node::Host(host),
    };
    let direction = rng.random_range(0..3);
    let operations = [Operation::Claim, Operation::Facts, Operation::Meter];
    let kind = match rng.random_range(0..14) {
        0 | 1 => FaultKind::Killed(node),
        2 | 3 => FaultKind::Stalled(node),
        4 | 5 => FaultKind::CutOff {
            node,
            sends: direction != 0,
            receives: direction != 1,
        },
        6 => FaultKind::BusDown,
        7 => FaultKind::QueuesDown,
        8 => FaultKind::DatabaseDown,
        9 => FaultKind::WithoutDatabase(host),
        10 => FaultKind::Slow(rng.random_bool(0.7).then_some(node)),
        11 => FaultKind::Loses {
            operation: Operation::Beat,
            worker: rng.random_bool(0.7).then_some(worker),
        },
        12 => match rng.random_bool(0.5) {
            true => FaultKind::Loses {
                operation: operations[rng.random_range(0..3)],
                worker: None,
            },
            false => FaultKind::Drained(worker),
        },
        _ => FaultKind::Forged,
    };
    let from = rng.random_range(0..=LAST_FAULT);
    let longest = [1_000, 5_000, 15_000][rng.random_range(0..3)];
    let to = from + rng.random_range(100..=longest);
    Fault { kind, from, to }
}

/// Additional delay of a message on a slow network.
pub fn slow(rng: &mut StdRng) -> Millis {
    match rng.random_bool(0.5) {
        true => rng.random_range(10..=700),
        false => rng.random_range(700..=SLOW),
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hosts, workers, .. } = self;
        writeln!(f, "{hosts} hosts, {workers} workers of {}", self.places)?;
        writeln!(f, "tasks {:?}, {} at once", self.tasks, self.at_once)?;
        writeln!(f, "hold {} ms, calls {:?} ms", self.hold, self.call)?;
        writeln!(f, "limit {:?}, clocks {:?}", self.max_tokens, self.speeds)?;
        writeln!(f, "{:?}, earlier version: {}", self.noise, self.earlier)?;
        for (number, Fault { kind, from, to }) in self.faults.iter().enumerate() {
            writeln!(f, "fault {number}: {from} to {to} ms: {kind:?}")?;
        }
        Ok(())
    }
}
