//! What an interval says about a demand. "Not shown to be worse" is never said where nothing was shown.

use serde::{Deserialize, Serialize};

use super::Interval;

/// Whether a rate meets a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateVerdict {
    /// All of the interval does.
    Pass,
    /// None of it does.
    Fail,
    /// Some of it does: noise would decide.
    Inconclusive,
}

/// Holds an interval against a threshold.
pub fn against_threshold(interval: Interval, threshold: f64) -> GateVerdict {
    if interval.low >= threshold {
        GateVerdict::Pass
    } else if interval.high < threshold {
        GateVerdict::Fail
    } else {
        GateVerdict::Inconclusive
    }
}

/// Whether a candidate is worse than its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegressionVerdict {
    /// By more than the margin.
    Regressed,
    /// By no more than the margin, if at all.
    NotWorse,
    /// Nothing was shown, neither that it is worse nor that it is not.
    Inconclusive,
}

/// Holds the interval of a difference (candidate minus baseline) against a margin, 0 or more.
pub fn against_margin(interval: Interval, margin: f64) -> RegressionVerdict {
    if interval.high < -margin {
        RegressionVerdict::Regressed
    } else if interval.low > -margin {
        RegressionVerdict::NotWorse
    } else {
        RegressionVerdict::Inconclusive
    }
}
