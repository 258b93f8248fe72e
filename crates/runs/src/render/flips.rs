//! Tasks whose outcome changed from the baseline.

use std::collections::HashMap;

use crate::rules::eval::report::{AgentProvenance, EvalReport, RunTotals, TaskOutcome, TaskReport};
use touchstone_kit::ids::{RunId, TaskId};

/// Changes from the baseline to the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Flips {
    pub baseline: RunId,
    /// The agent of the baseline.
    pub agent: AgentProvenance,
    /// Aggregate score minus the baseline's, -1.0..=1.0.
    pub delta: f64,
    /// Passed in the baseline, failed in the run; in suite order.
    pub broke: Vec<TaskId>,
    /// Failed in the baseline, passed in the run; in suite order.
    pub fixed: Vec<TaskId>,
    /// Number of tasks that only the run has.
    pub added: usize,
    /// Number of tasks that only the baseline has.
    pub removed: usize,
}

/// Compares task by task. Omits tasks that are unjudged in either run.
pub fn flips(report: &EvalReport, baseline: &EvalReport) -> Flips {
    let mut pairs = OutcomePairs::default();
    baseline
        .tasks
        .iter()
        .for_each(|task| pairs.add_before(task));
    report.tasks.iter().for_each(|task| pairs.add_now(task));
    pairs.flips(&report.totals(), &baseline.totals())
}

/// Finds the outcomes of each task in both runs. It keeps a task only until the other run has it, so
/// it stays small if pages of both runs are read in turn, in the same order.
#[derive(Debug, Default)]
pub struct OutcomePairs {
    /// By place in the run.
    now: HashMap<TaskId, (usize, TaskOutcome)>,
    before: HashMap<TaskId, TaskOutcome>,
    /// Number of tasks of the run.
    tasks: usize,
    broke: Vec<(usize, TaskId)>,
    fixed: Vec<(usize, TaskId)>,
}

impl OutcomePairs {
    /// Adds the next task of the run.
    pub fn add_now(&mut self, task: &TaskReport) {
        let place = self.tasks;
        self.tasks += 1;
        match self.before.remove(&task.task_id) {
            Some(before) => self.pair(&task.task_id, place, before, task.outcome),
            None => {
                let now = (place, task.outcome);
                self.now.insert(task.task_id.clone(), now);
            }
        }
    }

    /// Adds the next task of the baseline.
    pub fn add_before(&mut self, task: &TaskReport) {
        match self.now.remove(&task.task_id) {
            Some((place, now)) => self.pair(&task.task_id, place, task.outcome, now),
            None => {
                self.before.insert(task.task_id.clone(), task.outcome);
            }
        }
    }

    fn pair(&mut self, task: &TaskId, place: usize, before: TaskOutcome, now: TaskOutcome) {
        match (before, now) {
            (TaskOutcome::Passed, TaskOutcome::Failed) => self.broke.push((place, task.clone())),
            (TaskOutcome::Failed, TaskOutcome::Passed) => self.fixed.push((place, task.clone())),
            _ => {}
        }
    }

    pub fn flips(self, report: &RunTotals, baseline: &RunTotals) -> Flips {
        let in_order = |mut found: Vec<(usize, TaskId)>| {
            found.sort_unstable_by_key(|(place, _)| *place);
            found.into_iter().map(|(_, task)| task).collect()
        };
        Flips {
            baseline: baseline.run_id.clone(),
            agent: baseline.agent.clone(),
            delta: report.summary.regression.as_ref().map_or_else(
                || report.summary.aggregate_score - baseline.summary.aggregate_score,
                |regression| regression.score_delta,
            ),
            broke: in_order(self.broke),
            fixed: in_order(self.fixed),
            added: self.now.len(),
            removed: self.before.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn only_tasks_judged_on_both_sides_flip() {
        let (before, after) = (sample::baseline(), sample::mixed());
        let flips = flips(&after, &before);
        let names = |tasks: &[TaskId]| -> Vec<String> {
            tasks.iter().map(|task| task.to_string()).collect()
        };
        assert_eq!(names(&flips.broke), ["refund-twice"]);
        assert_eq!(names(&flips.fixed), ["clock-in-down"]);
        assert!((flips.delta - -0.25).abs() < 1e-9);
    }

    #[test]
    fn flips_are_in_suite_order_whatever_the_order_of_reading() {
        let (before, after) = (sample::large(), sample::large());
        let mut pairs = OutcomePairs::default();
        for (n, (then, now)) in before.tasks.iter().rev().zip(&after.tasks).enumerate() {
            let outcome = match n % 3 {
                0 => TaskOutcome::Failed,
                _ => TaskOutcome::Passed,
            };
            pairs.add_before(&TaskReport {
                outcome: TaskOutcome::Passed,
                ..then.clone()
            });
            pairs.add_now(&TaskReport {
                outcome,
                ..now.clone()
            });
        }
        assert!(pairs.now.is_empty() && pairs.before.is_empty());
        let found = pairs.flips(&after.totals(), &before.totals());
        let expected: Vec<TaskId> = (0..100)
            .step_by(3)
            .map(|n| TaskId::from(format!("task-{n:03}")))
            .collect();
        assert_eq!(found.broke, expected);
    }
}
