//! What became of the tasks of stress tests.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::OrganizationNumber;
use crate::domain::ids::RunId;
use crate::ports::StoreError;

/// How a task of a stress test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It passed.
    Pass,
    /// It has some score.
    Partial,
    /// It has none.
    Fail,
}

impl Outcome {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Partial => "partial",
            Self::Fail => "fail",
        }
    }

    /// The one of this wire name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Pass, Self::Partial, Self::Fail]
            .into_iter()
            .find(|it| it.as_str() == name)
    }
}

/// A task of a stress test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StressResult {
    /// The test.
    pub test: String,
    /// The task, as its suite calls it.
    pub task: String,
    /// The run it was done in.
    pub run_id: RunId,
    /// How it ended.
    pub outcome: Outcome,
    /// 0.0..=1.0.
    pub score: f64,
}

/// Results of stress tests.
#[async_trait]
pub trait StressResults: Send + Sync {
    /// Records them; one that is recorded already is left as it is.
    async fn record_stress_results(
        &self,
        organization: OrganizationNumber,
        assessment: &str,
        results: &[StressResult],
        now: Timestamp,
    ) -> Result<(), StoreError>;
    /// Those of an assessment, by test and task.
    async fn stress_results(
        &self,
        organization: OrganizationNumber,
        assessment: &str,
    ) -> Result<Vec<StressResult>, StoreError>;
    /// Deletes the oldest recorded before a moment, at most `limit`; how many there were.
    async fn forget_stress_results(&self, before: Timestamp, limit: u32)
    -> Result<u64, StoreError>;
}
