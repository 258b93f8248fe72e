//! The values events are made of, each with its range.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How hard a task is.
pub type ComplexityLevel = Level<1, 5>;
/// How much a person has a say: 0 approves every action, 1 at checkpoints, 2 on exceptions only, 3 none.
pub type AutonomyLevel = Level<0, 3>;

/// A whole number of a few. Producers that know no integers write `3.0`; that is a 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "u8")]
pub struct Level<const LOW: u8, const HIGH: u8>(u8);

impl<const LOW: u8, const HIGH: u8> Level<LOW, HIGH> {
    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl<const LOW: u8, const HIGH: u8> TryFrom<f64> for Level<LOW, HIGH> {
    type Error = String;

    fn try_from(number: f64) -> Result<Self, String> {
        let fits = number.fract() == 0.0 && (f64::from(LOW)..=f64::from(HIGH)).contains(&number);
        fits.then_some(Self(number as u8))
            .ok_or_else(|| format!("must be an integer from {LOW} to {HIGH}"))
    }
}

impl<const LOW: u8, const HIGH: u8> From<Level<LOW, HIGH>> for u8 {
    fn from(level: Level<LOW, HIGH>) -> Self {
        level.0
    }
}

/// How many of something. Bounded, so that sums of them stay whole numbers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "f64", into = "u32")]
pub struct Count(u32);

impl Count {
    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl From<u32> for Count {
    fn from(count: u32) -> Self {
        Self(count)
    }
}

impl TryFrom<f64> for Count {
    type Error = String;

    fn try_from(number: f64) -> Result<Self, String> {
        let fits = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
        fits.then_some(Self(number as u32))
            .ok_or_else(|| "must be a non-negative integer".to_owned())
    }
}

impl From<Count> for u32 {
    fn from(count: Count) -> Self {
        count.0
    }
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionStatus {
    /// Its result was taken.
    Accepted,
    /// A part of it was.
    Partial,
    /// It was not.
    Rejected,
    /// The agent did not get there.
    Failed,
    /// A person took over.
    Escalated,
    /// Who assigned it withdrew it.
    Cancelled,
}

impl CompletionStatus {
    /// Whether the agent's work was of no use.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Rejected | Self::Failed | Self::Escalated)
    }
}

/// How bad an error or a reason for a revision is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the framework's own")]
pub enum Severity {
    Critical,
    /// What an error is that does not say.
    #[default]
    Major,
    Minor,
}

/// Why a task was revised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The agent's fault.
    #[default]
    Error,
    /// Something else was wanted than before.
    ScopeChange,
    /// A matter of taste.
    Preference,
}

/// Who does a part of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The agent itself.
    #[serde(rename = "self")]
    Own,
    /// Another one.
    Delegate,
}

/// What came of a delegation or an orchestration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the framework's own")]
pub enum Outcome {
    Success,
    Partial,
    Failure,
}

/// A step of a plan, named by text or by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "String")]
pub struct Node(pub String);

impl TryFrom<Value> for Node {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        match value {
            Value::String(name) => Ok(Self(name)),
            Value::Number(number) => Ok(Self(number.to_string())),
            _ => Err("must be a string or a number"),
        }
    }
}

impl From<Node> for String {
    fn from(node: Node) -> Self {
        node.0
    }
}
