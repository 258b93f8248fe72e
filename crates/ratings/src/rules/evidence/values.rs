//! The values in events, with their ranges.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Difficulty of a task.
pub type ComplexityLevel = Level<1, 5>;
/// Human involvement: 0 approves every action, 1 at checkpoints, 2 on exceptions only, 3 none.
pub type AutonomyLevel = Level<0, 3>;

/// A small integer in a range. Some producers write integers as `3.0`, which is accepted as 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "u8")]
pub struct Level<const LOW: u8, const HIGH: u8>(u8);

impl<const LOW: u8, const HIGH: u8> Level<LOW, HIGH> {
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

/// A count, bounded so that sums stay exact integers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "f64", into = "u32")]
pub struct Count(u32);

impl Count {
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
    /// The result was accepted.
    Accepted,
    /// A part of the result was accepted.
    Partial,
    /// The result was not accepted.
    Rejected,
    /// The agent did not finish the task.
    Failed,
    /// A person took over.
    Escalated,
    /// The assigner withdrew the task.
    Cancelled,
}

impl CompletionStatus {
    /// Whether the agent's work was useless.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Rejected | Self::Failed | Self::Escalated)
    }
}

/// Severity of an error or of a reason for a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Critical,
    /// The default for an error without a severity.
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
    /// The requirements changed.
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
    /// Another agent.
    Delegate,
}

/// The outcome of a delegation or an orchestration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Success,
    Partial,
    Failure,
}

/// A step of a plan, named by a string or a number.
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
