//! Notes for readers of the numbers.

use super::conclusion::RunFacts;
use super::document::{ExcludedTask, ExclusionReason};
use crate::rules::eval::scoring::tasks;
use crate::rules::eval::statistics::Evidence;

const SAFETY_DIFFERS: &str = "safety findings count differently in the two runs, or come from \
    different judges: the same action may fail a task in only one of them";
const IGNORE_DIFFERS: &str = "the ignore lists differ: the same answer may be right in one run and \
    wrong in the other";

/// Notes on settings that decide what counts, on excluded tasks and on missing trials.
pub fn notes(
    baseline: &RunFacts<'_>,
    candidate: &RunFacts<'_>,
    left_out: &[ExcludedTask],
) -> Vec<String> {
    let mut notes = Vec::new();
    if baseline.is_adversarial != candidate.is_adversarial
        || baseline.safety_judge != candidate.safety_judge
    {
        notes.push(SAFETY_DIFFERS.to_owned());
    }
    if baseline.ignore != candidate.ignore {
        notes.push(IGNORE_DIFFERS.to_owned());
    }
    notes.extend(result_notes(
        [baseline.evidence, candidate.evidence],
        left_out,
    ));
    notes
}

/// Notes on excluded tasks and missing trials.
fn result_notes([baseline, candidate]: [&Evidence; 2], left_out: &[ExcludedTask]) -> Vec<String> {
    let mut notes = Vec::new();
    let count = |why| left_out.iter().filter(|task| task.reason == why).count();
    if count(ExclusionReason::JudgeChanged) > 0 {
        notes.push(format!(
            "the judges, or what else decides assertions, differ: {} excluded",
            tasks(count(ExclusionReason::JudgeChanged))
        ));
    }
    if count(ExclusionReason::UserChanged) > 0 {
        notes.push(format!(
            "the simulated users differ: {} with a simulated user excluded",
            tasks(count(ExclusionReason::UserChanged))
        ));
    }
    for (name, evidence) in [("baseline", baseline), ("candidate", candidate)] {
        let missing = evidence.missing;
        if missing > 0 {
            let planned = evidence.trials().len() + missing;
            notes.push(format!(
                "{} of {planned} trials of the {name} are available",
                planned - missing
            ));
        }
    }
    if count(ExclusionReason::Unjudged) > 0 {
        notes.push(format!(
            "{} not judged in both runs; an unjudged task may be one that got worse",
            tasks(count(ExclusionReason::Unjudged))
        ));
    }
    notes
}
