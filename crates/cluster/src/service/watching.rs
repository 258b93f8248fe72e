//! The queues that a worker watches.
//!
//! The queues of tasks that any worker can execute are always watched. There may be many queues of
//! tasks with labels and of large tasks, and a queue that is watched takes one of the worker's free
//! places, so those are watched that exist.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::debug;

use crate::ports::bus::Bus;
use crate::rules::access::pools::Pool;
use crate::rules::lane::Lane;

/// How often it is looked which queues exist.
const LOOKED_FOR: Duration = Duration::from_secs(1);

pub(super) struct Watching {
    /// Those that are watched if they exist.
    optional: BTreeSet<Lane>,
    state: Mutex<State>,
    found: Notify,
}

#[derive(Default)]
struct State {
    /// Lanes that are to be watched and are not yet.
    new: BTreeSet<Lane>,
    /// The optional lanes that exist.
    exist: BTreeSet<Lane>,
    /// The optional lanes that are watched.
    watched: BTreeSet<Lane>,
}

impl Watching {
    pub fn new(always: BTreeSet<Lane>, optional: BTreeSet<Lane>) -> Self {
        let state = State {
            new: always,
            ..State::default()
        };
        Self {
            optional,
            state: Mutex::new(state),
            found: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lanes that are watched from now on.
    pub fn begin(&self) -> BTreeSet<Lane> {
        std::mem::take(&mut self.state().new)
    }

    /// A lane was watched for a while: returned if it is to be watched again.
    pub fn again(&self, lane: Lane) -> Option<Lane> {
        let mut state = self.state();
        if self.optional.contains(&lane) && !state.exist.contains(&lane) {
            state.watched.remove(&lane);
            return None;
        }
        Some(lane)
    }

    /// Waits until there are lanes to begin with.
    pub async fn found(&self) {
        self.found.notified().await;
    }

    /// These optional lanes of a pool exist.
    fn exist(&self, pool: &Pool, names: &[String]) {
        let mut state = self.state();
        let of_pool = self.optional.iter().filter(|it| it.pool() == pool);
        for lane in of_pool {
            if !names.iter().any(|name| name == lane.name()) {
                state.exist.remove(lane);
            } else if state.exist.insert(lane.clone()) && state.watched.insert(lane.clone()) {
                state.new.insert(lane.clone());
            }
        }
        if !state.new.is_empty() {
            self.found.notify_one();
        }
    }

    /// Looks for lanes until the future is dropped.
    pub async fn look(&self, bus: &dyn Bus, pools: &[Pool]) {
        if self.optional.is_empty() {
            return std::future::pending().await;
        }
        loop {
            for pool in pools {
                match bus.lanes(pool).await {
                    Ok(names) => self.exist(pool, &names),
                    // A refused permission is logged with the command that prints it.
                    Err(cause) => debug!(%pool, %cause, "the queues of a pool are not known"),
                }
            }
            tokio::time::sleep(LOOKED_FOR).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::lane::tests::lane;

    #[test]
    fn optional_lanes_are_watched_while_they_exist() {
        let pool = Pool::shared();
        let [plain, one, other] = ["a", "b", "c"].map(|it| lane(&pool, it));
        let optional = BTreeSet::from([one.clone(), other.clone()]);
        let watching = Watching::new(BTreeSet::from([plain.clone()]), optional);
        let exist = |lanes: &[&Lane]| {
            let names: Vec<String> = lanes.iter().map(|it| it.name().to_owned()).collect();
            watching.exist(&pool, &names);
        };
        assert_eq!(watching.begin(), BTreeSet::from([plain.clone()]));
        exist(&[&plain, &one]);
        assert_eq!(watching.begin(), BTreeSet::from([one.clone()]));
        exist(&[&plain, &one]);
        assert!(watching.begin().is_empty(), "it is watched already");
        assert_eq!(watching.again(one.clone()), Some(one.clone()));
        exist(&[]);
        assert_eq!(watching.again(one.clone()), None);
        assert_eq!(watching.again(plain.clone()), Some(plain));
        exist(&[&one, &other]);
        assert_eq!(watching.begin(), BTreeSet::from([one, other]));
        watching.exist(&Pool::parse("acme").unwrap(), &[]);
        assert!(watching.begin().is_empty());
    }

    /// A queue that was removed while it is watched, and created again.
    #[test]
    fn a_lane_is_watched_once() {
        let pool = Pool::shared();
        let one = lane(&pool, "a");
        let watching = Watching::new(BTreeSet::new(), BTreeSet::from([one.clone()]));
        let names = [one.name().to_owned()];
        watching.exist(&pool, &names);
        assert_eq!(watching.begin().len(), 1);
        watching.exist(&pool, &[]);
        watching.exist(&pool, &names);
        assert!(watching.begin().is_empty());
        assert_eq!(watching.again(one.clone()), Some(one));
    }
}
