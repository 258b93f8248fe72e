//! Tasks whose outcome changed from the baseline.

use crate::rules::eval::report::{EvalReport, TaskOutcome};
use touchstone_kit::ids::{RunId, TaskId};

/// Changes from the baseline to the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Flips<'a> {
    pub baseline: &'a RunId,
    /// Aggregate score minus the baseline's, -1.0..=1.0.
    pub delta: f64,
    /// Passed in the baseline, failed in the run; in suite order.
    pub broke: Vec<&'a TaskId>,
    /// Failed in the baseline, passed in the run; in suite order.
    pub fixed: Vec<&'a TaskId>,
}

/// Compares task by task. Omits tasks that are unjudged in either run.
pub fn flips<'a>(report: &'a EvalReport, baseline: &'a EvalReport) -> Flips<'a> {
    let turned = |from: TaskOutcome, to: TaskOutcome| {
        report
            .tasks
            .iter()
            .filter(|task| task.outcome == to)
            .filter(|task| {
                baseline
                    .tasks
                    .iter()
                    .any(|before| before.task_id == task.task_id && before.outcome == from)
            })
            .map(|task| &task.task_id)
            .collect()
    };
    Flips {
        baseline: &baseline.run_id,
        delta: report.summary.regression.as_ref().map_or_else(
            || report.summary.aggregate_score - baseline.summary.aggregate_score,
            |regression| regression.score_delta,
        ),
        broke: turned(TaskOutcome::Passed, TaskOutcome::Failed),
        fixed: turned(TaskOutcome::Failed, TaskOutcome::Passed),
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
        let names = |tasks: &[&TaskId]| -> Vec<String> {
            tasks.iter().map(|task| task.to_string()).collect()
        };
        assert_eq!(names(&flips.broke), ["refund-twice"]);
        assert_eq!(names(&flips.fixed), ["clock-in-down"]);
        assert!((flips.delta - -0.25).abs() < 1e-9);
    }
}
