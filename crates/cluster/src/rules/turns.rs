//! Which task is put into a queue next, so that tenants and runs share the workers evenly.
//!
//! Workers take tasks in the order in which they were put into a queue. An owner therefore keeps
//! only a few tasks of each tenant there, as many as workers take in a moment. The others wait at
//! the owner, where the runs of a tenant take turns. So a run of a million tasks delays a run of
//! twenty only by that moment.

use std::collections::VecDeque;
use std::time::Duration;

use touchstone_kit::ids::RunId;

/// Tasks of a tenant that may always be in a queue.
pub const LEAST: usize = 8;
/// The claims of this time and of the one before it count as those of the last moment.
pub const PERIOD: Duration = Duration::from_millis(100);

/// The tasks of one tenant for one queue.
#[derive(Debug)]
pub struct Turns<T> {
    /// Tasks in the queue that no worker has claimed.
    offered: usize,
    claims: Claims,
    /// Tasks that wait, by run. The first run is next.
    waiting: VecDeque<(RunId, VecDeque<T>)>,
}

/// Claims of the current period and of the one before it.
#[derive(Debug, Default)]
struct Claims {
    began: Duration,
    current: usize,
    before: usize,
}

impl Claims {
    fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.began);
        if passed < PERIOD {
            return;
        }
        let follows = passed < PERIOD.saturating_mul(2);
        self.before = if follows { self.current } else { 0 };
        self.current = 0;
        self.began = now;
    }

    const fn recent(&self) -> usize {
        self.current.saturating_add(self.before)
    }
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            offered: 0,
            claims: Claims::default(),
            waiting: VecDeque::new(),
        }
    }
}

impl<T> Turns<T> {
    /// Adds a task that waits for its turn, `ahead` of the others of its run or behind them.
    pub fn wait(&mut self, run: &RunId, task: T, ahead: bool) {
        let found = self.waiting.iter_mut().find(|(it, _)| it == run);
        let tasks = match found {
            Some((_, tasks)) => tasks,
            None => {
                self.waiting.push_back((run.clone(), VecDeque::new()));
                match self.waiting.back_mut() {
                    Some((_, tasks)) => tasks,
                    None => return,
                }
            }
        };
        if ahead {
            tasks.push_front(task);
        } else {
            tasks.push_back(task);
        }
    }

    /// The next task that is put into the queue now. Those that no longer wait are left out.
    pub fn next(&mut self, now: Duration, waits: impl Fn(&T) -> bool) -> Option<T> {
        self.claims.advance(now);
        if self.offered >= LEAST.saturating_add(self.claims.recent()) {
            return None;
        }
        while let Some((run, mut tasks)) = self.waiting.pop_front() {
            let next = loop {
                match tasks.pop_front() {
                    Some(task) if waits(&task) => break Some(task),
                    Some(_) => {}
                    None => break None,
                }
            };
            if !tasks.is_empty() {
                self.waiting.push_back((run, tasks));
            }
            if next.is_some() {
                self.offered += 1;
                return next;
            }
        }
        None
    }

    /// A worker has claimed a task that was in the queue.
    pub fn claimed(&mut self, now: Duration) {
        self.claims.advance(now);
        self.claims.current = self.claims.current.saturating_add(1);
        self.withdrawn();
    }

    /// A task that was in the queue has ended without a claim.
    pub const fn withdrawn(&mut self) {
        self.offered = self.offered.saturating_sub(1);
    }

    /// Whether no task is in the queue or waits.
    pub fn is_idle(&self) -> bool {
        self.offered == 0 && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str) -> RunId {
        RunId::from(name.to_owned())
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn all(_: &(char, usize)) -> bool {
        true
    }

    fn with_runs(runs: &[(char, usize)]) -> Turns<(char, usize)> {
        let mut turns = Turns::default();
        for (name, count) in runs {
            for number in 0..*count {
                turns.wait(&run(&name.to_string()), (*name, number), false);
            }
        }
        turns
    }

    fn taken(turns: &mut Turns<(char, usize)>, now: Duration) -> Vec<(char, usize)> {
        std::iter::from_fn(|| turns.next(now, all)).collect()
    }

    #[test]
    fn runs_take_turns_and_their_tasks_keep_their_order() {
        let mut turns = with_runs(&[('a', 100), ('b', 2)]);
        let order = taken(&mut turns, at(0));
        let names: String = order.iter().map(|(name, _)| name).collect();
        assert_eq!(names, "ababaaaa");
        let of_a: Vec<usize> = order
            .iter()
            .filter(|(name, _)| *name == 'a')
            .map(|(_, number)| *number)
            .collect();
        assert_eq!(of_a, (0..6).collect::<Vec<_>>());
    }

    #[test]
    fn a_task_ahead_is_the_next_of_its_run() {
        let mut turns = with_runs(&[('a', 3)]);
        turns.wait(&run("a"), ('a', 9), true);
        assert_eq!(turns.next(at(0), all), Some(('a', 9)));
        assert_eq!(turns.next(at(0), all), Some(('a', 0)));
    }

    #[test]
    fn few_tasks_are_in_the_queue_while_nobody_claims_them() {
        let mut turns = with_runs(&[('a', 100)]);
        assert_eq!(taken(&mut turns, at(0)).len(), LEAST);
        assert_eq!(taken(&mut turns, at(10_000)).len(), 0);
        turns.withdrawn();
        assert_eq!(taken(&mut turns, at(10_000)).len(), 1);
    }

    #[test]
    fn more_tasks_are_in_the_queue_the_faster_they_are_claimed() {
        let mut turns = with_runs(&[('a', 10_000)]);
        let mut offered = taken(&mut turns, at(0)).len();
        for now in 1..=50 {
            for _ in 0..offered.min(40) {
                turns.claimed(at(now));
                offered -= 1;
            }
            offered += taken(&mut turns, at(now)).len();
        }
        assert!(offered > 1_000, "{offered}");
        // Workers become slow: the queue is not filled again until it is short.
        for step in 1..=20 {
            let now = at(50 + step * 200);
            turns.claimed(now);
            offered -= 1;
            offered += taken(&mut turns, now).len();
        }
        assert_eq!(taken(&mut turns, at(10_000)).len(), 0);
        while offered > LEAST {
            turns.claimed(at(20_000));
            offered -= 1;
        }
        let now = at(30_000);
        assert_eq!(taken(&mut turns, now).len(), 0, "the queue has {LEAST}");
        turns.claimed(now);
        assert_eq!(
            taken(&mut turns, now).len(),
            2,
            "one, and one for the claim"
        );
    }

    #[test]
    fn tasks_that_no_longer_wait_are_left_out() {
        let mut turns = with_runs(&[('a', 3), ('b', 1)]);
        let waits = |task: &(char, usize)| *task == ('a', 2) || *task == ('b', 0);
        assert_eq!(turns.next(at(0), waits), Some(('a', 2)));
        assert_eq!(turns.next(at(0), waits), Some(('b', 0)));
        assert_eq!(turns.next(at(0), waits), None);
        assert!(!turns.is_idle());
        turns.withdrawn();
        turns.claimed(at(0));
        assert!(turns.is_idle());
    }
}
