//! Whether a model may grade a dimension (AAAF graders): only while its scores and people's agree.

use serde::Serialize;

pub use crate::domain::eval::rubric::calibration::{MIN_AGREEMENT, MIN_SAMPLES};
use crate::domain::statistics::spearman;

const CONFIDENCE: f64 = 0.95;
const GUARD: f64 = 1e-9;

/// What a comparison of a grader with people says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GraderGate {
    /// Samples.
    pub n: usize,
    /// Spearman's ρ; `None` where the scores of either do not vary.
    pub spearman: Option<f64>,
    /// Where the true one lies; it is shown, the point decides.
    pub ci95: Option<[f64; 2]>,
    /// Whether its scores count.
    pub deployable: bool,
    /// Why not.
    pub reason: Option<Undeployable>,
}

/// Why a grader's scores do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undeployable {
    /// Nothing can be said of what does not vary.
    ConstantScores,
    /// Too few samples.
    TooFewSamples,
    /// They agree too little.
    BelowThreshold,
}

/// Compares (person, grader) score by score; a person's is the mean of the raters of an item.
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
