//! Power: the smallest detectable difference, and the number of tasks that a difference needs
//! (Miller 2024, §5).

use super::{count, normal_quantile, upper};

/// The smallest difference that a comparison of `n` tasks detects with this power; `sd` is the
/// standard deviation of the differences, `alpha` the two-sided error. `None` without tasks.
pub fn minimum_detectable_effect(n: usize, sd: f64, alpha: f64, power: f64) -> Option<f64> {
    (n > 0).then(|| quantiles(alpha, power) * sd / count(n).sqrt())
}

/// A planned comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    /// Variance over tasks of the difference of their means.
    pub between: f64,
    /// Mean variance within a task, of baseline and candidate.
    pub within: (f64, f64),
    /// Trials per task, of baseline and candidate.
    pub trials: (usize, usize),
    /// The difference to detect.
    pub effect: f64,
    /// The two-sided error.
    pub alpha: f64,
    /// The probability of detecting it.
    pub power: f64,
}

/// Number of tasks that a comparison needs. `None` if no number is enough: no effect, or no trial.
pub fn sample_size(planned: &Planned) -> Option<u64> {
    let (baseline, candidate) = planned.trials;
    if planned.effect == 0.0 || baseline == 0 || candidate == 0 {
        return None;
    }
    let variance =
        planned.between + planned.within.0 / count(baseline) + planned.within.1 / count(candidate);
    let scale = quantiles(planned.alpha, planned.power) / planned.effect;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count, rounded up; saturates"
    )]
    let tasks = (scale * scale * variance).ceil() as u64;
    Some(tasks)
}

fn quantiles(alpha: f64, power: f64) -> f64 {
    normal_quantile(upper(1.0 - alpha)) + normal_quantile(power)
}
