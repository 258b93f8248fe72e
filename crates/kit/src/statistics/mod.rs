//! Statistics of scores: intervals, differences, power (Miller 2024, arXiv 2411.00640; Bowyer et
//! al. 2025, arXiv 2503.01747). Pure functions of numbers. Limits are not clipped to 0..=1; callers
//! do that when they show them.
//!
//! A value that cannot be computed is `None`, never zero: a single task has no standard error.
//!
//! Values are iterators that are read several times, so that callers need not copy the values of a
//! million tasks.

mod agreement;
mod clustered;
mod difference;
mod interval;
mod multiple;
mod power;
mod rank;
mod raters;
mod reliability;
mod sequential;
mod student;
mod verdict;

pub use self::agreement::{Agreement, fleiss};
pub use self::clustered::{Clustered, clustered_mean};
pub use self::difference::{McNemar, Paired, bootstrap, mcnemar, paired, quantile, tango};
pub use self::interval::{Interval, Mean, Proportion, clopper_pearson, mean, wilson, wilson_of};
pub use self::multiple::{Adjusted, holm};
pub use self::power::{Planned, minimum_detectable_effect, sample_size};
pub use self::rank::{Correlation, spearman};
pub use self::raters::{Metric, cohen, equal_pairs, krippendorff};
pub use self::reliability::{Attempts, pass_at_k, pass_hat_k};
pub use self::sequential::{FIRST_LOOK, spent};
pub use self::student::student_quantile;
pub use self::verdict::{GateVerdict, RegressionVerdict, against_margin, against_threshold};

use statrs::distribution::{ContinuousCDF as _, Normal};

/// The quantile of the standard normal distribution; `probability` in 0..1.
pub fn normal_quantile(probability: f64) -> f64 {
    Normal::standard().inverse_cdf(probability)
}

/// The probability below the upper limit of a two-sided interval with this confidence.
fn upper(confidence: f64) -> f64 {
    f64::midpoint(1.0, confidence)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of tasks and trials are far below 2^52"
)]
fn count(n: usize) -> f64 {
    n as f64
}

/// The arithmetic mean; `None` without values.
pub fn average(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let n = values.clone().count();
    (n > 0).then(|| values.sum::<f64>() / count(n))
}

/// The sum of squared distances from `centre`.
fn squares(values: impl Iterator<Item = f64>, centre: f64) -> f64 {
    values.map(|value| (value - centre).powi(2)).sum()
}
