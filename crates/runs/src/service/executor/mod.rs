//! Executes claimed runs.
//!
//! This module has what all runs share: the fold of the log, the start, the reasons to stop, the
//! end. The kind of work determines the rest. All decisions follow the domain rules: the work folds
//! the log, executes what is missing, and records the result. Resuming needs nothing more.

pub mod control;
pub mod endings;
pub mod eval;
pub mod history;
mod spans;
pub mod task_loop;
pub mod workflow;

use std::sync::Arc;

use tracing::error;

use crate::ports::queue::{RunClaim, Wait};
use crate::ports::storage::ContentKept;
use crate::rules::eval::statistics::ended::EndedResults;
use crate::rules::run::fold::RunState;
use crate::rules::run::fold::stored::Tasks;
use crate::rules::run::record::{RunRecord, Work};
pub use crate::service::executor::control::RunControl;
use crate::service::executor::control::{RunSignals, Stop};
pub use crate::service::executor::endings::started;
pub use crate::service::executor::eval::{EvalExecutor, INTERNAL_ERROR};
use crate::service::executor::workflow::WorkflowExecutor;
use crate::service::metrics::RUN_METRICS;
use crate::service::projections::ended;
use crate::service::projections::stored::{self, LONG_LOG};
use crate::service::projections::{Projections, folded};
use crate::service::run_results;
use crate::service::run_writer::RunWriter;
use crate::store;
use touchstone_host::background::spawn;
use touchstone_host::otlp::span;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::service::fault::chain;
use touchstone_host::store::database::Database;
use touchstone_openwop::events::{DrainPolicy, Event, NewEvent};

/// Number of events after which the state of a run in progress is stored, so that a resume folds at
/// most that many.
const CHECKPOINT_EVERY: u64 = 200_000;

pub struct Executor {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    projections: Arc<Projections>,
    eval: Arc<EvalExecutor>,
    workflow: WorkflowExecutor,
}

/// How the execution of a claimed run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionOutcome {
    /// Its terminal event is durable.
    Ended,
    /// The replica drains: another one may continue at once.
    GivenBack,
    /// The replica does not reach its workers: another one should continue at once.
    CutOff,
    /// It waits for a person or for a point in time; nothing can happen before.
    Parked(Wait),
    /// The lease is lost, or the store or the log failed. The next attempt should not follow at
    /// once.
    Broken,
}

/// How the work of a run ended.
pub enum WorkEnd {
    /// Its terminal event is emitted.
    Ended,
    /// It was stopped from outside.
    Stopped(Stop),
    /// It cannot continue before this moment, or before a person acts.
    Waiting(Wait),
}

