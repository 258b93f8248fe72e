//! Learning rate: how much better the last third of similar tasks is than the first third.

use std::collections::BTreeMap;

use crate::rules::config::Config;
use crate::rules::scoring::dimension::Dimension;
use crate::rules::scoring::mean::{self, clamped, count};
use crate::rules::scoring::measure::{Details, Measure};
use crate::rules::scoring::task::TaskRecord;

pub fn measure(tasks: &[&TaskRecord], config: &Config) -> Measure {
    let rules = &config.rules;
    let mut groups: BTreeMap<&str, Vec<Option<f64>>> = BTreeMap::new();
    // Records are in order of completion.
    for task in tasks {
        let counts = task.learning_eligible && task.quality.is_some();
        if let Some(group) = task.group.as_deref().filter(|_| counts) {
            groups
                .entry(group)
                .or_default()
                .push(performance(task, config));
        }
    }
    let improvements: Vec<(f64, usize)> = groups
        .into_values()
        .filter(|tasks| tasks.len() >= rules.learning_min_tasks)
        .filter_map(|tasks| {
            let performances = tasks.into_iter().collect::<Option<Vec<f64>>>()?;
            Some((improvement(&performances)?, performances.len()))
        })
        .collect();
    let sized = improvements.iter().map(|(it, size)| (*it, count(*size)));
    let Some(improvement) = mean::weighted(sized) else {
        return Measure::unassessed("no group has enough completed tasks to measure learning");
    };
    let groups = improvements.len();
    let evidence = improvements.iter().map(|(_, size)| size).sum();
    let score = clamped(improvement / rules.learning_full_improvement);
    Measure::assessed(score, groups, evidence).with(Details::Learning {
        groups_assessed: groups,
        improvement,
    })
}

/// The relative improvement of the last third over the first.
fn improvement(performances: &[f64]) -> Option<f64> {
    let third = performances.len() / 3;
    let first = performances.iter().take(third).copied();
    let last = performances.iter().rev().take(third).copied();
    Some(mean::plain(last)? - mean::plain(first)?)
}

/// The performance of a single task: all dimensions except consistency, which needs several tasks.
fn performance(task: &TaskRecord, config: &Config) -> Option<f64> {
    let parts = [
        (Dimension::TaskCompletionRate, Some(task.credit)),
        (Dimension::Accuracy, task.quality.map(|it| it.accuracy)),
        (Dimension::Speed, task.speed),
        (Dimension::ReviewCompliance, task.review),
    ];
    let weights = &config.performance_weights;
    mean::weighted(
        parts
            .into_iter()
            .filter_map(|(dimension, part)| Some((part?, weights.share(dimension)))),
    )
}
