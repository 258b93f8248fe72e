//! Why a score is not shown to reach a threshold, and what helps.

use super::Gate;
use touchstone_kit::statistics::GateVerdict;

/// Why no number of tasks helps if the threshold is 1: every interval contains lower scores.
pub const NEVER_SHOWN: &str = "a score of 1 can never be shown with a finite number of tasks";

/// The reason and a remedy. `accept` is the option or command that accepts the observed score.
pub fn unshown(gate: &Gate, accept: &str) -> String {
    let threshold = gate.threshold;
    let accept = format!("or accept the observed score (`{accept}`)");
    // The upper limit of a perfect score may be rounded to less than 1.
    let is_perfect = gate.score.is_some_and(|score| score >= 1.0);
    if gate.verdict == GateVerdict::Fail && !is_perfect {
        return format!("the score is significantly below {threshold:.3}");
    }
    if threshold >= 1.0 {
        return format!("{NEVER_SHOWN}; require a score below 1, {accept}");
    }
    // Data that is missing is not replaced by other tasks.
    let is_undecided = gate
        .low
        .zip(gate.high)
        .is_none_or(|(low, high)| low < threshold && threshold <= high);
    let remedy = match is_undecided {
        true => "run more tasks",
        false => "complete the trials",
    };
    format!("{}; {remedy}, {accept}", gate.reasons.join("; "))
}
