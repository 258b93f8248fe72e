//! A problem in a file of a profile: its position, the field, and the remedy.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::node::SourcePosition;

/// Maximum number of problems reported per file.
const MAX_REPORTED: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Path below the profile's folder.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// The field, such as `assertions.must_not[0].action`; empty for the whole document.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// The problem and its remedy.
    pub message: String,
    /// The scenario that the problem makes malformed, if it concerns one whose id is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.field.is_empty() {
            write!(formatter, "{}: ", self.field)?;
        }
        formatter.write_str(&self.message)
    }
}

/// Collects the problems of one file, or of one scenario in it.
#[derive(Clone, Debug)]
pub(super) struct Problems {
    file: String,
    scenario: Option<String>,
    found: Vec<Problem>,
    /// The number of problems beyond the limit.
    unreported: usize,
}

impl Problems {
    pub fn of_file(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            scenario: None,
            found: Vec::new(),
            unreported: 0,
        }
    }

    pub fn of_scenario(file: &str, id: &str) -> Self {
        Self {
            scenario: Some(id.to_owned()),
            ..Self::of_file(file)
        }
    }

    pub fn note(
        &mut self,
        place: SourcePosition,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        if self.found.len() < MAX_REPORTED {
            self.found.push(Problem {
                file: self.file.clone(),
                line: place.line,
                column: place.column,
                field: field.into(),
                message: message.into(),
                scenario: self.scenario.clone(),
            });
        } else {
            self.unreported += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The reported problems, in file order.
    pub fn into_vec(self) -> Vec<Problem> {
        first_problems(self.found, self.unreported)
    }
}

/// The first problems in file order. If there are more, the last entry gives their number.
pub(super) fn first_problems(mut found: Vec<Problem>, unreported: usize) -> Vec<Problem> {
    found.sort_by_key(|problem| (problem.line, problem.column));
    let unreported = unreported + found.len().saturating_sub(MAX_REPORTED);
    found.truncate(MAX_REPORTED);
    if let Some(last) = found.last().filter(|_| unreported > 0) {
        // "At least", because an omitted entry may itself stand for several problems.
        let message = format!("at least {unreported} more problems; correct these first");
        found.push(Problem {
            field: String::new(),
            message,
            ..last.clone()
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(count: u64) -> Vec<Problem> {
        let mut problems = Problems::of_file("profile.yaml");
        for line in 1..=count {
            problems.note(SourcePosition { line, column: 1 }, "id", "is wrong");
        }
        problems.into_vec()
    }

    #[test]
    fn problems_beyond_the_limit_are_counted() {
        let all = noted(100);
        assert!(all.iter().all(|it| it.message == "is wrong"));
        assert_eq!(all.len(), 100);

        let many = noted(107);
        assert_eq!(many.len(), 101);
        assert_eq!(
            many[100].to_string(),
            "profile.yaml:100:1: at least 7 more problems; correct these first"
        );
    }

    #[test]
    fn problems_of_several_scenarios_are_sorted_by_line() {
        let two = [noted(60), noted(60)].concat();
        let reported = first_problems(two, 0);
        assert!(reported[..100].is_sorted_by_key(|it| it.line));
        assert!(reported[100].message.starts_with("at least 20 more"));
    }
}
