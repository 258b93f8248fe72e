//! Speed: the duration of accepted tasks compared with their baselines.

use super::WeightedTasks;
use crate::rules::scoring::measure::Measure;

pub fn measure(tasks: WeightedTasks<'_>) -> Measure {
    let (speed, n) = tasks.mean(|task| task.speed);
    Measure::found(speed, n, n, "no accepted task has a baseline")
}
