//! The run's budget as the agent runtime sees it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::domain::budget::{Budget, Dimension, Estimate, Limits, Reserve};
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
