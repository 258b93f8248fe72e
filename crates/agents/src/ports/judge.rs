//! The judge of rubrics (RFC 0081 §D).

use serde_json::Value;

use crate::ports::model::ModelBinding;
pub use crate::rules::judging::verdict::CriterionVerdict;
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_openwop::suite::Criterion;

/// An output to be judged.
#[derive(Clone, Copy)]
pub struct JudgeRequest<'a> {
    pub tenant: &'a TenantId,
    pub run: &'a RunId,
    pub task: &'a TaskId,
    /// The agent's input.
    pub input: &'a Value,
    /// The agent's output.
    pub output: &'a Value,
    pub rubric: &'a [Criterion],
    /// The model that judges.
    pub model: &'a ModelBinding,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The verdict about each criterion, in the rubric's order.
    Judged { verdicts: Vec<CriterionVerdict> },
    /// The judge was unavailable, or gave no verdict; says nothing about the output.
    /// `budget_exhausted` if the meter refused.
    Unjudged {
        /// A label from a closed list.
        reason: String,
    },
}
