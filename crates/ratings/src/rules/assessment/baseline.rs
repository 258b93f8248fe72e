//! Proposes baselines (AAAF calibration): the median time of the first accepted tasks of each
//! complexity level.

use std::collections::BTreeMap;

use serde::Serialize;

/// Number of tasks that a proposal needs and uses.
pub const TASKS: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AcceptedTask {
    /// Complexity level, 1..=5.
    pub level: u8,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Baselines for a person to confirm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proposal {
    /// Number of tasks used.
    pub tasks: usize,
    /// Number of tasks needed.
    pub required: usize,
    /// Number of tasks by complexity level.
    pub samples: BTreeMap<String, usize>,
    /// Seconds by complexity level, as in the configuration.
    pub baseline_seconds_by_complexity: BTreeMap<String, f64>,
}

/// The proposal from the first [`TASKS`] tasks, in order of completion. Durations of zero are
/// ignored.
pub fn propose(tasks: &[AcceptedTask]) -> Proposal {
    let mut levels: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let tasks = tasks.get(..TASKS).unwrap_or(tasks);
    for task in tasks {
        let seconds = levels.entry(task.level.to_string()).or_default();
        seconds.push(task.seconds);
    }
    let samples = levels.iter().map(|(level, all)| (level.clone(), all.len()));
    let samples = samples.collect();
    let medians = levels
        .into_iter()
        .filter_map(|(level, seconds)| Some((level, median(seconds).filter(|it| *it > 0.0)?)));
    Proposal {
        tasks: tasks.len(),
        required: TASKS,
        samples,
        baseline_seconds_by_complexity: medians.collect(),
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    match values.len() % 2 {
        1 => Some(upper),
        _ => Some(f64::midpoint(*values.get(values.len() / 2 - 1)?, upper)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_each_level_is_proposed_from_the_first_tasks() {
        let task = |level: u8, seconds: f64| AcceptedTask { level, seconds };
        let mut tasks = vec![task(1, 10.0), task(1, 30.0), task(2, 5.0), task(1, 1000.0)];
        tasks.push(task(2, 7.0));
        let found = propose(&tasks);
        assert_eq!((found.tasks, found.required), (5, 50));
        assert_eq!(
            found.baseline_seconds_by_complexity,
            BTreeMap::from([("1".to_owned(), 30.0), ("2".to_owned(), 6.0)])
        );
        // Tasks after the first fifty change nothing.
        let mut tasks = vec![task(3, 60.0); TASKS];
        let first = propose(&tasks);
        tasks.extend(vec![task(3, 600.0); 200]);
        assert_eq!(propose(&tasks), first);
        assert_eq!(propose(&[]).baseline_seconds_by_complexity, BTreeMap::new());
    }
}
