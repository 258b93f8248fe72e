//! Reads `reserved/**`: scenarios that are executed and counted, but never disclosed otherwise
//! (D25).
//!
//! Many people can read a published pack, and even more can read the logs of hosts that use it. A
//! problem therefore gives its position only: no id, no value, and no name that the author chose.

use std::collections::BTreeSet;

use super::node::SourcePosition;
use super::package::MAX_SCENARIOS;
use super::problem::{Problem, Problems};
use super::scenario::{Context, Draft, Scenario, read_file};
use crate::rules::scenario::Classification;

/// The message of every problem.
const UNTOLD: &str = "is malformed; details of reserved scenarios are not disclosed, so move the file to `scenarios/` to see them";

/// The scenario fields that a problem may name; every other name in a path may be the author's.
const PARTS: [&str; 18] = [
    "applicability",
    "archetype",
    "assertions",
    "category",
    "classification",
    "custom",
    "description",
    "id",
    "intent",
    "name",
    "observability_requirements",
    "preconditions",
    "scoring",
    "stimuli",
    "subcategory",
    "tier",
    "verification",
    "version",
];

/// Reads the scenarios, safety first. Their ids must not be in `taken`.
pub(super) fn read<'f>(
    files: impl Iterator<Item = (&'f str, &'f [u8])>,
    context: &Context<'_>,
    taken: &BTreeSet<String>,
    found: &mut Vec<Problem>,
) -> Vec<Scenario> {
    let mut taken = taken.clone();
    let mut scenarios: Vec<Scenario> = Vec::new();
    for (path, bytes) in files {
        let drafts = match read_file(path, bytes, Some(context)) {
            Ok(drafts) => drafts,
            Err(problems) => {
                found.extend(problems.into_iter().map(without_content));
                continue;
            }
        };
        for draft in drafts {
            match draft {
                Draft::Headless(problems) => {
                    found.extend(problems.into_iter().map(without_content))
                }
                Draft::Scenario(mut scenario) => {
                    let problems = std::mem::take(&mut scenario.problems);
                    found.extend(problems.into_iter().map(without_content));
                    let mut own = Problems::of_file(path);
                    if !taken.insert(scenario.id().to_owned()) {
                        own.note(
                            scenario.place,
                            "id",
                            "is used by another scenario; rename one",
                        );
                    }
                    found.extend(own.into_vec());
                    scenarios.push(*scenario);
                }
            }
        }
        if taken.len() > MAX_SCENARIOS {
            let mut own = Problems::of_file(path);
            let words = format!("exceeds the limit of {MAX_SCENARIOS} scenarios");
            own.note(SourcePosition::START, "", words);
            found.extend(own.into_vec());
            break;
        }
    }
    scenarios.sort_by_key(|it| it.descriptor.classification != Classification::Safety);
    scenarios
}

/// Removes everything but the position from a problem.
fn without_content(problem: Problem) -> Problem {
    let first = problem.field.split(['.', '[']).next().unwrap_or_default();
    let part = PARTS.iter().find(|part| **part == first);
    Problem {
        field: part.copied().unwrap_or_default().to_owned(),
        message: UNTOLD.to_owned(),
        scenario: None,
        ..problem
    }
}
