//! Complexity ceiling and autonomy level: the highest level that the agent passes. Lower levels may
//! be missing.

use std::collections::BTreeMap;

use super::enough;
use crate::rules::config::Rules;
use crate::rules::scoring::mean::{self, meets};
use crate::rules::scoring::measure::{Details, Measure};
use crate::rules::scoring::task::TaskRecord;

pub fn complexity(tasks: &[&TaskRecord], rules: &Rules) -> Measure {
    highest_passed(
        tasks,
        rules,
        |task| task.level,
        5,
        "no task has a complexity level",
    )
}

pub fn autonomy(tasks: &[&TaskRecord], rules: &Rules) -> Measure {
    highest_passed(
        tasks,
        rules,
        |task| task.autonomy,
        3,
        "no task has an autonomy level",
    )
}

fn highest_passed(
    tasks: &[&TaskRecord],
    rules: &Rules,
    step: impl Fn(&TaskRecord) -> Option<u8>,
    top: u8,
    none: &'static str,
) -> Measure {
    let mut steps: BTreeMap<u8, Vec<&TaskRecord>> = BTreeMap::new();
    for task in tasks {
        if let Some(step) = step(task) {
            steps.entry(step).or_default().push(task);
        }
    }
    let passes = |tasks: &[&TaskRecord]| {
        let credit = mean::plain(tasks.iter().map(|task| task.credit));
        enough(tasks, rules) && credit.is_some_and(|it| meets(it, rules.level_pass_threshold))
    };
    let mut from_above = steps.iter().rev();
    let highest = from_above
        .find(|(_, tasks)| passes(tasks))
        .map(|(step, _)| *step);
    let evidence = steps.values().map(Vec::len).sum();
    let height = || f64::from(highest.unwrap_or_default()) / f64::from(top);
    Measure::found(
        (!steps.is_empty()).then(height),
        steps.len(),
        evidence,
        none,
    )
    .with(Details::Ladder {
        highest_level: highest,
    })
}
