//! Results of the trials of a task.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::results::{RunResults, TaskResultRow};
use crate::rules::run::task_ids::{TaskIds, TaskIdsBuilder};
use touchstone_kit::ids::TaskId;
use touchstone_kit::statistics::{Attempts, average};

/// Lists of numbers, one list a task.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    values: Vec<f64>,
    lists: usize,
    /// The end of each list; empty while each list has one number.
    ends: Vec<u32>,
}

impl Clusters {
    /// Allocates for this many numbers, because a list that grows takes up to twice the memory.
    pub fn with_room(numbers: usize) -> Self {
        Self {
            values: Vec::with_capacity(numbers),
            ..Self::default()
        }
    }

    pub fn push(&mut self, values: impl Iterator<Item = f64>) {
        let before = self.lists;
        self.values.extend(values);
        self.lists += 1;
        if self.ends.is_empty() {
            if self.values.len() == self.lists {
                return;
            }
            self.ends.extend((1..).take(before));
        }
        // All values together are far below 2^32.
        let end = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.ends.push(end);
    }

    const fn len(&self) -> usize {
        self.lists
    }

    pub fn iter(&self) -> impl Iterator<Item = &[f64]> + Clone {
        (0..self.len()).map(|place| self.at(place))
    }

    fn at(&self, place: usize) -> &[f64] {
        if self.ends.is_empty() {
            return self.values.get(place..=place).unwrap_or_default();
        }
        let end = |place: usize| self.ends.get(place).copied().unwrap_or_default() as usize;
        let start = place.checked_sub(1).map_or(0, end);
        self.values.get(start..end(place)).unwrap_or_default()
    }
}

/// The judged trials of every task that has any, in the order of the ids: 32 bytes a task with one
/// trial.
#[derive(Debug, Default)]
pub struct TrialsByTask {
    /// The ids of the tasks of one run, or of all runs together.
    ids: TaskIds,
    /// Where the ids of the tasks are in `ids`.
    places: Vec<u32>,
    passed: Vec<u32>,
    scores: Clusters,
    costs: Clusters,
    latencies: Clusters,
}

/// Where the tasks of a suite are in [`TrialsByTask`].
pub struct Places(Vec<u32>);

const MISSING: u32 = u32::MAX;

impl Places {
    fn get(&self, place: usize) -> Option<usize> {
        self.number(place).map(|number| number as usize)
    }

    fn number(&self, place: usize) -> Option<u32> {
        self.0.get(place).copied().filter(|it| *it != MISSING)
    }

    pub fn has(&self, place: usize) -> bool {
        self.get(place).is_some()
    }
}

/// The judged trials of a task.
#[derive(Clone, Copy, Debug)]
pub struct Trials<'a> {
    scores: &'a [f64],
    passed: usize,
    costs: &'a [f64],
    latencies: &'a [f64],
}

impl<'a> Trials<'a> {
    /// Number of trials, and of passed trials.
    pub const fn attempts(self) -> Attempts {
        Attempts {
            trials: self.scores.len(),
            passed: self.passed,
        }
    }

    /// The scores of all trials.
    pub const fn scores(self) -> &'a [f64] {
        self.scores
    }

    /// Whether most of them passed.
    pub const fn passes(self) -> bool {
        2 * self.passed > self.scores.len()
    }

    /// The mean score, 0.0..=1.0.
    pub fn mean_score(self) -> Option<f64> {
        average(self.scores.iter().copied())
    }

    /// Mean cost per trial, in USD.
    pub fn mean_cost(self) -> Option<f64> {
        average(self.costs.iter().copied())
    }

    /// Mean latency per trial, in milliseconds.
    pub fn mean_latency(self) -> Option<f64> {
        average(self.latencies.iter().copied())
    }
}

fn counted(items: impl Iterator) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

