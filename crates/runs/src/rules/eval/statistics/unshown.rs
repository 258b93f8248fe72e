//! Why a score is not shown to reach a threshold, and what helps.

use super::Gate;
use touchstone_kit::statistics::GateVerdict;

/// Why no number of tasks helps if the threshold is 1: every interval contains lower scores.
pub const NEVER_SHOWN: &str = "a score of 1 can never be shown with a finite number of tasks";

/// The reason and a remedy. `lower` says how to require a lower score, and `accept` is the option or
/// command that accepts the observed score.
pub fn unshown(gate: &Gate, lower: &str, accept: &str) -> String {
    match remedy(gate, lower, accept) {
        Some(remedy) => format!("{}; {remedy}", why(gate)),
        None => why(gate),
    }
}

/// The reason.
pub fn why(gate: &Gate) -> String {
    let threshold = gate.threshold;
    if is_below(gate) {
        return match (gate.attempts.run_ids.len(), gate.score) {
            (runs @ 2.., Some(score)) => format!(
                "the score {score:.3} over {runs} runs is significantly below {threshold:.3}"
            ),
            _ => format!("the score is significantly below {threshold:.3}"),
        };
    }
    if threshold >= 1.0 {
        return NEVER_SHOWN.to_owned();
    }
    gate.reasons.join("; ")
}

/// What helps; `None` if nothing does.
pub fn remedy(gate: &Gate, lower: &str, accept: &str) -> Option<String> {
    if is_below(gate) {
        return None;
    }
    let threshold = gate.threshold;
    let accept = format!("or accept the observed score (`{accept}`)");
    if threshold >= 1.0 {
        return Some(format!("{lower}, {accept}"));
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
    Some(format!("{remedy}, {accept}"))
}

/// Whether the score is shown not to reach the threshold. The upper limit of a perfect score may be
/// rounded to less than 1.
fn is_below(gate: &Gate) -> bool {
    gate.verdict == GateVerdict::Fail && gate.score.is_none_or(|score| score < 1.0)
}
