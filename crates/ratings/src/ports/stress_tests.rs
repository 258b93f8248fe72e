//! Store access to the task results of stress tests.

use serde::{Deserialize, Serialize};

use touchstone_kit::ids::RunId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StressOutcome {
    /// The task passed.
    Pass,
    /// A score above 0 that does not pass.
    Partial,
    /// A score of 0.
    Fail,
}

impl StressOutcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Partial => "partial",
            Self::Fail => "fail",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Pass, Self::Partial, Self::Fail]
            .into_iter()
            .find(|it| it.as_str() == name)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StressResult {
    pub test: String,
    /// The task's id in its suite.
    pub task: String,
    pub run_id: RunId,
    pub outcome: StressOutcome,
    /// Range 0.0..=1.0.
    pub score: f64,
}
