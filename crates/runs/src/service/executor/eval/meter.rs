//! The run's budget as the agent runtime sees it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::rules::run::record::EvalSpec;
use crate::service::reserving::reserve;
use crate::service::run_writer::RunWriter;
use touchstone_agents::budget::watch::{Notice, Watch};
use touchstone_agents::budget::{Budget, Dimension, Estimate, Spending};
use touchstone_agents::ports::agent::{Exhausted, Meter};
use touchstone_openwop::events::{
    BudgetConsumed, BudgetExhausted, BudgetThresholdCrossed, Event, NewEvent,
};

/// The run's budget, shared by its tasks.
pub struct RunMeter {
    watched: Mutex<Watched>,
    settled: Notify,
    writer: RunWriter,
}

struct Watched {
    budget: Budget,
    /// Only for a budget set by the caller: the host's own ceiling is not reported.
    watch: Option<Watch>,
}

impl RunMeter {
    /// Continues where the run's log ends.
    pub(super) fn new(spec: &EvalSpec, writer: &RunWriter) -> Self {
        let (spent, reported) =
            writer.with_state(|state| (state.eval.own_spending(), state.budget_said.clone()));
        let policy = &spec.budget;
        let watch = (!policy.is_empty()).then(|| {
            let limits = policy.effective(spec.cost_ceiling);
            Watch::new(limits, policy.threshold_percent, policy.advisory, reported)
        });
        let meter = Self {
            watched: Mutex::new(Watched {
                budget: Budget::new(policy.enforced(spec.cost_ceiling), spent),
                watch,
            }),
            settled: Notify::new(),
            writer: writer.clone(),
        };
        // An interrupted worker may have spent more than it reported.
        meter.emit_notices(&mut meter.watched());
        meter
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Emits due notices. Under the lock, because the reported consumption must not decrease.
    fn emit_notices(&self, watched: &mut Watched) {
        let Some(watch) = &mut watched.watch else {
            return;
        };
        for notice in watch.observe(&watched.budget.spent()) {
            self.writer.emit(&NewEvent::of_run(event(notice)));
        }
    }

    /// The dimension in which the caller's own limit refused a call.
    pub fn exhausted(&self, spec: &EvalSpec) -> Option<Dimension> {
        let watched = self.watched();
        let mut refused = watched.budget.refused().iter();
        refused
            .find(|dimension| is_callers_limit(spec, **dimension))
            .copied()
    }

    pub(super) fn spent(&self) -> Spending {
        self.watched().budget.spent()
    }
}

#[async_trait]
impl Meter for RunMeter {
    async fn reserve(&self, estimate: Estimate) -> Result<(), Exhausted> {
        reserve(&self.settled, || self.watched().budget.reserve(estimate)).await
    }

    fn settle(&self, estimate: Estimate, used: Estimate) {
        let mut watched = self.watched();
        watched.budget.settle(estimate, used);
        self.emit_notices(&mut watched);
        drop(watched);
        self.settled.notify_waiters();
    }

    async fn call_tool(&self) -> Result<(), Exhausted> {
        let mut watched = self.watched();
        watched.budget.call_tool().map_err(|_| Exhausted)?;
        self.emit_notices(&mut watched);
        Ok(())
    }

    async fn retry(&self) -> Result<(), Exhausted> {
        let mut watched = self.watched();
        watched.budget.retry().map_err(|_| Exhausted)?;
        self.emit_notices(&mut watched);
        Ok(())
    }
}

fn event(notice: Notice) -> Event {
    match notice {
        Notice::Consumed {
            dimension,
            consumed,
            limit,
        } => Event::BudgetConsumed(BudgetConsumed {
            dimension: dimension.as_str().to_owned(),
            consumed,
            limit,
            remaining: Some((limit - consumed).max(0.0)),
        }),
        Notice::Crossed {
            dimension,
            consumed,
            limit,
            percent,
        } => Event::BudgetThresholdCrossed(BudgetThresholdCrossed {
            dimension: dimension.as_str().to_owned(),
            consumed,
            limit,
            percent,
        }),
        Notice::Reached {
            dimension,
            consumed,
            limit,
        } => Event::BudgetExhausted(BudgetExhausted {
            dimension: dimension.as_str().to_owned(),
            consumed,
            limit,
        }),
    }
}

/// A limit set by the caller ends the run (RFC 0084, hard); the host's ceiling leaves the remaining
/// tasks unjudged (RFC 0081).
fn is_callers_limit(spec: &EvalSpec, dimension: Dimension) -> bool {
    dimension != Dimension::Cost || spec.budget.owns_cost(spec.cost_ceiling)
}
