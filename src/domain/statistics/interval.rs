//! Intervals of a rate and of a mean, one trial a task.

use serde::{Deserialize, Serialize};
use statrs::function::beta::checked_beta_reg;

use super::{average, count, normal_quantile, squares, student_quantile, upper};

/// Halvings of 0..1 until neither half differs from the other in a 64-bit number.
pub(super) const BISECTIONS: u32 = 60;

/// The limits of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower limit.
    pub low: f64,
    /// The upper limit.
    pub high: f64,
}

impl Interval {
    /// The least interval that holds both.
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

/// A rate with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportion {
    /// The rate that was seen, 0..=1.
    pub rate: f64,
    /// Where the true one lies.
    pub interval: Interval,
}

/// Wilson's score interval of `passed` of `n` (Wilson 1927). Unlike the normal one it keeps its width at 0 and at `n`.
/// `None` of nothing.
pub fn wilson(passed: usize, n: usize, confidence: f64) -> Option<Proportion> {
    (passed <= n).then(|| wilson_of(count(passed) / count(n), n, confidence))?
}

/// The same of a rate that was seen over `n`, 0..=1. Of graded scores it errs to the wide side: nothing between 0 and 1 varies
/// more around its mean than zeros and ones do.
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

/// Clopper and Pearson's exact interval of a rate over `n`, each side with the error `alpha` (Clopper and Pearson 1934). Unlike
/// Wilson's it never errs more often than that, however small `n` is. A fractional number of passes is interpolated by the
/// incomplete beta function. `None` of nothing.
pub fn clopper_pearson(rate: f64, n: usize, alpha: f64) -> Option<Interval> {
    (n > 0 && (0.0..=1.0).contains(&rate)).then(|| Interval {
        low: exact_low(rate * count(n), count(n), alpha),
        high: 1.0 - exact_low((1.0 - rate) * count(n), count(n), alpha),
    })
}

/// The rate at which `passed` or more of `n` come with a probability of `alpha`.
fn exact_low(passed: f64, n: f64, alpha: f64) -> f64 {
    // The tail of a binomial distribution is an incomplete beta function of the rate, and grows with it.
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

/// A mean with what is known of its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// Its standard error; `None` of a single value.
    pub se: Option<f64>,
    /// Where the true one lies, by Student's distribution.
    pub interval: Option<Interval>,
}

/// The mean of independent scores. `None` of nothing.
pub fn mean(scores: &[f64], confidence: f64) -> Option<Mean> {
    let value = average(scores)?;
    let n = scores.len();
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
