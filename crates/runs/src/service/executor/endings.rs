//! Start and end events common to all kinds of runs.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tracing::warn;

use crate::ports::pauses::PauseRequest;
use crate::ports::queue::CancelRequest;
use crate::rules::run::record::RunRecord;
use crate::service::executor::WorkEnd;
use crate::service::run_writer::RunWriter;
use touchstone_kit::ids::NodeId;
use touchstone_openwop::events::{
    CapBreached, ENGINE_VERSION, Event, NewEvent, Owner, RunCancelled, RunError, RunFailed,
    RunPaused, RunStarted,
};

/// The payload of `run.started`.
pub fn started(run: &RunRecord) -> RunStarted {
    RunStarted {
        workflow_id: run.spec.workflow_id.clone(),
        inputs: run.spec.inputs.clone(),
        transport: "rest".to_owned(),
        engine_version: ENGINE_VERSION.to_owned(),
        owner: Owner {
            tenant: run.tenant.to_string(),
            principal: Some(run.principal.clone()),
        },
        tags: run.spec.tags.clone(),
        metadata: run.spec.metadata.clone(),
    }
}

/// The time left until the run's timeout; `None` if it has none.
pub(super) fn time_left(run: &RunRecord, writer: &RunWriter) -> Option<Duration> {
    let whole = Duration::from_millis(run.spec.run_timeout_ms?);
    Some(whole.saturating_sub(writer.active()))
}

/// Milliseconds the run was executed or waited.
pub fn running_for(writer: &RunWriter) -> u64 {
    u64::try_from(writer.active().as_millis()).unwrap_or(u64::MAX)
}

/// Ends the run with an error outside its nodes.
pub fn fail(writer: &RunWriter, error: RunError) -> WorkEnd {
    writer.emit(&failed(error));
    WorkEnd::Ended
}

/// The terminal event for an error outside the run's nodes.
pub fn failed(error: RunError) -> NewEvent {
    NewEvent::of_run(Event::RunFailed(RunFailed {
        error,
        failed_node_id: None,
    }))
}

pub(super) fn cancel(writer: &RunWriter, request: CancelRequest) {
    let cancelled = RunCancelled {
        reason: request.reason,
        cancelled_by: request.cancelled_by,
    };
    writer.emit(&NewEvent::of_run(Event::RunCancelled(cancelled)));
}

pub(super) fn pause(writer: &RunWriter, request: PauseRequest) {
    let paused = RunPaused {
        reason: request.reason,
        drain_policy: request.drain_policy,
        paused_by: request.paused_by,
    };
    writer.emit(&NewEvent::of_run(Event::RunPaused(paused)));
}

/// When a run that waits from now on reaches its timeout; `None` if it has none.
pub(super) fn deadline(run: &RunRecord, writer: &RunWriter, now: Timestamp) -> Option<Timestamp> {
    let left = SignedDuration::try_from(time_left(run, writer)?).ok()?;
    now.checked_add(left).ok()
}

pub(super) fn time_out(run: &RunRecord, writer: &RunWriter) {
    let limit = run.spec.run_timeout_ms.unwrap_or_default();
    let observed = running_for(writer).max(limit + 1);
    warn!(run_id = %run.run_id, limit, "the run reached its timeout");
    let breach = Breach {
        kind: "run-duration",
        limit: to_f64(limit),
        observed: to_f64(observed),
        node: None,
        code: "run_timeout",
        message: "the run reached its timeout",
    };
    breach.fail(writer);
}

/// A hard limit that was exceeded.
pub(super) struct Breach<'a> {
    pub(super) kind: &'a str,
    pub(super) limit: f64,
    pub(super) observed: f64,
    /// The node, if the limit was exceeded in one node.
    pub(super) node: Option<&'a NodeId>,
    pub(super) code: &'a str,
    pub(super) message: &'a str,
}

impl Breach<'_> {
    /// Records the breach and the resulting failure in one transaction.
    pub(super) fn fail(self, writer: &RunWriter) -> WorkEnd {
        let breached = CapBreached {
            kind: self.kind.to_owned(),
            limit: self.limit,
            observed: self.observed,
            node_id: self.node.cloned(),
        };
        let error = RunError::new(self.code, self.message);
        writer.emit_all(&[
            NewEvent::of_run(Event::CapBreached(breached)),
            NewEvent::of_run(Event::RunFailed(RunFailed {
                error,
                failed_node_id: self.node.cloned(),
            })),
        ]);
        WorkEnd::Ended
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds and tokens are far below 2^53"
)]
pub(super) fn to_f64(number: u64) -> f64 {
    number as f64
}
