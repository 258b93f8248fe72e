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
    fn with_room(lists: usize) -> Self {
        Self {
            values: Vec::with_capacity(lists),
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
/// trial, and its id.
#[derive(Debug, Default)]
pub struct TrialsByTask {
    ids: TaskIdsBuilder,
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
        let found = *self.0.get(place)?;
        (found != MISSING).then_some(found as usize)
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
        let mut trials = Self::default();
        for (id, scores) in tasks {
            trials.ids.push(id.as_str());
            trials
                .passed
                .push(counted(scores.iter().filter(|score| **score >= 1.0)));
            trials.scores.push(scores.iter().copied());
            trials.costs.push(std::iter::empty());
            trials.latencies.push(std::iter::empty());
        }
        trials
    }

    /// Has room for tasks whose ids have so many bytes in total, because a list that grows takes up
    /// to twice the memory.
    fn with_room(tasks: usize, bytes: usize) -> Self {
        Self {
            ids: TaskIdsBuilder::with_room(tasks, bytes),
            passed: Vec::with_capacity(tasks),
            scores: Clusters::with_room(tasks),
            costs: Clusters::with_room(tasks),
            latencies: Clusters::with_room(tasks),
        }
    }

    /// Adds the rows of a task.
    fn push(&mut self, id: &str, rows: &[&TaskResultRow]) {
        self.ids.push(id);
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
        self.ids.len()
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
            match self.ids.text(middle).cmp(task) {
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
        let mut next = 0;
        for place in suite.sorted() {
            let id = suite.text(place);
            while next < self.count() && self.ids.text(next) < id {
                next += 1;
            }
            let is_there = next < self.count() && self.ids.text(next) == id;
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
        let places = 0..self.count();
        places.map(|place| (self.ids.text(place), self.at(place)))
    }

    pub fn values(&self) -> impl Iterator<Item = Trials<'_>> + Clone {
        (0..self.count()).map(|place| self.at(place))
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
        let mut kept = Self::default();
        for (id, trials) in self.iter().filter(|(id, _)| !left_out(id)) {
            kept.ids.push(id);
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

/// The trials of the tasks that both have, in the order of the ids: before and now.
pub fn in_both<'a>(
    before: &'a TrialsByTask,
    now: &'a TrialsByTask,
) -> impl Iterator<Item = (Trials<'a>, Trials<'a>)> + Clone {
    now.iter()
        .scan(0, |place, (id, now)| {
            while *place < before.count() && before.ids.text(*place) < id {
                *place += 1;
            }
            let is_there = *place < before.count() && before.ids.text(*place) == id;
            Some(is_there.then(|| (before.at(*place), now)))
        })
        .flatten()
}

/// Collects the trials of every task, in the order of the runs. Unjudged trials are skipped, because
/// they say nothing about the agent.
pub fn by_task(runs: &[&RunResults]) -> TrialsByTask {
    let sizes = runs.iter().map(|run| {
        let ids = run.judged().map(|(id, _)| id.len());
        ids.fold((0, 0), |(tasks, bytes), id| (tasks + 1, bytes + id))
    });
    let (most, bytes) = sizes.max().unwrap_or_default();
    let mut tasks = TrialsByTask::with_room(most, bytes);
    let mut cursors: Vec<_> = runs.iter().map(|run| run.judged().peekable()).collect();
    let mut rows = Vec::with_capacity(runs.len());
    loop {
        let heads = cursors.iter_mut().filter_map(|cursor| cursor.peek());
        let Some(id) = heads.map(|(id, _)| *id).min() else {
            return tasks;
        };
        rows.clear();
        for cursor in &mut cursors {
            let of_task = std::iter::from_fn(|| cursor.next_if(|(other, _)| *other == id));
            rows.extend(of_task.map(|(_, row)| row));
        }
        tasks.push(id, &rows);
    }
}
