//! Results of the trials of a task.

use std::collections::BTreeMap;

use super::results::{RunResults, TaskResultRow};
use touchstone_kit::ids::TaskId;
use touchstone_kit::statistics::{Attempts, average};

/// Lists of numbers, one list a task.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    values: Vec<f64>,
    /// The end of each list.
    ends: Vec<usize>,
}

impl Clusters {
    fn with_room(lists: usize) -> Self {
        Self {
            values: Vec::with_capacity(lists),
            ends: Vec::with_capacity(lists),
        }
    }

    pub fn push(&mut self, values: impl Iterator<Item = f64>) {
        self.values.extend(values);
        self.ends.push(self.values.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &[f64]> + Clone {
        (0..self.len()).map(|place| self.at(place))
    }

    fn at(&self, place: usize) -> &[f64] {
        let start = place.checked_sub(1).and_then(|it| self.ends.get(it));
        let range =
            start.copied().unwrap_or_default()..self.ends.get(place).copied().unwrap_or_default();
        self.values.get(range).unwrap_or_default()
    }
}

/// The judged trials of every task that has any, in the order of the ids: 72 bytes a task with one
/// trial.
#[derive(Clone, Debug, Default)]
pub struct TrialsByTask {
    ids: Vec<TaskId>,
    passed: Vec<usize>,
    scores: Clusters,
    costs: Clusters,
    latencies: Clusters,
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

impl TrialsByTask {
    /// Trials of which only the scores are known, each task once. A score of 1 passes.
    pub fn of_scores(tasks: &BTreeMap<&TaskId, &[f64]>) -> Self {
        let mut trials = Self::default();
        for (id, scores) in tasks {
            trials.ids.push((*id).clone());
            trials
                .passed
                .push(scores.iter().filter(|score| **score >= 1.0).count());
            trials.scores.push(scores.iter().copied());
            trials.costs.push(std::iter::empty());
            trials.latencies.push(std::iter::empty());
        }
        trials
    }

    /// Has room for the tasks, because a list that grows takes up to twice the memory.
    fn with_room(tasks: usize) -> Self {
        Self {
            ids: Vec::with_capacity(tasks),
            passed: Vec::with_capacity(tasks),
            scores: Clusters::with_room(tasks),
            costs: Clusters::with_room(tasks),
            latencies: Clusters::with_room(tasks),
        }
    }

    /// Adds the rows of a task.
    fn push(&mut self, id: &TaskId, rows: &[&TaskResultRow]) {
        self.ids.push(id.clone());
        self.passed
            .push(rows.iter().filter(|row| row.passed).count());
        self.scores.push(rows.iter().map(|row| row.score));
        let costs = rows.iter().filter_map(|row| row.cost_usd);
        self.costs.push(costs.map(|cost| cost.usd()));
        #[expect(
            clippy::cast_precision_loss,
            reason = "milliseconds are far below 2^52"
        )]
        let latencies = rows.iter().filter_map(|row| Some(row.latency_ms? as f64));
        self.latencies.push(latencies);
    }

    /// Number of tasks.
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    pub fn get(&self, task: &TaskId) -> Option<Trials<'_>> {
        let place = self.ids.binary_search(task).ok()?;
        Some(self.at(place))
    }

    pub fn contains(&self, task: &TaskId) -> bool {
        self.ids.binary_search(task).is_ok()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&TaskId, Trials<'_>)> + Clone {
        let ids = self.ids.iter().enumerate();
        ids.map(|(place, id)| (id, self.at(place)))
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
    pub fn without(self, left_out: impl Fn(&TaskId) -> bool) -> Self {
        if !self.ids.iter().any(&left_out) {
            return self;
        }
        let mut kept = Self::default();
        for (id, trials) in self.iter().filter(|(id, _)| !left_out(id)) {
            kept.ids.push(id.clone());
            kept.passed.push(trials.passed);
            kept.scores.push(trials.scores.iter().copied());
            kept.costs.push(trials.costs.iter().copied());
            kept.latencies.push(trials.latencies.iter().copied());
        }
        kept
    }

    fn at(&self, place: usize) -> Trials<'_> {
        Trials {
            scores: self.scores.at(place),
            passed: self.passed.get(place).copied().unwrap_or_default(),
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
            while before.ids.get(*place).is_some_and(|it| it < id) {
                *place += 1;
            }
            let found = before.ids.get(*place).filter(|it| *it == id);
            Some(found.map(|_| (before.at(*place), now)))
        })
        .flatten()
}

/// Collects the trials of every task, in the order of the runs. Unjudged trials are skipped, because
/// they say nothing about the agent.
pub fn by_task(runs: &[&RunResults]) -> TrialsByTask {
    let most = runs.iter().map(|run| run.judged().count()).max();
    let mut tasks = TrialsByTask::with_room(most.unwrap_or_default());
    let mut cursors: Vec<_> = runs.iter().map(|run| run.judged().peekable()).collect();
    let mut rows = Vec::with_capacity(runs.len());
    loop {
        let heads = cursors.iter_mut().filter_map(|cursor| cursor.peek());
        let Some(id) = heads.map(|row| &row.task_id).min() else {
            return tasks;
        };
        rows.clear();
        for cursor in &mut cursors {
            rows.extend(std::iter::from_fn(|| {
                cursor.next_if(|row| row.task_id == *id)
            }));
        }
        tasks.push(id, &rows);
    }
}
