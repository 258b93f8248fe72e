//! Consistency: how little tasks of the same kind vary in accuracy and completion.

use std::collections::BTreeMap;

use crate::rules::config::Rules;
use crate::rules::scoring::mean::{self, count};
use crate::rules::scoring::measure::{Details, Measure};
use crate::rules::scoring::task::TaskRecord;

/// A mean below this is a zero that binary arithmetic missed.
const NOTHING: f64 = 1e-12;

pub fn measure(tasks: &[&TaskRecord], rules: &Rules) -> Measure {
    let mut groups: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for task in tasks {
        if let (Some(group), Some(quality)) = (&task.group, task.quality) {
            let task_values = groups.entry(group.as_str()).or_default();
            task_values.push((quality.accuracy, task.credit));
        }
    }
    groups.retain(|_, tasks| tasks.len() >= rules.consistency_min_group_size);
    let sample: usize = groups.values().map(Vec::len).sum();
    let by_size = |part: fn(&(f64, f64)) -> f64| {
        mean::weighted(groups.values().map(|tasks| {
            let values: Vec<f64> = tasks.iter().map(part).collect();
            (variation(&values), count(tasks.len()))
        }))
    };
    let (Some(cv_accuracy), Some(cv_completion)) = (by_size(|it| it.0), by_size(|it| it.1)) else {
        return Measure::unassessed("no group has enough completed tasks");
    };
    let score = 1.0 - (0.6 * cv_accuracy + 0.4 * cv_completion).min(1.0);
    Measure::assessed(score, sample, sample).with(Details::Consistency {
        cv_accuracy,
        cv_completion,
        groups: groups.len(),
    })
}

/// The coefficient of variation of a population. If the mean is 0, it is 1: failing consistently
/// earns nothing.
fn variation(values: &[f64]) -> f64 {
    let mean = mean::plain(values.iter().copied()).unwrap_or_default();
    if mean < NOTHING {
        return 1.0;
    }
    let squares = values.iter().map(|value| (value - mean).powi(2));
    let variance = mean::plain(squares).unwrap_or_default();
    variance.sqrt() / mean
}
