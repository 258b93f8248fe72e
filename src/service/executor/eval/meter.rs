//! The run's budget as the agent runtime sees it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::domain::budget::{Budget, Dimension, Estimate, Limits, Reserve};
use crate::domain::run::record::EvalSpec;
use crate::ports::{Exhausted, Meter};

/// The run's budget, shared by its tasks.
pub(super) struct RunMeter {
    budget: Mutex<Budget>,
    settled: Notify,
}

impl RunMeter {
    pub(super) fn new(limits: Limits, spent: Estimate) -> Self {
        Self {
            budget: Mutex::new(Budget::new(limits, spent)),
            settled: Notify::new(),
        }
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn exhausted(&self) -> Option<Dimension> {
        self.budget().used_up()
    }

    pub(super) fn spent(&self) -> Estimate {
        self.budget().spent()
    }
}

#[async_trait]
impl Meter for RunMeter {
    async fn reserve(&self, estimate: Estimate) -> Result<(), Exhausted> {
        loop {
            let settled = self.settled.notified();
            match self.budget().reserve(estimate) {
                Reserve::Granted => return Ok(()),
                Reserve::Exhausted(_) => return Err(Exhausted),
                Reserve::Wait => {}
            }
            settled.await;
        }
    }

    fn settle(&self, estimate: Estimate, used: Estimate) {
        self.budget().settle(estimate, used);
        self.settled.notify_waiters();
    }
}

/// The bounds in force: the smaller of the caller's and the host's, per dimension.
pub(super) fn limits(spec: &EvalSpec) -> Limits {
    let max_cost = match (spec.budget.max_cost, spec.cost_ceiling) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    Limits {
        max_tokens: spec.budget.max_tokens,
        max_cost,
    }
}

/// A bound the caller set ends the run (RFC 0084, hard); the host's ceiling leaves the rest of the tasks unjudged (RFC 0081).
pub(super) fn is_callers_bound(spec: &EvalSpec, dimension: Dimension) -> bool {
    match dimension {
        Dimension::Tokens => true,
        Dimension::Cost => spec
            .budget
            .max_cost
            .is_some_and(|own| spec.cost_ceiling.is_none_or(|host| own <= host)),
    }
}
