//! Whether a model may grade a dimension (AAAF graders): only while its scores agree with people's.

use serde::Serialize;

use touchstone_kit::statistics::spearman;
pub use touchstone_runs::rules::eval::rubric::calibration::{MIN_AGREEMENT, MIN_SAMPLES};

const CONFIDENCE: f64 = 0.95;
const GUARD: f64 = 1e-9;

/// The comparison of a grader with people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GraderGate {
    /// Number of samples.
    pub n: usize,
    /// Spearman's ρ; `None` if the scores of either side do not vary.
    pub spearman: Option<f64>,
    /// The 95 % confidence interval of ρ. Shown only; the point estimate decides.
    pub ci95: Option<[f64; 2]>,
    /// Whether the grader's scores count.
    pub deployable: bool,
    pub reason: Option<Undeployable>,
}

/// Why a grader's scores do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undeployable {
    /// Scores that do not vary have no correlation.
    ConstantScores,
    TooFewSamples,
    /// The agreement is too low.
    BelowThreshold,
}

/// Compares (person, grader) pairs of scores; a person's score is the mean of the item's raters.
pub fn gate(pairs: &[(f64, f64)], min_samples: usize) -> GraderGate {
    let found = spearman(pairs, CONFIDENCE);
    let reason = match found {
        None => Some(Undeployable::ConstantScores),
        Some(_) if pairs.len() < min_samples => Some(Undeployable::TooFewSamples),
        Some(found) if found.rho < MIN_AGREEMENT - GUARD => Some(Undeployable::BelowThreshold),
        Some(_) => None,
    };
    GraderGate {
        n: pairs.len(),
        spearman: found.map(|it| it.rho),
        ci95: found.and_then(|it| it.interval).map(|it| [it.low, it.high]),
        deployable: reason.is_none(),
        reason,
    }
}
