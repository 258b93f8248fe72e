//! What is wrong with a file of a profile: where, which field, and what to do.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::node::Place;

/// Problems that are kept of one file; more would help nobody.
const MAX_KEPT: usize = 100;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Path below the profile's folder.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// The field, `assertions.must_not[0].action`; empty for the whole document.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// What is wrong with it, and the remedy.
    pub message: String,
    /// The scenario it makes malformed, if it concerns one that can be named.
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

/// Takes what is wrong with one file, or with one scenario of it.
#[derive(Clone, Debug)]
pub(super) struct Problems {
    file: String,
    scenario: Option<String>,
    found: Vec<Problem>,
}

impl Problems {
    /// Of a file.
    pub fn of_file(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            scenario: None,
            found: Vec::new(),
        }
    }

    /// Of a scenario in a file.
    pub fn of_scenario(file: &str, id: &str) -> Self {
        Self {
            scenario: Some(id.to_owned()),
            ..Self::of_file(file)
        }
    }

    /// Notes one.
    pub fn note(&mut self, place: Place, field: impl Into<String>, message: impl Into<String>) {
        if self.found.len() < MAX_KEPT {
            self.found.push(Problem {
                file: self.file.clone(),
                line: place.line,
                column: place.column,
                field: field.into(),
                message: message.into(),
                scenario: self.scenario.clone(),
            });
        }
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All of them, in the file's order.
    pub fn into_vec(mut self) -> Vec<Problem> {
        self.found
            .sort_by_key(|problem| (problem.line, problem.column));
        self.found
    }
}