impl TrialsByTask {
    /// Trials of which only the scores are known, each task once. A score of 1 passes.
    pub fn of_scores(tasks: &BTreeMap<&TaskId, &[f64]>) -> Self {
        let mut trials = Self::with_room(tasks.keys().copied().collect(), tasks.len(), tasks.len());
        for (place, scores) in (0..).zip(tasks.values()) {
            trials.places.push(place);
            trials
                .passed
                .push(counted(scores.iter().filter(|score| **score >= 1.0)));
            trials.scores.push(scores.iter().copied());
            trials.costs.push(std::iter::empty());
            trials.latencies.push(std::iter::empty());
        }
        trials
    }

    /// Allocates for this many tasks and trials.
    fn with_room(ids: TaskIds, tasks: usize, trials: usize) -> Self {
        Self {
            ids,
            places: Vec::with_capacity(tasks),
            passed: Vec::with_capacity(tasks),
            scores: Clusters::with_room(trials),
            costs: Clusters::with_room(trials),
            latencies: Clusters::with_room(trials),
        }
    }

    /// Adds the rows of the task whose id is at a place.
    fn push(&mut self, place: u32, rows: &[&TaskResultRow]) {
        self.places.push(place);
        self.passed
            .push(counted(rows.iter().filter(|row| row.passed)));
        self.scores.push(rows.iter().map(|row| row.score));
        let costs = rows.iter().filter_map(|row| row.cost_usd());
        self.costs.push(costs.map(|cost| cost.usd()));
        #[expect(
            clippy::cast_precision_loss,
            reason = "milliseconds are far below 2^52"
        )]
        let latencies = rows.iter().filter_map(|row| Some(row.latency_ms()? as f64));
        self.latencies.push(latencies);
    }

    /// Number of tasks.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    fn id(&self, number: usize) -> &str {
        let place = self.places.get(number).copied();
        place.map_or("", |place| self.ids.text(place as usize))
    }

    pub fn get(&self, task: &str) -> Option<Trials<'_>> {
        Some(self.at(self.place(task)?))
    }

    pub fn contains(&self, task: &str) -> bool {
        self.place(task).is_some()
    }

    fn place(&self, task: &str) -> Option<usize> {
        let (mut from, mut to) = (0, self.count());
        while from < to {
            let middle = usize::midpoint(from, to);
            match self.id(middle).cmp(task) {
                Ordering::Less => from = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => to = middle,
            }
        }
        None
    }

    /// Where the tasks of a suite are, which is faster than to find each of them.
    pub fn places_in(&self, suite: &TaskIds) -> Places {
        let mut places = vec![MISSING; suite.len()];
        if suite.shares_distinct(&self.ids) {
            for (number, place) in (0..).zip(&self.places) {
                if let Some(found) = places.get_mut(*place as usize) {
                    *found = number;
                }
            }
            return Places(places);
        }
        let mut next = 0;
        for place in suite.sorted() {
            let id = suite.text(place);
            while next < self.count() && self.id(next) < id {
                next += 1;
            }
            let is_there = next < self.count() && self.id(next) == id;
            if let (true, Some(found)) = (is_there, places.get_mut(place)) {
                *found = u32::try_from(next).unwrap_or(MISSING);
            }
        }
        Places(places)
    }

    /// The trials of the task at a place of the suite.
    pub fn at_place(&self, places: &Places, place: usize) -> Option<Trials<'_>> {
        Some(self.at(places.get(place)?))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Trials<'_>)> + Clone {
        let numbers = 0..self.count();
        numbers.map(|number| (self.id(number), self.at(number)))
    }

    pub fn values(&self) -> impl Iterator<Item = Trials<'_>> + Clone {
        (0..self.count()).map(|place| self.at(place))
    }

    /// The number of trials of each task, and of passed ones.
    pub fn attempts(&self) -> impl Iterator<Item = Attempts> + Clone {
        let passed = self.passed.iter();
        self.scores
            .iter()
            .zip(passed)
            .map(|(scores, passed)| Attempts {
                trials: scores.len(),
                passed: *passed as usize,
            })
    }

    /// The scores of the trials of each task.
    pub fn scores(&self) -> impl Iterator<Item = &[f64]> + Clone {
        self.scores.iter()
    }

    /// The trials without those of some tasks.
    #[must_use]
    pub fn without(self, left_out: impl Fn(&str) -> bool) -> Self {
        if !self.iter().any(|(id, _)| left_out(id)) {
            return self;
        }
        let mut kept = Self::with_room(self.ids.clone(), self.count(), self.scores.values.len());
        for (place, (id, trials)) in self.places.iter().zip(self.iter()) {
            if left_out(id) {
                continue;
            }
            kept.places.push(*place);
            kept.passed
                .push(u32::try_from(trials.passed).unwrap_or(u32::MAX));
            kept.scores.push(trials.scores.iter().copied());
            kept.costs.push(trials.costs.iter().copied());
            kept.latencies.push(trials.latencies.iter().copied());
        }
        kept
    }

    fn at(&self, place: usize) -> Trials<'_> {
        Trials {
            scores: self.scores.at(place),
            passed: self.passed.get(place).copied().unwrap_or_default() as usize,
            costs: self.costs.at(place),
            latencies: self.latencies.at(place),
        }
    }
}

