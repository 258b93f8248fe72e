//! Reviews of scores by people.

use async_trait::async_trait;

use touchstone_host::service::access::Caller;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TaskId};

/// A person's correction of a judged task.
#[derive(Clone, Copy, Debug)]
pub struct Correction<'a> {
    pub run: &'a RunId,
    pub task: &'a TaskId,
    /// Sequence number of the `eval.scored` event in the run's log.
    pub sequence: u64,
    /// The correct result, in words.
    pub text: &'a str,
}

/// Who may judge scores, and what a correction of a score causes. Ratings implement it: they know
/// the keys of agents, and use scores as evidence.
#[async_trait]
pub trait ScoreReview: Send + Sync {
    /// Rejects the key of an agent of the caller's own organization, if its tenant has one.
    ///
    /// # Errors
    /// `forbidden`, with what the agent must not decide.
    async fn refuse_own(&self, caller: &Caller, why: &'static str) -> Result<(), Problem>;

    /// Reacts to a correction.
    ///
    /// # Errors
    /// The host failed.
    async fn corrected(&self, caller: &Caller, correction: Correction<'_>) -> Result<(), Problem>;
}
