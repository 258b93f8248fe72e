//! Results of the trials of a task.

use std::collections::{BTreeMap, HashMap};

use crate::rules::eval::report::{EvalReport, TaskOutcome, outcome_of};
use crate::rules::run::fold::EvalFacts;
use crate::rules::run::record::EvalSpec;
use touchstone_kit::ids::TaskId;
use touchstone_kit::statistics::{Attempts, mean};
use touchstone_openwop::summary::TaskSummary;

/// The judged trials of every task that has any.
pub type TrialsByTask = BTreeMap<TaskId, Trials>;

#[derive(Clone, Debug, Default)]
pub struct Trials {
    pub(super) scores: Vec<f64>,
    pub(super) passed: usize,
    costs: Vec<f64>,
    latencies: Vec<f64>,
}

impl Trials {
    /// Trials of which only the scores are known. A score of 1 passes.
    pub fn of_scores(scores: Vec<f64>) -> Self {
        let passed = scores.iter().filter(|score| **score >= 1.0).count();
        Self {
            scores,
            passed,
            ..Self::default()
        }
    }

    /// Number of trials, and of passed trials.
    pub fn attempts(&self) -> Attempts {
        Attempts {
            trials: self.scores.len(),
            passed: self.passed,
        }
    }

    /// The scores of all trials.
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// Whether most of them passed.
    pub fn passes(&self) -> bool {
        2 * self.passed > self.scores.len()
    }

    /// The mean score, 0.0..=1.0.
    pub fn mean_score(&self) -> Option<f64> {
        average(&self.scores)
    }

    /// Mean cost per trial, in USD.
    pub fn mean_cost(&self) -> Option<f64> {
        average(&self.costs)
    }

    /// Mean latency per trial, in milliseconds.
    pub fn mean_latency(&self) -> Option<f64> {
        average(&self.latencies)
    }
}

fn average(values: &[f64]) -> Option<f64> {
    mean(values, super::CONFIDENCE).map(|found| found.value)
}

/// Collects the trials of every task. Unjudged trials are skipped, because they say nothing about
/// the agent.
pub fn by_task(runs: &[&EvalReport]) -> TrialsByTask {
    let mut tasks = TrialsByTask::new();
    for run in runs {
        for scored in judged(run) {
            let task = tasks.entry(scored.task_id.clone()).or_default();
            task.scores.push(scored.score);
            task.passed += usize::from(scored.passed);
            task.costs.extend(scored.cost_usd.map(|cost| cost.usd()));
            #[expect(
                clippy::cast_precision_loss,
                reason = "milliseconds are far below 2^52"
            )]
            task.latencies.extend(scored.latency_ms.map(|ms| ms as f64));
        }
    }
    tasks
}

/// The numbers of the judged tasks of a run, in suite order.
fn judged(run: &EvalReport) -> impl Iterator<Item = &TaskSummary> {
    let outcomes: HashMap<&TaskId, TaskOutcome> = run
        .tasks
        .iter()
        .map(|task| (&task.task_id, task.outcome))
        .collect();
    let scored = run.summary.tasks.iter();
    scored.filter(move |task| outcomes.get(&task.task_id) != Some(&TaskOutcome::Unjudged))
}

/// The result of a judged task of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedTask {
    /// 0.0..=1.0.
    pub score: f64,
    pub passed: bool,
}

/// The judged tasks of a run. Statistics add scores in the order of the ids.
pub fn judged_by_id(spec: &EvalSpec, facts: &EvalFacts) -> Vec<JudgedTask> {
    let mut ids: Vec<&TaskId> = spec.tasks.iter().collect();
    ids.sort_unstable();
    let tasks = ids.into_iter().filter_map(|id| facts.scored(id));
    let judged = tasks.filter(|task| outcome_of(task) != TaskOutcome::Unjudged);
    let result = judged.map(|task| JudgedTask {
        score: task.score,
        passed: task.passed,
    });
    result.collect()
}

/// The judged tasks of a report in the order of their ids; `None` if it has one of them twice.
pub(super) fn judged_once(run: &EvalReport) -> Option<Vec<JudgedTask>> {
    let result = |task: &TaskSummary| JudgedTask {
        score: task.score,
        passed: task.passed,
    };
    let judged = judged(run);
    let mut tasks: Vec<_> = judged.map(|it| (&it.task_id, result(it))).collect();
    tasks.sort_unstable_by_key(|(id, _)| *id);
    let is_twice = tasks
        .windows(2)
        .any(|pair| matches!(pair, [(a, _), (b, _)] if a == b));
    (!is_twice).then(|| tasks.into_iter().map(|(_, task)| task).collect())
}
