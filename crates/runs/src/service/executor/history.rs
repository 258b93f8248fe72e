//! The history of a forked run: the events of its source, copied one by one (OpenWOP replay).
//!
//! Copying calls no model, judge or tool: recorded facts are read. Each event keeps its sequence
//! until a divergence is recorded between them, which shifts the events after it by one. The end of
//! the fork's own log shows how far the copy has come.

use tracing::{error, warn};

use crate::rules::run::fold::RunState;
use crate::rules::run::fork::{Fork, ForkMode, inherit};
use crate::rules::run::record::RunRecord;
use crate::service::executor::WorkEnd;
use crate::service::executor::control::{RunControl, Stop};
use crate::service::executor::endings::fail;
use crate::service::run_writer::RunWriter;
use crate::store;
use touchstone_host::store::database::Database;
use touchstone_openwop::events::{
    DivergenceKind, EvalCompleted, Event, NewEvent, ReplayDiverged, RunError,
};

/// Events copied in one transaction.
const PAGE: u32 = 1024;

/// Scores are sums of floating-point numbers.
const EPSILON: f64 = 1e-9;

/// Recomputes what can be computed from an eval's recorded scores.
pub(super) type Verify<'a> = &'a (dyn Fn(&RunState) -> Option<EvalCompleted> + Send + Sync);

/// Copies the missing part of the history. `None` if the run is to be executed from here.
pub(super) async fn copy(
    store: &Database,
    run: &RunRecord,
    fork: &Fork,
    writer: &RunWriter,
    control: &RunControl,
    verify: Verify<'_>,
) -> Option<WorkEnd> {
    loop {
        let copied = writer.with_state(|state| fork.copied(state));
        if copied >= fork.history {
            return (fork.mode == ForkMode::Replay).then_some(WorkEnd::Ended);
        }
        let limit = u32::try_from(fork.history - copied).map_or(PAGE, |left| left.min(PAGE));
        let page = match store::runs::read(store, &fork.source_run_id, copied, limit).await {
            Ok(page) => page,
            Err(cause) => {
                error!(run_id = %run.run_id, %cause, "could not read the source of a fork");
                return Some(WorkEnd::Stopped(Stop::Lost));
            }
        };
        if page
            .first()
            .is_none_or(|event| event.sequence != copied + 1)
        {
            warn!(run_id = %run.run_id, source = %fork.source_run_id, after = copied, "the source of a fork lacks events");
            let lacks = format!("the source run has no event {}", copied + 1);
            return Some(source_missing(writer, lacks));
        }
        for recorded in &page {
            let event = match inherit(&run.run_id, &recorded.body) {
                Ok(event) => event,
                Err(cause) => {
                    error!(run_id = %run.run_id, source = %fork.source_run_id, %cause, sequence = recorded.sequence, "the source of a fork is damaged");
                    let damaged = format!(
                        "event {} of the source run cannot be read",
                        recorded.sequence
                    );
                    return Some(source_missing(writer, damaged));
                }
            };
            if fork.mode == ForkMode::Replay
                && let Some(Event::EvalCompleted(recorded_verdict)) = &event.event
                && let Some(computed) = writer.with_state(verify)
                && differs(recorded_verdict, &computed)
                && writer.with_state(|state| state.divergences(&fork.source_run_id) == 0)
            {
                warn!(run_id = %run.run_id, source = %fork.source_run_id, "a replay computes a different verdict than the recorded one");
                let diverged = ReplayDiverged {
                    source_run_id: fork.source_run_id.clone(),
                    at_sequence: recorded.sequence,
                    divergence_kind: DivergenceKind::Output,
                    divergence_point: event.kind.clone(),
                };
                writer.emit(&NewEvent::of_run(Event::ReplayDiverged(diverged)));
            }
            writer.emit_inherited(event);
        }
        if writer.ready().await.is_err() || control.lost.is_cancelled() {
            return Some(WorkEnd::Stopped(Stop::Lost));
        }
        if writer.has_ended() {
            return Some(WorkEnd::Ended);
        }
        if let Ok(Some(request)) = store::queue::cancel_requested(store, &run.run_id).await {
            return Some(WorkEnd::Stopped(Stop::Cancelled(request)));
        }
        if control.draining.is_cancelled() {
            return Some(WorkEnd::Stopped(Stop::Draining));
        }
    }
}

/// Another attempt would find the same.
fn source_missing(writer: &RunWriter, message: String) -> WorkEnd {
    fail(writer, RunError::new("replay_source_missing", message))
}

fn differs(recorded: &EvalCompleted, computed: &EvalCompleted) -> bool {
    (recorded.aggregate_score - computed.aggregate_score).abs() > EPSILON
        || recorded.passed != computed.passed
        || recorded.task_count != computed.task_count
        || recorded.passed_count != computed.passed_count
}
