//! The turns of tasks that wait to be put into a queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use touchstone_host::ports::clock::Clock;
use touchstone_kit::ids::{RunId, TenantId};

use crate::rules::lane::Lane;
use crate::rules::turns::Turns;

type Queues = HashMap<(Lane, TenantId), Turns<oneshot::Sender<Turn>>>;

/// The tasks of this replica, by queue and tenant.
pub(super) struct Schedule {
    clock: Arc<dyn Clock>,
    queues: Mutex<Queues>,
}

impl Schedule {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            queues: Mutex::default(),
        }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of a task, `ahead` of the others of its run or behind them.
    pub fn turn(
        self: &Arc<Self>,
        lane: &Lane,
        tenant: &TenantId,
        run: &RunId,
        ahead: bool,
    ) -> oneshot::Receiver<Turn> {
        let (sender, turn) = oneshot::channel();
        let key = (lane.clone(), tenant.clone());
        let mut queues = self.queues();
        let turns = queues.entry(key.clone()).or_default();
        turns.wait(run, sender, ahead);
        drop(queues);
        self.advance(&key);
        turn
    }

    fn advance(self: &Arc<Self>, key: &(Lane, TenantId)) {
        loop {
            let next = {
                let mut queues = self.queues();
                let Some(turns) = queues.get_mut(key) else {
                    return;
                };
                let next = turns.next(self.clock.uptime(), |it| !it.is_closed());
                if turns.is_idle() {
                    queues.remove(key);
                }
                next
            };
            let Some(next) = next else { return };
            // A task that has gone meanwhile gives its turn back.
            let _ = next.send(Turn {
                schedule: Arc::clone(self),
                key: key.clone(),
                claimed: false,
            });
        }
    }
}

/// The right of a task to be in the queue. Dropping it makes room for another one.
pub(super) struct Turn {
    schedule: Arc<Schedule>,
    key: (Lane, TenantId),
    claimed: bool,
}

impl Turn {
    /// A worker has claimed the task.
    pub fn claimed(mut self) {
        self.claimed = true;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.schedule.queues().get_mut(&self.key) {
            match self.claimed {
                true => turns.claimed(self.schedule.clock.uptime()),
                false => turns.withdrawn(),
            }
        }
        self.schedule.advance(&self.key);
    }
}
