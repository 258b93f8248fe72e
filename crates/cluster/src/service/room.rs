//! Room for large tasks and facts: how many bytes of them a pool may take at this host.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::rules::access::pools::Pool;

/// A unit of room.
const UNIT: usize = 1024;

/// Room for the tasks and for the facts of each pool. They are apart: an attempt holds its task
/// while it waits for room for a fact.
pub(super) struct Room {
    /// Units of a pool.
    units: u32,
    pools: Mutex<BTreeMap<Pool, PoolRoom>>,
}

#[derive(Clone)]
struct PoolRoom {
    tasks: Arc<Semaphore>,
    facts: Arc<Semaphore>,
}

impl Room {
    /// `bytes`: of one pool.
    pub fn new(bytes: usize) -> Self {
        Self {
            units: units(bytes),
            pools: Mutex::default(),
        }
    }

    fn of(&self, pool: &Pool) -> PoolRoom {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let units = usize::try_from(self.units).unwrap_or(usize::MAX);
        let new = || PoolRoom {
            tasks: Arc::new(Semaphore::new(units)),
            facts: Arc::new(Semaphore::new(units)),
        };
        pools.entry(pool.clone()).or_insert_with(new).clone()
    }

    /// Room for a task, if there is some now.
    pub fn for_task(&self, pool: &Pool, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let wanted = units(bytes).min(self.units);
        self.of(pool).tasks.try_acquire_many_owned(wanted).ok()
    }

    /// Room for a fact, if there is some now.
    pub fn for_fact(&self, pool: &Pool, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let wanted = units(bytes).min(self.units);
        self.of(pool).facts.try_acquire_many_owned(wanted).ok()
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX >> 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_tasks_and_facts_have_room_apart() {
        let room = Room::new(10 * UNIT);
        let [one, other] = ["a", "b"].map(|it| Pool::parse(it).unwrap());
        let task = |pool, bytes| room.for_task(pool, bytes);
        let first = task(&one, 6 * UNIT).unwrap();
        assert!(task(&one, 4 * UNIT + 1).is_none());
        assert!(task(&other, 10 * UNIT).is_some());
        assert!(room.for_fact(&one, 10 * UNIT).is_some());
        drop(first);
        // More than there is at all: alone.
        let all = task(&one, 20 * UNIT).unwrap();
        assert!(task(&one, 1).is_none());
        drop(all);
        let fact = room.for_fact(&one, 9 * UNIT).unwrap();
        assert!(room.for_fact(&one, 2 * UNIT).is_none());
        drop(fact);
        assert!(room.for_fact(&one, 2 * UNIT).is_some());
    }
}
