//! Human reviews: queues of answers that people label without seeing what the judge decided.

pub mod agreement;
pub mod blind;
pub mod request;
pub mod turn;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::rules::eval::report::TaskOutcome;
use touchstone_kit::ids::{RunId, TaskId};

/// Maximum number of answers in one queue; a calibration takes no more samples.
pub const MAX_ITEMS: usize = crate::rules::eval::rubric::calibration::MAX_SAMPLES;
/// Maximum number of people who label one answer.
pub const MAX_LABELLERS: u8 = 5;
/// Maximum number of steps between the lowest and the highest score: one digit names each score.
pub const MAX_STEPS: u8 = 9;
/// How long an answer that a person has opened is kept from others.
pub const CLAIM: SignedDuration = SignedDuration::from_mins(10);

/// A queue of answers of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    pub review_id: String,
    pub run_id: RunId,
    /// `suiteId@version`.
    pub suite: String,
    /// The outcome that the chosen tasks have; absent for every outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<TaskOutcome>,
    /// Number of answers that were drawn; absent for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<usize>,
    /// Decides which answers are drawn, and their order.
    pub seed: u64,
    /// Number of people who label each answer.
    pub labellers: u8,
    /// Number of steps from 0 to 1: with one step, people choose between fail and pass.
    pub steps: u8,
    /// Number of answers.
    pub items: usize,
    pub created_by: String,
    pub created_at: Timestamp,
    /// When labelling ended before all labels were there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
}

impl Review {
    /// Number of labels that the whole queue needs.
    pub fn needed(&self) -> usize {
        self.items * usize::from(self.labellers)
    }

    /// The score of a choice, 0.0..=1.0.
    pub fn score(&self, choice: u8) -> f64 {
        f64::from(choice.min(self.steps)) / f64::from(self.steps.max(1))
    }
}

/// One person's label of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Label {
    pub principal: String,
    /// The number of steps above 0.
    pub choice: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub at: Timestamp,
}

/// An answer that a person has opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewClaim {
    pub principal: String,
    pub until: Timestamp,
}

/// One answer of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewItem {
    /// From 1.
    pub number: u32,
    pub task: TaskId,
    pub labels: Vec<Label>,
    pub claims: Vec<ReviewClaim>,
}

impl ReviewItem {
    /// Whether everybody has labelled it. From then on, labels do not change.
    pub fn is_complete(&self, labellers: u8) -> bool {
        self.labels.len() >= usize::from(labellers)
    }

    pub fn label_of(&self, principal: &str) -> Option<&Label> {
        self.labels.iter().find(|it| it.principal == principal)
    }
}
