//! The scenarios of a profile while they are being read: none twice, in the order of the suite.

use std::collections::BTreeSet;

use super::problem::{Problem, Problems};
use super::scenario::{Draft, Scenario};
use super::suite;

/// What has been read of the scenarios.
#[derive(Default)]
pub(super) struct Drafts {
    /// The ids of all of them.
    pub ids: BTreeSet<String>,
    /// In the order they were read, then in that of the suite.
    pub scenarios: Vec<Scenario>,
    /// Those the suite leaves out.
    pub unlisted: Vec<Scenario>,
    /// What keeps documents with an id from being scenarios at all.
    pub headless: Vec<Problem>,
}

impl Drafts {
    /// Takes what a file holds.
    pub fn take(&mut self, some: Vec<Draft>) {
        for draft in some {
            match draft {
                Draft::Scenario(scenario) => {
                    let known = self
                        .scenarios
                        .iter_mut()
                        .find(|known| known.id() == scenario.id());
                    match known {
                        // Nobody can tell which of the two is meant, so neither is run.
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

    /// Brings the scenarios into the order of the suite, and sets aside those it leaves out.
    pub fn order(&mut self, (file, suite): (&str, &suite::Found), found: &mut Vec<Problem>) {
        let mut problems = Problems::of_file(file);
        let mut left = std::mem::take(&mut self.scenarios);
        for (index, (id, place)) in suite.scenarios.iter().enumerate() {
            match left.iter().position(|scenario| scenario.id() == id) {
                Some(place) => self.scenarios.push(left.remove(place)),
                None if self.ids.contains(id) => {}
                None => {
                    let words = format!("`{id}` is no scenario of the profile");
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
