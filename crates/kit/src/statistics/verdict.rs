//! Verdicts from confidence intervals. Missing evidence gives `Inconclusive`, never `NotWorse`.

use serde::{Deserialize, Serialize};

use super::Interval;

/// Whether a rate meets a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateVerdict {
    /// The whole interval meets the threshold.
    Pass,
    /// The whole interval is below the threshold.
    Fail,
    /// The threshold lies within the interval.
    Inconclusive,
}

/// Compares an interval with a threshold.
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
    /// Worse by more than the margin.
    Regressed,
    /// Worse by no more than the margin, or not at all.
    NotWorse,
    /// The interval shows neither.
    Inconclusive,
}

/// Compares the interval of a difference (candidate minus baseline) with a margin, 0 or more.
pub fn against_margin(interval: Interval, margin: f64) -> RegressionVerdict {
    if interval.high < -margin {
        RegressionVerdict::Regressed
    } else if interval.low > -margin {
        RegressionVerdict::NotWorse
    } else {
        RegressionVerdict::Inconclusive
    }
}
