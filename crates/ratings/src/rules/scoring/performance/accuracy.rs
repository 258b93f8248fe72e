//! Accuracy: how few revisions and errors there were. Failed tasks count, so that failing a task
//! can never raise it.

use super::WeightedTasks;
use crate::rules::config::Rules;
use crate::rules::scoring::mean::clamped;
use crate::rules::scoring::measure::{Details, Measure};

/// Revisions weigh more than errors.
pub fn blend(from_revisions: f64, from_errors: f64) -> f64 {
    0.6 * from_revisions + 0.4 * from_errors
}

pub fn measure(tasks: WeightedTasks<'_>, rules: &Rules) -> Measure {
    let (revisions, n) = tasks.mean(|task| Some(task.quality?.revisions));
    let (errors, _) = tasks.mean(|task| Some(task.quality?.errors));
    let (Some(revisions), Some(errors)) = (revisions, errors) else {
        return Measure::unassessed("no task was completed");
    };
    let revision_events: usize = tasks
        .tasks
        .iter()
        .filter_map(|task| Some(task.quality?.revision_events))
        .sum();
    let from_revisions = clamped(1.0 - revisions);
    let from_errors = 1.0 - (errors / rules.error_baseline_per_task).min(1.0);
    Measure::assessed(blend(from_revisions, from_errors), n, n + revision_events).with(
        Details::Accuracy {
            accuracy_from_revisions: from_revisions,
            accuracy_from_errors: from_errors,
        },
    )
}