/// The tasks that have trials before and now, in the order of their ids.
pub struct Pairs<'a> {
    pub before: &'a TrialsByTask,
    pub now: &'a TrialsByTask,
    /// The numbers of a task in both.
    numbers: Vec<(u32, u32)>,
}

impl<'a> Pairs<'a> {
    pub fn of(before: &'a TrialsByTask, now: &'a TrialsByTask) -> Self {
        Self {
            before,
            now,
            numbers: numbers_in_both(before, now),
        }
    }

    /// Number of tasks.
    pub const fn count(&self) -> usize {
        self.numbers.len()
    }

    /// The trials of each task: before and now.
    pub fn iter(&self) -> impl Iterator<Item = (Trials<'a>, Trials<'a>)> + Clone {
        let (before, now) = (self.before, self.now);
        let at = move |(was, is): &(u32, u32)| (before.at(*was as usize), now.at(*is as usize));
        self.numbers.iter().map(at)
    }
}

fn numbers_in_both(before: &TrialsByTask, now: &TrialsByTask) -> Vec<(u32, u32)> {
    let mut both = Vec::with_capacity(before.count().min(now.count()));
    if before.ids.shares_distinct(&now.ids) {
        let places = before.places_in(&now.ids);
        for (is, place) in (0..).zip(&now.places) {
            if let Some(was) = places.number(*place as usize) {
                both.push((was, is));
            }
        }
        return both;
    }
    let mut was: u32 = 0;
    let is_left = |was: u32| (was as usize) < before.count();
    for is in (0..).take(now.count()) {
        let id = now.id(is as usize);
        while is_left(was) && before.id(was as usize) < id {
            was += 1;
        }
        if is_left(was) && before.id(was as usize) == id {
            both.push((was, is));
        }
    }
    both
}