impl Executor {
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        projections: Arc<Projections>,
        eval: EvalExecutor,
    ) -> Arc<Self> {
        let workflow = WorkflowExecutor::new(clock.clone());
        Arc::new(Self {
            store,
            clock,
            ids,
            projections,
            eval: Arc::new(eval),
            workflow,
        })
    }

    /// Executes a claimed run until it ends, waits or is stopped.
    pub async fn execute(&self, claim: RunClaim, control: RunControl) -> ExecutionOutcome {
        let root = span::root(claim.run.run_id.as_str(), claim.run.trace.as_ref());
        span::within(root, self.execute_claim(claim, control)).await
    }

    async fn execute_claim(&self, claim: RunClaim, control: RunControl) -> ExecutionOutcome {
        let (state, stored_to) = match folded(&self.store, &claim.run.run_id).await {
            Ok(folded) => folded,
            Err(cause) => {
                let cause = anyhow::Error::new(cause);
                error!(run_id = %claim.run.run_id, cause = format!("{cause:#}"), "could not fold the run's log");
                return ExecutionOutcome::Broken;
            }
        };
        let writer = RunWriter::new(
            &claim,
            Some(control.lease.clone()),
            state,
            self.store.clone(),
            self.clock.clone(),
            self.ids.clone(),
        );
        writer.checkpoint(stored_to, CHECKPOINT_EVERY);
        let flusher = {
            let writer = writer.clone();
            spawn("log flusher", async move { writer.run_flusher().await })
        };
        let lost = control.lost.clone();
        let end = self.execute_work(&claim.run, &writer, control).await;
        if !matches!(end, WorkEnd::Stopped(Stop::Lost)) {
            self.eval.release(&claim.run, &writer).await;
        }
        let outcome = self.conclude(&claim, &writer, end).await;
        let durable = writer.flush().await.is_ok();
        if durable && outcome == ExecutionOutcome::Ended {
            let mut state = writer.take_state();
            let is_long = state.sequence >= LONG_LOG;
            let snapshot = is_long.then(|| state.snapshot(Tasks::All)).flatten();
            // It is kept for readers, and does not grow any more.
            state.eval.tasks.shrink();
            RUN_METRICS.run_ended(&claim.run.spec.work, state.status);
            spans::run_ended(&claim.run, &state);
            self.projections.keep(&claim.run.run_id, state).await;
            run_results::store(
                &self.store,
                &self.eval.library,
                &self.projections,
                &claim.run,
            )
            .await;
            if let Some(snapshot) = snapshot {
                let run = &claim.run.run_id;
                stored::store(&self.store, run, ContentKept::All, snapshot, None).await;
                self.store_results(&claim.run).await;
            }
        }
        let broken = !durable || (outcome != ExecutionOutcome::Ended && writer.is_closed());
        writer.close();
        if !matches!(flusher.await, Ok(Ok(()))) {
            error!(run_id = %claim.run.run_id, "the log's flusher ended abnormally");
        }
        if broken {
            if lost.is_cancelled() || writer.is_fenced() {
                RUN_METRICS.lease_lost();
            }
            ExecutionOutcome::Broken
        } else {
            outcome
        }
    }

    /// Stores the results of a run whose state is stored.
    async fn store_results(&self, run: &RunRecord) {
        let library = &self.eval.library;
        let Some(eval) = run
            .spec
            .eval()
            .filter(|eval| library.kinds.of(eval).is_none())
        else {
            return;
        };
        let Ok(Some(suite)) = library.suite_index(&eval.suite_digest).await else {
            return;
        };
        let results = self.projections.with_state(&run.run_id, |state| {
            let is_ended = state.status.is_terminal();
            let results =
                is_ended.then(|| EndedResults::of(eval, &suite.thresholds(), &state.eval));
            Some((state.sequence, results?))
        });
        if let Ok(Some((at, results))) = results.await {
            let is_stored = ended::store(&self.store, &run.run_id, at, results).await;
            if is_stored {
                self.projections.release(&run.run_id).await;
            }
        }
    }

    async fn execute_work(
        &self,
        run: &Arc<RunRecord>,
        writer: &RunWriter,
        control: RunControl,
    ) -> WorkEnd {
        if let Some(fork) = &run.fork {
            let verdict = match self.eval.verdict_of(run).await {
                Ok(verdict) => verdict,
                Err(cause) => {
                    error!(run_id = %run.run_id, cause = chain(&cause), "could not read the run's suite");
                    return WorkEnd::Stopped(Stop::Lost);
                }
            };
            let verify = |state: &RunState| verdict.as_ref()?(state);
            let store = self.store.as_ref();
            if let Some(end) = history::copy(store, run, fork, writer, &control, &verify).await {
                return end;
            }
        }
        if writer.with_state(|state| state.started_at.is_none()) {
            writer.emit(&NewEvent::of_run(Event::RunStarted(endings::started(run))));
        }
        if let Ok(Some(request)) = store::queue::cancel_requested(&self.store, &run.run_id).await {
            return WorkEnd::Stopped(Stop::Cancelled(request));
        }
        let left = endings::time_left(run, writer);
        if left.is_some_and(|left| left.is_zero()) {
            return WorkEnd::Stopped(Stop::TimedOut);
        }
        if writer.with_state(|state| state.paused_at.is_some()) {
            return WorkEnd::Waiting(Wait {
                until: None,
                pause_known: true,
            });
        }
        let pause = match store::pauses::pause_requested(&self.store, &run.run_id).await {
            Ok(Some(request)) if request.drain_policy == DrainPolicy::Immediate => {
                return WorkEnd::Stopped(Stop::Paused);
            }
            Ok(request) => request,
            Err(cause) => {
                error!(run_id = %run.run_id, %cause, "could not read the run's pause state");
                return WorkEnd::Stopped(Stop::Lost);
            }
        };
        let mut signals = RunSignals::new(control, writer.closed_token(), left, pause);
        match &run.spec.work {
            Work::Eval(spec) => {
                let eval = self.eval.clone();
                eval.execute(run, spec, writer, &mut signals).await
            }
            Work::Workflow(spec) => self.workflow.execute(run, spec, writer, &mut signals).await,
            Work::Journal => {
                // A service that appended to the log died meanwhile.
                WorkEnd::Waiting(Wait {
                    until: None,
                    pause_known: true,
                })
            }
        }
    }

    async fn conclude(
        &self,
        claim: &RunClaim,
        writer: &RunWriter,
        end: WorkEnd,
    ) -> ExecutionOutcome {
        let run = claim.run.as_ref();
        match end {
            WorkEnd::Ended => ExecutionOutcome::Ended,
            WorkEnd::Stopped(Stop::Cancelled(request)) => {
                endings::cancel(writer, request);
                ExecutionOutcome::Ended
            }
            WorkEnd::Stopped(Stop::TimedOut) => {
                endings::time_out(run, writer);
                ExecutionOutcome::Ended
            }
            WorkEnd::Stopped(Stop::Paused) => self.pause(claim, writer).await,
            WorkEnd::Waiting(wait) => {
                let deadline = endings::deadline(run, writer, self.clock.now());
                ExecutionOutcome::Parked(Wait {
                    until: [wait.until, deadline].into_iter().flatten().min(),
                    ..wait
                })
            }
            WorkEnd::Stopped(Stop::Draining) => ExecutionOutcome::GivenBack,
            WorkEnd::Stopped(Stop::CutOff) => ExecutionOutcome::CutOff,
            WorkEnd::Stopped(Stop::Lost) => {
                writer.close();
                ExecutionOutcome::Broken
            }
        }
    }

    /// Puts the recorded pause into force.
    async fn pause(&self, claim: &RunClaim, writer: &RunWriter) -> ExecutionOutcome {
        let run = claim.run.as_ref();
        match store::pauses::take_pause(&self.store, &run.run_id, claim.fence).await {
            Ok(Some(request)) => {
                endings::pause(writer, request);
                ExecutionOutcome::Parked(Wait {
                    until: endings::deadline(run, writer, self.clock.now()),
                    pause_known: true,
                })
            }
            // The pause was withdrawn. The next claim knows nothing of it.
            Ok(None) => ExecutionOutcome::GivenBack,
            Err(cause) => {
                error!(run_id = %run.run_id, %cause, "could not pause the run");
                writer.close();
                ExecutionOutcome::Broken
            }
        }
    }
}
