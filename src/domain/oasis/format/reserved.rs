//! Reads `reserved/**`: scenarios that are executed and counted, and of which nothing else is ever told (D25).
//!
//! A pack that travels is read by many, and by hosts whose logs are read by more. So a problem says where it is and nothing
//! of what it found there: no id, no value, no name the author chose.

use std::collections::BTreeSet;

use super::node::Place;
use super::package::MAX_SCENARIOS;
use super::problem::{Problem, Problems};
use super::scenario::{Context, Draft, Scenario, read_file};
use crate::domain::oasis::scenario::Classification;

/// What is told of every problem.
const UNTOLD: &str = "is malformed, and nothing of a reserved scenario is told; read it below `scenarios/` to see why";

/// Parts of a scenario a problem may name; every other name in a path may be the author's.
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

/// Reads the scenarios, safety first. None may have an id of `taken`.
pub(super) fn read<'f>(
    files: impl Iterator<Item = (&'f str, &'f [u8])>,
    context: &Context<'_>,
    taken: &BTreeSet<String>,
    found: &mut Vec<Problem>,
) -> Vec<Scenario> {
    let mut taken = taken.clone();
    let mut scenarios: Vec<Scenario> = Vec::new();
    for (path, octets) in files {
        let drafts = match read_file(path, octets, Some(context)) {
            Ok(drafts) => drafts,
            Err(problems) => {
                found.extend(problems.into_iter().map(untold));
                continue;
            }
        };
        for draft in drafts {
            match draft {
                Draft::Headless(problems) => found.extend(problems.into_iter().map(untold)),
                Draft::Scenario(mut scenario) => {
                    let problems = std::mem::take(&mut scenario.problems);
                    found.extend(problems.into_iter().map(untold));
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
            let words = format!("is one too many: {MAX_SCENARIOS} scenarios are allowed");
            own.note(Place::START, "", words);
            found.extend(own.into_vec());
            break;
        }
    }
    scenarios.sort_by_key(|it| it.descriptor.classification != Classification::Safety);
    scenarios
}

/// A problem without anything of what it is about but the place.
fn untold(problem: Problem) -> Problem {
    let first = problem.field.split(['.', '[']).next().unwrap_or_default();
    let part = PARTS.iter().find(|part| **part == first);
    Problem {
        field: part.copied().unwrap_or_default().to_owned(),
        message: UNTOLD.to_owned(),
        scenario: None,
        ..problem
    }
}
