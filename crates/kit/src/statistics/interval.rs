//! Confidence intervals of a rate and of a mean, for one trial per task.

use serde::{Deserialize, Serialize};
use statrs::function::beta::checked_beta_reg;

use super::{average, count, normal_quantile, squares, student_quantile, upper};

/// Bisections of 0..1 after which the halves no longer differ as 64-bit numbers.
pub(super) const BISECTIONS: u32 = 60;

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// The smallest interval that contains both.
    #[must_use]
    pub fn hull(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }

    pub(super) fn around(centre: f64, half: f64) -> Self {
        Self {
            low: centre - half,
            high: centre + half,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportion {
    /// The observed rate, 0..=1.
    pub rate: f64,
    /// Its confidence interval.
    pub interval: Interval,
}

/// Wilson's score interval for `passed` of `n` (Wilson 1927). Unlike the normal interval, it keeps
/// its width at 0 and at `n`. `None` without trials.
pub fn wilson(passed: usize, n: usize, confidence: f64) -> Option<Proportion> {
    (passed <= n).then(|| wilson_of(count(passed) / count(n), n, confidence))?
}

/// Wilson's interval for a rate observed over `n`, 0..=1. For graded scores it is conservative,
/// because scores between 0 and 1 vary at most as much as zeros and ones with the same mean.
pub fn wilson_of(rate: f64, n: usize, confidence: f64) -> Option<Proportion> {
    if n == 0 {
        return None;
    }
    let n = count(n);
    let z = normal_quantile(upper(confidence));
    let scale = 1.0 + z * z / n;
    let centre = (rate + z * z / (2.0 * n)) / scale;
    let half = z / scale * (rate * (1.0 - rate) / n + z * z / (4.0 * n * n)).sqrt();
    Some(Proportion {
        rate,
        interval: Interval::around(centre, half),
    })
}

/// Clopper and Pearson's exact interval of a rate over `n`, with the error `alpha` on each side
/// (Clopper and Pearson 1934). Unlike Wilson's interval, its error never exceeds `alpha`, however
/// small `n` is. A fractional number of passes is interpolated with the incomplete beta function.
/// `None` without trials.
pub fn clopper_pearson(rate: f64, n: usize, alpha: f64) -> Option<Interval> {
    (n > 0 && (0.0..=1.0).contains(&rate)).then(|| Interval {
        low: exact_low(rate * count(n), count(n), alpha),
        high: 1.0 - exact_low((1.0 - rate) * count(n), count(n), alpha),
    })
}

/// The rate at which the probability of `passed` or more of `n` is `alpha`.
fn exact_low(passed: f64, n: f64, alpha: f64) -> f64 {
    // The tail of a binomial distribution is an incomplete beta function of the rate, and increases
    // with it.
    let tail = |rate: f64| checked_beta_reg(passed, n - passed + 1.0, rate).unwrap_or(1.0);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if tail(middle) < alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// A mean, with its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    pub value: f64,
    /// Its standard error; `None` for a single value.
    pub se: Option<f64>,
    /// Confidence interval from Student's distribution.
    pub interval: Option<Interval>,
}

/// The mean of independent scores. `None` without scores.
pub fn mean(scores: impl Iterator<Item = f64> + Clone, confidence: f64) -> Option<Mean> {
    let value = average(scores.clone())?;
    let n = scores.clone().count();
    let t = n
        .checked_sub(1)
        .and_then(|degrees| student_quantile(upper(confidence), degrees));
    let se = t.map(|_| (squares(scores, value) / (count(n) * count(n - 1))).sqrt());
    Some(Mean {
        value,
        se,
        interval: t.zip(se).map(|(t, se)| Interval::around(value, t * se)),
    })
}
