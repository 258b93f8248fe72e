//! Performance (AAAF performance): five dimensions over task records.

mod accuracy;
mod completion;
mod consistency;
mod review;
mod speed;

pub use self::accuracy::blend as blend_accuracy;

use crate::rules::config::Rules;
use crate::rules::scoring::dimension::Dimension;
use crate::rules::scoring::mean;
use crate::rules::scoring::measure::Measure;
use crate::rules::scoring::task::TaskRecord;

/// Task records with their weights.
#[derive(Clone, Copy)]
pub struct WeightedTasks<'a> {
    tasks: &'a [&'a TaskRecord],
    by_age: bool,
}

impl<'a> WeightedTasks<'a> {
    /// Recent tasks weigh more.
    pub fn by_age(tasks: &'a [&'a TaskRecord]) -> Self {
        Self {
            tasks,
            by_age: true,
        }
    }

    /// All tasks weigh the same.
    pub fn unweighted(tasks: &'a [&'a TaskRecord]) -> Self {
        Self {
            tasks,
            by_age: false,
        }
    }

    fn weight(&self, task: &TaskRecord) -> f64 {
        if self.by_age { task.weight } else { 1.0 }
    }

    /// The weighted mean over the tasks that have the value, and their number.
    fn mean(&self, value: impl Fn(&TaskRecord) -> Option<f64>) -> (Option<f64>, usize) {
        let found: Vec<(f64, f64)> = self
            .tasks
            .iter()
            .filter_map(|task| Some((value(task)?, self.weight(task))))
            .collect();
        let n = found.len();
        (mean::weighted(found), n)
    }
}

/// All five dimensions, in order.
pub fn measure(tasks: WeightedTasks<'_>, rules: &Rules) -> Vec<(Dimension, Measure)> {
    vec![
        (Dimension::TaskCompletionRate, completion::measure(tasks)),
        (Dimension::Accuracy, accuracy::measure(tasks, rules)),
        (Dimension::Speed, speed::measure(tasks)),
        (
            Dimension::Consistency,
            consistency::measure(tasks.tasks, rules),
        ),
        (Dimension::ReviewCompliance, review::measure(tasks)),
    ]
}
