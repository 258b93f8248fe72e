//! Task completion rate: the share of the requested work that is done.

use super::WeightedTasks;
use crate::rules::scoring::measure::Measure;

pub fn measure(tasks: WeightedTasks<'_>) -> Measure {
    let (rate, n) = tasks.mean(|task| Some(task.credit));
    Measure::found(rate, n, n, "no task counts")
}
