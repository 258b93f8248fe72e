//! Carries out claimed runs.
//!
//! What every run has is here: the fold of its log, its beginning, what may stop it from outside, its end. What it does is
//! decided by its kind of work. Nothing is decided here that the rules can decide: work folds the log, does what is missing,
//! and records what came of it. That is also all there is to resuming.

use std::sync::Arc;

use tracing::error;

mod control;
mod endings;
mod eval;
mod history;
mod workflow;

pub use self::control::RunControl;
use self::control::{Stop, Watch};
pub use self::endings::started;
pub use self::eval::{EvalWork, INTERNAL_ERROR};
use self::workflow::WorkflowWork;
use super::projections::{Projections, catch_up};
use super::run_writer::RunWriter;
use crate::domain::run::fold::RunState;
use crate::domain::run::record::{RunRecord, Work};
use crate::ports::{Claim, Clock, Ids, Store, Wait};
use crate::protocol::openwop::events::{DrainPolicy, Event, NewEvent};

/// Carries out runs.
pub struct Executor {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    projections: Arc<Projections>,
    eval: Arc<EvalWork>,
    workflow: WorkflowWork,
}

/// How far a claimed run was carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// To its terminal event, durably.
    Ended,
    /// The replica drains: others may go on at once.
    GivenBack,
    /// It waits for somebody, or for a moment: nobody need look at it before.
    Parked(Wait),
    /// The lease is lost, or the store or the log failed. Whoever tries again should not do so at once.
    Broken,
}

/// How far work came.
enum Reached {
    /// Its terminal event is emitted.
    End,
    /// It was stopped from outside.
    Stop(Stop),
    /// A point where nothing happens before this moment, or before somebody does something.
    Wait(Wait),
}

impl Executor {
    /// An executor over its ports and the kinds of work it knows.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        projections: Arc<Projections>,
        eval: EvalWork,
    ) -> Arc<Self> {
        let workflow = WorkflowWork::new(clock.clone());
        Arc::new(Self {
            store,
            clock,
            ids,
            projections,
            eval: Arc::new(eval),
            workflow,
        })
    }

    /// Carries out a claimed run as far as it goes.
    pub async fn execute(&self, claim: Claim, control: RunControl) -> Outcome {
        let mut state = RunState::default();
        if let Err(cause) = catch_up(self.store.as_ref(), &claim.run.run_id, &mut state).await {
            let cause = anyhow::Error::new(cause);
            error!(run_id = %claim.run.run_id, cause = format!("{cause:#}"), "the run's log cannot be folded");
            return Outcome::Broken;
        }
        let writer = RunWriter::new(
            &claim,
            Some(control.lease.clone()),
            state,
            self.store.clone(),
            self.clock.clone(),
            self.ids.clone(),
        );
        let flusher = {
            let writer = writer.clone();
            tokio::spawn(async move { writer.run_flusher().await })
        };
        let reached = self.carry_out(&claim.run, &writer, control).await;
        if !matches!(reached, Reached::Stop(Stop::Lost)) {
            self.eval.leave(&claim.run, &writer).await;
        }
        let outcome = self.conclude(&claim, &writer, reached).await;
        let durable = writer.flush().await.is_ok();
        if durable && outcome == Outcome::Ended {
            let state = writer.with_state(RunState::clone);
            self.projections.keep(&claim.run.run_id, state).await;
        }
        let broken = !durable || (outcome != Outcome::Ended && writer.is_closed());
        writer.close();
        if let Err(cause) = flusher.await {
            error!(run_id = %claim.run.run_id, %cause, "the log's flusher ended abnormally");
        }
        if broken { Outcome::Broken } else { outcome }
    }

    async fn carry_out(
        &self,
        run: &Arc<RunRecord>,
        writer: &RunWriter,
        control: RunControl,
    ) -> Reached {
        if let Some(fork) = &run.fork {
            let verdict = self.eval.verdict_of(run).await;
            let verify = |state: &RunState| verdict.as_ref()?(state);
            let store = self.store.as_ref();
            if let Some(reached) = history::bring(store, run, fork, writer, &control, &verify).await
            {
                return reached;
            }
        }
        if writer.with_state(|state| state.started_at.is_none()) {
            writer.emit(&NewEvent::of_run(Event::RunStarted(endings::started(run))));
        }
        if let Ok(Some(request)) = self.store.cancel_requested(&run.run_id).await {
            return Reached::Stop(Stop::Cancelled(request));
        }
        let left = endings::time_left(run, writer);
        if left.is_some_and(|left| left.is_zero()) {
            return Reached::Stop(Stop::TimedOut);
        }
        if writer.with_state(|state| state.paused_at.is_some()) {
            return Reached::Wait(Wait {
                until: None,
                pause_known: true,
            });
        }
        let pause = match self.store.pause_requested(&run.run_id).await {
            Ok(Some(request)) if request.drain_policy == DrainPolicy::Immediate => {
                return Reached::Stop(Stop::Paused);
            }
            Ok(request) => request,
            Err(cause) => {
                error!(run_id = %run.run_id, %cause, "it cannot be told whether the run is to be paused");
                return Reached::Stop(Stop::Lost);
            }
        };
        let mut watch = Watch::new(control, writer.clone(), left, pause);
        match &run.spec.work {
            Work::Eval(spec) => {
                let eval = self.eval.clone();
                eval.carry_out(run, spec, writer, &mut watch).await
            }
            Work::Workflow(spec) => self.workflow.carry_out(run, spec, writer, &mut watch).await,
            Work::Journal => {
                // A service that appended to it died meanwhile.
                Reached::Wait(Wait {
                    until: None,
                    pause_known: true,
                })
            }
        }
    }

    async fn conclude(&self, claim: &Claim, writer: &RunWriter, reached: Reached) -> Outcome {
        let run = claim.run.as_ref();
        match reached {
            Reached::End => Outcome::Ended,
            Reached::Stop(Stop::Cancelled(request)) => {
                endings::cancel(writer, request);
                Outcome::Ended
            }
            Reached::Stop(Stop::TimedOut) => {
                endings::time_out(run, writer);
                Outcome::Ended
            }
            Reached::Stop(Stop::Paused) => self.pause(claim, writer).await,
            Reached::Wait(wait) => {
                let deadline = endings::deadline(run, writer, self.clock.now());
                Outcome::Parked(Wait {
                    until: [wait.until, deadline].into_iter().flatten().min(),
                    ..wait
                })
            }
            Reached::Stop(Stop::Draining) => Outcome::GivenBack,
            Reached::Stop(Stop::Lost) => {
                writer.close();
                Outcome::Broken
            }
        }
    }

    /// Lets the pause that is on record come into force.
    async fn pause(&self, claim: &Claim, writer: &RunWriter) -> Outcome {
        let run = claim.run.as_ref();
        match self.store.take_pause(&run.run_id, claim.fence).await {
            Ok(Some(request)) => {
                endings::pause(writer, request);
                Outcome::Parked(Wait {
                    until: endings::deadline(run, writer, self.clock.now()),
                    pause_known: true,
                })
            }
            // It was taken back. Whoever claims the run next knows nothing of a pause.
            Ok(None) => Outcome::GivenBack,
            Err(cause) => {
                error!(run_id = %run.run_id, %cause, "a pause cannot come into force");
                writer.close();
                Outcome::Broken
            }
        }
    }
}
