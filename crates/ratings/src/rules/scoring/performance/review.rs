//! Review compliance: the share of review items that passed.

use super::WeightedTasks;
use crate::rules::scoring::measure::Measure;

pub fn measure(tasks: WeightedTasks<'_>) -> Measure {
    let (compliance, n) = tasks.mean(|task| task.review);
    Measure::found(compliance, n, n, "no task has a review checklist")
}
