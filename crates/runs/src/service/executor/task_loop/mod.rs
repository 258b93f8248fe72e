//! The loop over the units of work of a run: the tasks of a suite, or the scenarios of another kind
//! of evaluation.

mod tenant_permits;
#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::error;

use crate::service::executor::control::{RunSignals, Signal, Stop};
use crate::service::run_writer::Backlog;
use touchstone_agents::budget::Dimension;
use touchstone_host::otlp::span;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_openwop::events::RunError;

pub use tenant_permits::TenantPermits;

/// Maximum number of units that are in flight or scored but not yet durable, as a multiple of the
/// concurrency. Limits the calls that are wasted if the process is killed.
const AHEAD: usize = 2;

/// Why a loop ends before all units are recorded.
#[derive(Debug)]
pub enum EarlyEnd {
    Stopped(Stop),
    BudgetExhausted(Dimension),
    /// The agent needed more model turns in this task than the run allows.
    LoopLimit(TaskId),
    /// The run cannot continue, and neither can it on another replica.
    Failed(RunError),
}

impl From<Stop> for EarlyEnd {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

/// One unit of work. The loop may abort either method at any `await`.
pub trait WorkUnit: Send + Sync + 'static {
    /// Executes the unit and records its result.
    fn execute(&self) -> impl Future<Output = Result<(), EarlyEnd>> + Send;

    /// Records that [`execute`](Self::execute) panicked.
    fn record_panic(&self) -> impl Future<Output = Result<(), EarlyEnd>> + Send;
}

/// Executes units until none is left or the run stops.
pub struct TaskLoop {
    pub run_id: RunId,
    /// Maximum number of units in flight.
    pub concurrency: usize,
    /// Permits of the run's tenant; a unit holds one while it is executed.
    pub permits: Arc<Semaphore>,
    pub backlog: Backlog,
}

impl TaskLoop {
    /// `next` returns the next unit that may start. `None` means that no unit may start before one
    /// in flight ends; with none in flight, that all are recorded.
    ///
    /// # Errors
    /// [`EarlyEnd`] if the loop ends before that.
    pub async fn run<U: WorkUnit>(
        self,
        signals: &mut RunSignals,
        next: impl FnMut() -> Option<U> + Send,
    ) -> Result<(), EarlyEnd> {
        let mut in_flight = JoinSet::new();
        let end = self.run_in(&mut in_flight, signals, next).await;
        // Nothing is in flight after the loop: a run that waits for a person records nothing else,
        // and no unit uses an environment that the caller tears down.
        in_flight.shutdown().await;
        end
    }

    async fn run_in<U: WorkUnit>(
        mut self,
        in_flight: &mut JoinSet<Result<(), EarlyEnd>>,
        signals: &mut RunSignals,
        mut next: impl FnMut() -> Option<U> + Send,
    ) -> Result<(), EarlyEnd> {
        let mut pending = None;
        loop {
            // Before checking for room: events that become durable afterwards wake the loop.
            self.backlog.mark_unchanged();
            let mut is_behind = false;
            while !signals.is_held() && in_flight.len() < self.concurrency {
                is_behind = in_flight.len() + self.backlog.scores() >= self.concurrency * AHEAD;
                if is_behind {
                    break;
                }
                let Some(unit) = pending.take().or_else(&mut next) else {
                    break;
                };
                let executed = execute(unit, self.permits.clone());
                in_flight.spawn(span::within(span::current(), executed));
            }
            if in_flight.is_empty() {
                // This unit stays ready, because nothing can be recorded before it starts.
                pending = pending.or_else(&mut next);
                if signals.is_lost() {
                    return Err(Stop::Lost.into());
                }
                if pending.is_none() || signals.is_held() {
                    // A pause takes effect even if only the conclusion is left, because the caller
                    // already received a response that says so.
                    return if pending.is_none() && !signals.pause_requested() {
                        Ok(())
                    } else {
                        Err(signals.hold_reason().into())
                    };
                }
            }
            tokio::select! {
                // There may be room for another unit now.
                Ok(()) = self.backlog.changed(), if is_behind => {}
                Some(ended) = in_flight.join_next() => match ended {
                    Ok(end) => end?,
                    Err(cause) => {
                        error!(run_id = %self.run_id, %cause, "a task ended abnormally");
                        return Err(Stop::Lost.into());
                    }
                },
                signal = signals.next() => match signal {
                    Signal::Stop(stop) => return Err(stop.into()),
                    Signal::HoldChanged => {}
                },
            }
        }
    }
}

/// Executes one unit. Its permit is released before the loop waits for durability.
async fn execute<U: WorkUnit>(unit: U, permits: Arc<Semaphore>) -> Result<(), EarlyEnd> {
    let Ok(_permit) = permits.acquire_owned().await else {
        return Err(Stop::Lost.into());
    };
    // An internal error in one unit must neither end the run nor be retried forever.
    match AssertUnwindSafe(unit.execute()).catch_unwind().await {
        Ok(end) => end,
        Err(_) => unit.record_panic().await,
    }
}
