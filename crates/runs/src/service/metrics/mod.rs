//! Metrics of runs and tasks, for the operator of the host. Labels are fixed words: no tenant, no
//! suite, no agent.

pub mod queue;

use std::sync::LazyLock;
use std::time::Duration;

use metrics::{Counter, Histogram};

use crate::rules::eval::unjudged_cause::UnjudgedCause;
use crate::rules::run::fold::RunStatus;
use crate::rules::run::record::Work;
use touchstone_host::telemetry::{counter, histogram, names};

/// The counters of this process, resolved once.
pub static RUN_METRICS: LazyLock<RunMetrics> = LazyLock::new(RunMetrics::new);

const FINAL: [RunStatus; 3] = [
    RunStatus::Completed,
    RunStatus::Failed,
    RunStatus::Cancelled,
];

/// What happened to the stored state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectionOutcome {
    Read,
    Stored,
    /// It is of another version.
    OtherFormat,
    Damaged,
    /// The database failed.
    Failed,
}

impl ProjectionOutcome {
    /// In the order of their declaration.
    const ALL: [Self; 5] = [
        Self::Read,
        Self::Stored,
        Self::OtherFormat,
        Self::Damaged,
        Self::Failed,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Stored => "stored",
            Self::OtherFormat => "other_format",
            Self::Damaged => "damaged",
            Self::Failed => "failed",
        }
    }
}

pub struct RunMetrics {
    passed: Counter,
    failed: Counter,
    unjudged: Counter,
    /// In the order of [`UnjudgedCause::ALL`].
    causes: [Counter; UnjudgedCause::ALL.len()],
    task_seconds: Histogram,
    evals_ended: [Counter; FINAL.len()],
    workflows_ended: [Counter; FINAL.len()],
    queue_wait: Histogram,
    leases_lost: Counter,
    events: Counter,
    append_seconds: Histogram,
    append_errors: Counter,
    delivered: Counter,
    not_delivered: Counter,
    /// In the order of [`ProjectionOutcome::ALL`].
    projections: [Counter; ProjectionOutcome::ALL.len()],
}

impl RunMetrics {
    fn new() -> Self {
        let tasks = |outcome| counter(names::TASKS, &[("outcome", outcome)]);
        let ended = |kind| {
            FINAL.map(|status| {
                let labels = [("kind", kind), ("status", status.as_str())];
                counter(names::RUNS_ENDED, &labels)
            })
        };
        Self {
            passed: tasks("passed"),
            failed: tasks("failed"),
            unjudged: tasks("unjudged"),
            causes: UnjudgedCause::ALL
                .map(|cause| counter(names::UNJUDGED, &[("cause", cause.as_str())])),
            task_seconds: histogram(names::TASK_SECONDS, &[]),
            evals_ended: ended("eval"),
            workflows_ended: ended("workflow"),
            queue_wait: histogram(names::QUEUE_WAIT, &[]),
            leases_lost: counter(names::LEASES_LOST, &[]),
            events: counter(names::EVENTS, &[]),
            append_seconds: histogram(names::APPEND_SECONDS, &[]),
            append_errors: counter(names::APPEND_ERRORS, &[]),
            delivered: counter(names::WEBHOOK_DELIVERIES, &[("outcome", "taken")]),
            not_delivered: counter(names::WEBHOOK_DELIVERIES, &[("outcome", "not_taken")]),
            projections: ProjectionOutcome::ALL
                .map(|outcome| counter(names::PROJECTIONS, &[("outcome", outcome.as_str())])),
        }
    }

    /// Counts a recorded task that has a result.
    pub fn task_scored(&self, passed: bool, latency_ms: Option<u64>) {
        let outcome = if passed { &self.passed } else { &self.failed };
        outcome.increment(1);
        if let Some(latency) = latency_ms {
            self.task_seconds
                .record(Duration::from_millis(latency).as_secs_f64());
        }
    }

    /// Counts a recorded task that could not be judged.
    pub fn task_unjudged(&self, cause: UnjudgedCause) {
        self.unjudged.increment(1);
        if let Some(counter) = self.causes.get(cause as usize) {
            counter.increment(1);
        }
    }

    /// Counts a run that ended.
    pub fn run_ended(&self, work: &Work, status: RunStatus) {
        let counters = match work {
            Work::Eval(_) => &self.evals_ended,
            Work::Workflow(_) => &self.workflows_ended,
            // Not executed: services append to it.
            Work::Journal => return,
        };
        for (_, counter) in FINAL.iter().zip(counters).filter(|it| *it.0 == status) {
            counter.increment(1);
        }
    }

    /// Records how long a run waited for its first claim.
    pub fn first_claimed(&self, waited: Duration) {
        self.queue_wait.record(waited.as_secs_f64());
    }

    pub fn lease_lost(&self) {
        self.leases_lost.increment(1);
    }

    /// Counts a durable batch of events.
    pub fn appended(&self, events: usize, took: Duration) {
        self.events.increment(events as u64);
        self.append_seconds.record(took.as_secs_f64());
    }

    pub fn append_failed(&self) {
        self.append_errors.increment(1);
    }

    /// Counts what happened to the stored state of a run.
    pub fn projection(&self, outcome: ProjectionOutcome) {
        if let Some(counter) = self.projections.get(outcome as usize) {
            counter.increment(1);
        }
    }

    /// Counts an attempt to deliver to a webhook.
    pub fn delivered(&self, taken: bool) {
        let outcome = if taken {
            &self.delivered
        } else {
            &self.not_delivered
        };
        outcome.increment(1);
    }
}
