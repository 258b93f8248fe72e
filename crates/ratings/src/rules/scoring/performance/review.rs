//! Review compliance: the share of review items that passed.

use super::Weighed;
use crate::rules::scoring::measure::Measure;

pub fn measure(tasks: Weighed<'_>) -> Measure {
    let (compliance, n) = tasks.mean(|task| task.review);
    Measure::found(compliance, n, n, "no task has a review checklist")
}
