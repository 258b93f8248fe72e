//! The queues that a worker pulls from.
//!
//! It always pulls from the queues of tasks that any worker can execute. There may be many queues of
//! large tasks and of tasks with labels, most of them empty, and a pull takes one of the worker's free
//! places. So the worker asks which queues of its pools have messages, and pulls from an optional
//! queue only then. An optional queue without messages costs no place, and no pull, so that the bus
//! can remove it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use touchstone_host::ports::ids::Ids;
use tracing::debug;

use crate::ports::bus::Bus;
use crate::rules::access::pools::Pool;
use crate::rules::lane::Lane;

/// Time between two questions about the queues of a pool while optional ones have messages.
const SHORTEST: Duration = Duration::from_secs(1);
/// The same while none has, or there is no answer. It doubles until then.
const LONGEST: Duration = Duration::from_secs(5);
/// How long pulls still wait for a message of an optional queue after its last one.
const IN_USE: Duration = Duration::from_secs(5);

pub(super) struct Watching {
    /// The optional lanes of each pool, by name.
    optional: BTreeMap<Pool, BTreeMap<String, Lane>>,
    state: Mutex<State>,
    found: Notify,
}

#[derive(Default)]
struct State {
    /// Lanes that are to be pulled from and are not yet.
    new: BTreeSet<Lane>,
    /// The optional lanes that are pulled from, and when each had its last message.
    pulled: BTreeMap<Lane, Option<Duration>>,
    /// Pools whose queues could not be read.
    unread: BTreeSet<Pool>,
}

impl Watching {
    pub fn new(always: BTreeSet<Lane>, optional: BTreeSet<Lane>) -> Self {
        let state = State {
            new: always,
            ..State::default()
        };
        let mut by_pool: BTreeMap<Pool, BTreeMap<String, Lane>> = BTreeMap::new();
        for lane in optional {
            let of_pool = by_pool.entry(lane.pool().clone()).or_default();
            of_pool.insert(lane.name().to_owned(), lane);
        }
        Self {
            optional: by_pool,
            state: Mutex::new(state),
            found: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lanes that are pulled from, from now on.
    pub fn begin(&self) -> BTreeSet<Lane> {
        std::mem::take(&mut self.state().new)
    }

    /// How long a pull waits for a message: not at all for an optional lane that had none lately.
    pub fn waits(&self, lane: &Lane, longest: Duration) -> Duration {
        match self.state().pulled.get(lane) {
            Some(None) => Duration::ZERO,
            Some(Some(_)) | None => longest,
        }
    }

    /// A pull has ended, which `took` messages or found none. Returns the lane if it is to be pulled
    /// from again.
    pub fn again(&self, lane: Lane, took: bool, now: Duration) -> Option<Lane> {
        let mut state = self.state();
        let Some(last) = state.pulled.get_mut(&lane) else {
            return Some(lane);
        };
        if took {
            *last = Some(now);
        }
        if last.is_some_and(|at| now.saturating_sub(at) < IN_USE) {
            return Some(lane);
        }
        state.pulled.remove(&lane);
        None
    }

    /// Waits until there are lanes to begin with.
    pub async fn found(&self) {
        self.found.notified().await;
    }

    /// Whether optional lanes are found in some pool: not without the permission to read its queues.
    pub fn finds(&self) -> bool {
        self.state().unread.len() < self.optional.len().max(1)
    }

    /// These lanes of a pool have messages. Returns whether some of them are optional lanes of this
    /// worker.
    fn filled(&self, pool: &Pool, names: &BTreeSet<String>) -> bool {
        let Some(optional) = self.optional.get(pool) else {
            return false;
        };
        let filled: Vec<&Lane> = names.iter().filter_map(|it| optional.get(it)).collect();
        let mut state = self.state();
        for lane in &filled {
            if !state.pulled.contains_key(*lane) {
                state.pulled.insert((*lane).clone(), None);
                state.new.insert((*lane).clone());
            }
        }
        if !state.new.is_empty() {
            self.found.notify_one();
        }
        !filled.is_empty()
    }

    /// Looks for optional lanes with messages until the future is dropped, in each pool by itself: one
    /// that gives no answer does not delay the others.
    pub async fn look(&self, bus: &dyn Bus, ids: &dyn Ids) {
        let pools = self.optional.keys();
        join_all(pools.map(|pool| self.look_in(pool, bus, ids))).await;
        // There are no optional lanes.
        std::future::pending().await
    }

    async fn look_in(&self, pool: &Pool, bus: &dyn Bus, ids: &dyn Ids) {
        let mut period = SHORTEST;
        loop {
            match bus.filled(pool).await {
                Ok(names) => {
                    self.state().unread.remove(pool);
                    period = match self.filled(pool, &names) {
                        true => SHORTEST,
                        false => period.saturating_mul(2).min(LONGEST),
                    };
                }
                Err(cause) => {
                    // A refused permission is logged with the command that prints it.
                    debug!(%pool, %cause, "the queues of a pool are not known");
                    self.state().unread.insert(pool.clone());
                    period = LONGEST;
                }
            }
            // So that many workers do not ask at the same time.
            let [random, ..] = ids.secret();
            tokio::time::sleep(varied(period, random)).await;
        }
    }
}

/// Three to five quarters of a time.
fn varied(period: Duration, random: u8) -> Duration {
    period.saturating_mul(u32::from(random).saturating_add(384)) / 512
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::lane::tests::lane;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn names(lanes: &[&Lane]) -> BTreeSet<String> {
        lanes.iter().map(|it| it.name().to_owned()).collect()
    }

    #[test]
    fn optional_lanes_are_pulled_from_while_they_have_messages() {
        let pool = Pool::shared();
        let [plain, one, other] = ["a", "b", "c"].map(|it| lane(&pool, it));
        let optional = BTreeSet::from([one.clone(), other.clone()]);
        let watching = Watching::new(BTreeSet::from([plain.clone()]), optional);
        assert_eq!(watching.begin(), BTreeSet::from([plain.clone()]));
        assert!(!watching.filled(&pool, &names(&[&plain])));
        assert!(watching.begin().is_empty());

        assert!(watching.filled(&pool, &names(&[&plain, &one])));
        assert_eq!(watching.begin(), BTreeSet::from([one.clone()]));
        assert_eq!(watching.waits(&one, at(1)), at(0), "it may be empty again");
        assert!(watching.filled(&pool, &names(&[&one])));
        assert!(watching.begin().is_empty(), "it is pulled from already");
        assert_eq!(watching.again(one.clone(), true, at(10)), Some(one.clone()));
        assert_eq!(watching.waits(&one, at(1)), at(1), "more will come soon");
        let again = watching.again(one.clone(), false, at(14));
        assert_eq!(again, Some(one.clone()));
        assert_eq!(watching.again(one.clone(), false, at(15)), None);

        assert!(watching.filled(&pool, &names(&[&one, &other])));
        assert_eq!(watching.begin().len(), 2);
        assert_eq!(watching.again(other, false, at(16)), None, "others took it");
        let again = watching.again(plain.clone(), false, at(99));
        assert_eq!(again, Some(plain.clone()));
        assert_eq!(watching.waits(&plain, at(1)), at(1));
        assert!(!watching.filled(&Pool::parse("acme").unwrap(), &names(&[&one])));
    }

    #[test]
    fn the_time_between_two_questions_varies() {
        let varied = [0, 128, 255].map(|it| varied(Duration::from_millis(512), it).as_millis());
        assert_eq!(varied, [384, 512, 639]);
    }
}
