//! The part of a conversation that an assertion looks at.

use serde::{Deserialize, Serialize};

use super::Assertion;

/// The values of `on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The last answer.
    Answer,
    /// All answers of the agent as one text.
    Answers,
    /// What user and agent said as one text.
    Transcript,
}

/// The text that an assertion checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Part(Part),
    /// The answer and the tool calls of one turn: from 1, or from -1 at the end.
    Turn(i32),
}

impl Assertion {
    /// What it looks at; `None` to look at what the assertion around it looks at, or at the answer.
    pub fn scope(&self) -> Option<Scope> {
        match (self.turn, self.on) {
            (Some(number), _) => Some(Scope::Turn(number)),
            (None, on) => on.map(Scope::Part),
        }
    }
}
