//! The scenarios of a profile while its files are read: unique by id, and finally in suite order.

use std::collections::BTreeSet;

use super::problem::{Problem, Problems};
use super::scenario::{Draft, Scenario};
use super::suite;

/// The scenarios read so far.
#[derive(Default)]
pub(super) struct ParsedScenarios {
    /// The ids of all scenarios.
    pub ids: BTreeSet<String>,
    /// In the order in which they were read; later in suite order.
    pub scenarios: Vec<Scenario>,
    /// The scenarios that the suite omits.
    pub unlisted: Vec<Scenario>,
    /// The problems of documents that have an id but cannot be loaded as scenarios.
    pub headless: Vec<Problem>,
}

impl ParsedScenarios {
    /// Adds the documents of a file.
    pub fn take(&mut self, some: Vec<Draft>) {
        for draft in some {
            match draft {
                Draft::Scenario(scenario) => {
                    let known = self
                        .scenarios
                        .iter_mut()
                        .find(|known| known.id() == scenario.id());
                    match known {
                        // It is unknown which of the two is meant, so neither is run.
                        Some(known) => known.problems.push(twice(&scenario)),
                        None => {
                            self.ids.insert(scenario.id().to_owned());
                            self.scenarios.push(*scenario);
                        }
                    }
                }
                Draft::Headless(problems) => {
                    let ids = problems.iter().filter_map(|it| it.scenario.clone());
                    self.ids.extend(ids);
                    self.headless.extend(problems);
                }
            }
        }
    }

    /// Sorts the scenarios into suite order, and separates those that the suite omits.
    pub fn order(&mut self, (file, suite): (&str, &suite::ParsedSuite), found: &mut Vec<Problem>) {
        let mut problems = Problems::of_file(file);
        let mut left = std::mem::take(&mut self.scenarios);
        for (index, (id, place)) in suite.scenarios.iter().enumerate() {
            match left.iter().position(|scenario| scenario.id() == id) {
                Some(place) => self.scenarios.push(left.remove(place)),
                None if self.ids.contains(id) => {}
                None => {
                    let words = format!("`{id}` is not a scenario of the profile");
                    problems.note(*place, format!("scenarios[{index}]"), words);
                }
            }
        }
        self.unlisted = left;
        found.extend(problems.into_vec());
    }
}

fn twice(scenario: &Scenario) -> Problem {
    Problem {
        file: scenario.file.clone(),
        line: scenario.place.line,
        column: scenario.place.column,
        field: "id".to_owned(),
        message: "is used by an earlier scenario; rename one".to_owned(),
        scenario: Some(scenario.id().to_owned()),
    }
}