/// Collects the trials of every task, in the order of the runs. Unjudged trials are skipped, because
/// they say nothing about the agent.
pub fn by_task(runs: &[&RunResults]) -> TrialsByTask {
    let Some((first, others)) = runs.split_first() else {
        return TrialsByTask::default();
    };
    let sizes = runs.iter().map(|run| run.rows.len());
    let (most, all) = (sizes.clone().max().unwrap_or_default(), sizes.sum());
    let mut rows: Vec<&TaskResultRow> = Vec::with_capacity(runs.len());
    if others
        .iter()
        .chain([first])
        .all(|it| it.ids.shares_distinct(&first.ids))
    {
        let mut tasks = TrialsByTask::with_room(first.ids.clone(), most, all);
        for place in first.ids.sorted() {
            rows.clear();
            rows.extend(runs.iter().filter_map(|run| run.judged_at(place)));
            if let Some(row) = rows.first() {
                tasks.push(row.place, &rows);
            }
        }
        return tasks;
    }
    let mut cursors: Vec<_> = runs.iter().map(|run| run.judged().peekable()).collect();
    let mut ids = TaskIdsBuilder::default();
    let mut tasks = TrialsByTask::with_room(TaskIds::default(), most, all);
    for place in 0.. {
        let heads = cursors.iter_mut().filter_map(|cursor| cursor.peek());
        let Some(id) = heads.map(|(id, _)| *id).min() else {
            break;
        };
        rows.clear();
        for cursor in &mut cursors {
            let of_task = std::iter::from_fn(|| cursor.next_if(|(other, _)| *other == id));
            rows.extend(of_task.map(|(_, row)| row));
        }
        ids.push(id);
        tasks.push(place, &rows);
    }
    tasks.ids = ids.finish();
    tasks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Task = (Option<f64>, bool);

    /// A run of the tasks `task-0`, `task-1`, …: the score if it has judged the task, and whether it has
    /// scored it at all.
    fn run(ids: &TaskIds, tasks: &[Task]) -> RunResults {
        let row = |(place, (score, is_scored)): (u32, &Task)| {
            (*is_scored || score.is_some()).then(|| TaskResultRow {
                place,
                number: place,
                score: score.unwrap_or_default(),
                cost: 7,
                latency: 5,
                reason: 0,
                critical: 0,
                is_judged: score.is_some(),
                passed: *score == Some(1.0),
                is_reused: false,
            })
        };
        let rows = (0..).zip(tasks).filter_map(row).collect();
        RunResults::new(
            ids.clone(),
            rows,
            Vec::new(),
            Vec::new(),
            Default::default(),
        )
    }

    fn ids(tasks: usize) -> TaskIds {
        (0..tasks)
            .map(|n| TaskId::from(format!("task-{n}")))
            .collect()
    }

    fn described(tasks: &TrialsByTask) -> Vec<(String, String)> {
        let of_task = |(id, trials): (&str, Trials<'_>)| (id.to_owned(), format!("{trials:?}"));
        tasks.iter().map(of_task).collect()
    }

    proptest! {
        /// Runs of one suite share their ids in memory, which only makes the statistics faster.
        #[test]
        fn shared_ids_change_nothing(
            runs in (0_usize..30).prop_flat_map(|tasks| {
                let score = proptest::option::of(prop_oneof![Just(0.0), Just(0.5), Just(1.0)]);
                let run = prop::collection::vec((score, any::<bool>()), tasks);
                prop::collection::vec(run, 2..4)
            }),
        ) {
            let all = ids(runs[0].len());
            let shared: Vec<RunResults> = runs.iter().map(|it| run(&all, it)).collect();
            // Reports of other hosts may list the tasks in another order.
            let copied = (0..).zip(&runs).map(|(n, of_run)| match n % 2 {
                0 => run(&ids(of_run.len()), of_run),
                _ => {
                    let reversed: TaskIds = all.iter().rev().collect();
                    run(&reversed, &of_run.iter().rev().copied().collect::<Vec<_>>())
                }
            });
            let copied: Vec<RunResults> = copied.collect();
            let [shared, copied] = [&shared, &copied].map(|runs| {
                let pooled = by_task(&runs.iter().collect::<Vec<_>>());
                let [before, now] = [&runs[0], &runs[1]].map(|it| by_task(&[it]));
                let pairs = Pairs::of(&before, &now);
                let pairs: Vec<String> = pairs.iter().map(|it| format!("{it:?}")).collect();
                let places = before.places_in(&all).0;
                let kept = by_task(&[&runs[0]]).without(|id| id.ends_with('1'));
                (described(&pooled), described(&before), pairs, places, described(&kept))
            });
            prop_assert_eq!(&shared, &copied);
            let in_order = shared.0.is_sorted_by(|(a, _), (b, _)| a < b);
            prop_assert!(in_order);
        }
    }

    #[test]
    fn a_task_that_a_report_has_twice_has_two_trials() {
        let twice = TaskIds::from_iter(["b", "a", "b"]);
        let found = run(
            &twice,
            &[(Some(1.0), true), (Some(0.5), true), (Some(0.0), true)],
        );
        let tasks = by_task(&[&found]);
        let scores: Vec<_> = tasks.iter().map(|(id, it)| (id, it.scores())).collect();
        let expected: [(&str, &[f64]); 2] = [("a", &[0.5]), ("b", &[1.0, 0.0])];
        assert_eq!(scores, expected);
    }
}
