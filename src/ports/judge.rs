//! The judge of rubrics (RFC 0081 §D).

use async_trait::async_trait;
use serde_json::Value;

use super::{EventSink, Meter, ModelBinding};
use crate::domain::ids::{RunId, TaskId, TenantId};
use crate::protocol::openwop::suite::Criterion;

/// An answer to be judged.
#[derive(Clone, Copy)]
pub struct Exhibition<'a> {
    /// Whose run it belongs to.
    pub tenant: &'a TenantId,
    /// The run it belongs to.
    pub run: &'a RunId,
    /// The task.
    pub task: &'a TaskId,
    /// What the agent was given.
    pub input: &'a Value,
    /// What it answered.
    pub output: &'a Value,
    /// What is looked for.
    pub rubric: &'a [Criterion],
    /// The model that judges.
    pub model: &'a ModelBinding,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Whether each criterion is met, in the rubric's order.
    Judged {
        /// One for each.
        met: Vec<bool>,
    },
    /// The judge was not there, or gave no verdict: nothing can be said of the answer. `budget_exhausted` when the meter
    /// refused.
    Unjudged {
        /// A label from a closed list.
        reason: String,
    },
}

/// Judges answers by rubrics.
#[async_trait]
pub trait Judge: Send + Sync {
    /// Asks about every criterion and records what was used. Dropping the future cancels it.
    async fn judge(
        &self,
        exhibition: Exhibition<'_>,
        meter: &dyn Meter,
        sink: &dyn EventSink,
    ) -> Judgement;
}
