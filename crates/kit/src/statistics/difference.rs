//! Comparison with a baseline, paired by task. An unpaired comparison would ignore what the two
//! runs have in common.

use statrs::distribution::{Binomial, ContinuousCDF as _, DiscreteCDF as _};

use super::interval::BISECTIONS;
use super::student::student_law;
use super::{Interval, average, count, mean, normal_quantile, squares, upper};

/// The mean difference of pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// Number of pairs.
    pub n: usize,
    /// Candidate minus baseline.
    pub mean: f64,
    /// Its standard error; `None` for a single pair.
    pub se: Option<f64>,
    /// The standard error without pairing.
    pub se_unpaired: Option<f64>,
    /// The correlation of the two sides; `None` if either does not vary.
    pub correlation: Option<f64>,
    /// Confidence interval of the difference.
    pub interval: Option<Interval>,
    /// Two-sided p value of the difference; `None` if the differences do not vary.
    pub p_two_sided: Option<f64>,
}

impl Paired {
    /// The standard deviation of the differences; `None` for a single pair.
    pub fn deviation(&self) -> Option<f64> {
        Some(self.se? * count(self.n).sqrt())
    }
}

/// Compares scores of the same tasks, each a pair `(baseline, candidate)` (Miller 2024, §4.2).
/// `None` without pairs.
pub fn paired(pairs: impl Iterator<Item = (f64, f64)> + Clone, confidence: f64) -> Option<Paired> {
    let baseline = pairs.clone().map(|(before, _)| before);
    let candidate = pairs.clone().map(|(_, now)| now);
    let differences = pairs.clone().map(|(before, now)| now - before);
    let n = pairs.clone().count();
    let before = mean(baseline.clone(), confidence)?;
    let now = mean(candidate.clone(), confidence)?;
    let change = mean(differences, confidence)?;
    let law = n.checked_sub(1).and_then(student_law);
    let p_two_sided = change.se.zip(law).filter(|(se, _)| *se > 0.0);
    let common: f64 = pairs
        .map(|(a, b)| (a - before.value) * (b - now.value))
        .sum();
    let spread = (squares(baseline, before.value) * squares(candidate, now.value)).sqrt();
    Some(Paired {
        n,
        mean: change.value,
        se: change.se,
        se_unpaired: before.se.zip(now.se).map(|(a, b)| a.hypot(b)),
        correlation: (spread > 0.0).then(|| common / spread),
        interval: change.interval,
        p_two_sided: p_two_sided.map(|(se, law)| 2.0 * law.cdf(-(change.value / se).abs())),
    })
}

/// P values of the flips, if flips in both directions are equally likely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct McNemar {
    pub p_two_sided: f64,
    /// One-sided, for at least as many broken tasks: evidence of a regression.
    pub p_regression: f64,
}

/// McNemar's exact test of fixed tasks (`fail` before, `pass` now) and broken tasks (the reverse).
pub fn mcnemar(fixed: u64, broken: u64) -> McNemar {
    let none = McNemar {
        p_two_sided: 1.0,
        p_regression: 1.0,
    };
    let flips = fixed + broken;
    let Ok(law) = Binomial::new(0.5, flips) else {
        return none;
    };
    if flips == 0 {
        return none;
    }
    McNemar {
        p_two_sided: (2.0 * law.cdf(fixed.min(broken))).min(1.0),
        // P[X ≥ broken] = P[X ≤ fixed], because both directions are equally likely.
        p_regression: law.cdf(fixed),
    }
}

/// Tango's score interval of the difference of two paired proportions (Stat. Med. 17:891, 1998),
/// for `fixed` and `broken` pairs among `n`. Student's interval has no width if no pair flips; this
/// interval keeps its width. Graded differences count as fractions of a flip, which makes the
/// interval wider rather than narrower. `None` without pairs.
pub fn tango(fixed: f64, broken: f64, n: usize, confidence: f64) -> Option<Interval> {
    let n = (n > 0).then(|| count(n))?;
    let z = normal_quantile(upper(confidence));
    let limit = |score: f64| {
        let (mut low, mut high) = (-1.0, 1.0);
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(low, high);
            if tango_score(middle, fixed, broken, n) > score {
                low = middle;
            } else {
                high = middle;
            }
        }
        f64::midpoint(low, high)
    };
    Some(Interval {
        low: limit(z),
        high: limit(-z),
    })
}

/// The number of standard errors by which the observed difference exceeds `difference`; falls as
/// `difference` grows.
fn tango_score(difference: f64, fixed: f64, broken: f64, n: f64) -> f64 {
    let excess = fixed - broken - n * difference;
    // Given the difference, the most likely rate of broken pairs solves a quadratic equation.
    let (a, c) = (2.0 * n, -broken * difference * (1.0 - difference));
    let b = (2.0 * n - fixed + broken) * difference - fixed - broken;
    let rate = ((b * b - 4.0 * a * c).max(0.0).sqrt() - b) / (2.0 * a);
    let variance = n * (2.0 * rate + difference * (1.0 - difference));
    if variance > 0.0 {
        excess / variance.sqrt()
    } else if excess == 0.0 {
        0.0
    } else {
        excess.signum() * f64::INFINITY
    }
}

/// The percentile interval of a mean over bootstrap resamples, each a list of indices into `values`
/// (type 7, linear interpolation), and the mean of the replicates. `None` without a non-empty
/// resample.
pub fn bootstrap(
    values: &[f64],
    resamples: impl Iterator<Item = Vec<usize>>,
    confidence: f64,
) -> Option<(f64, Interval)> {
    let replicate = |indices: Vec<usize>| {
        let drawn: Vec<f64> = indices
            .into_iter()
            .filter_map(|index| values.get(index).copied())
            .collect();
        average(drawn.iter().copied())
    };
    let mut replicates: Vec<f64> = resamples.filter_map(replicate).collect();
    replicates.sort_by(f64::total_cmp);
    let high = upper(confidence);
    Some((
        average(replicates.iter().copied())?,
        Interval {
            low: quantile(&replicates, 1.0 - high)?,
            high: quantile(&replicates, high)?,
        },
    ))
}

/// The quantile of sorted values, linearly interpolated (type 7).
pub fn quantile(sorted: &[f64], probability: f64) -> Option<f64> {
    let place = count(sorted.len().checked_sub(1)?) * probability;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place in a list, rounded down"
    )]
    let below = place.floor() as usize;
    let lower = *sorted.get(below)?;
    let next = sorted.get(below + 1).copied().unwrap_or(lower);
    Some(lower + (next - lower) * place.fract())
}
