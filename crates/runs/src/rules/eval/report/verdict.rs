//! The verdict about the agent.

use serde::{Deserialize, Serialize};

use crate::rules::eval::scoring::unreadable;
use crate::rules::kind::KindOutcome;
use crate::rules::run::fold::{RunState, RunStatus};
use touchstone_kit::statistics::GateVerdict;

/// The run's verdict about the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every task was judged, and every threshold met.
    Pass,
    /// Every task was judged, and a threshold missed.
    Fail,
    /// Not every task was judged, or too few to show that the pass score is reached.
    Inconclusive,
    Pending,
}

impl Verdict {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
            Self::Pending => "pending",
        }
    }
}

impl From<GateVerdict> for Verdict {
    fn from(verdict: GateVerdict) -> Self {
        match verdict {
            GateVerdict::Pass => Self::Pass,
            GateVerdict::Fail => Self::Fail,
            GateVerdict::Inconclusive => Self::Inconclusive,
        }
    }
}

/// The verdict on the scores as they are.
pub fn verdict(
    state: &RunState,
    outcome: Option<&KindOutcome>,
    planned: usize,
    meets_all: bool,
) -> Verdict {
    if !state.status.is_terminal() {
        return Verdict::Pending;
    }
    if unreadable(&state.eval, outcome) > 0 {
        return Verdict::Inconclusive;
    }
    if let Some(outcome) = outcome {
        // The verdict of a kind is valid even if the run was aborted.
        return match (outcome.is_judged, meets_all) {
            (true, true) => Verdict::Pass,
            (true, false) => Verdict::Fail,
            (false, _) => Verdict::Inconclusive,
        };
    }
    match (state.status, state.eval.tasks.judged() < planned) {
        (RunStatus::Completed, false) if meets_all => Verdict::Pass,
        (RunStatus::Completed, false) => Verdict::Fail,
        _ => Verdict::Inconclusive,
    }
}
