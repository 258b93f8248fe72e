//! Rank correlation, used for the agreement of a judge with people (AAAF, model graders).

use super::{Interval, average, count, normal_quantile, squares, upper};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correlation {
    /// Spearman's ρ, -1..=1, with mid-ranks for ties.
    pub rho: f64,
    /// Confidence interval by Fisher's z with the error √((1+ρ²/2)/(n−3)); `None` below four pairs
    /// or at ±1.
    pub interval: Option<Interval>,
}

/// Spearman's rank correlation. `None` if either list does not vary.
pub fn spearman(pairs: &[(f64, f64)], confidence: f64) -> Option<Correlation> {
    let (left, right): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (left, right) = (ranks(&left), ranks(&right));
    let (a, b) = (
        average(left.iter().copied())?,
        average(right.iter().copied())?,
    );
    let common: f64 = left
        .iter()
        .zip(&right)
        .map(|(x, y)| (x - a) * (y - b))
        .sum();
    let spread = (squares(left.iter().copied(), a) * squares(right.iter().copied(), b)).sqrt();
    if spread <= 0.0 {
        return None;
    }
    let rho = (common / spread).clamp(-1.0, 1.0);
    let free = pairs.len().checked_sub(3).filter(|free| *free > 0);
    let interval = free.filter(|_| rho.abs() < 1.0).map(|free| {
        let half =
            normal_quantile(upper(confidence)) * ((1.0 + rho * rho / 2.0) / count(free)).sqrt();
        let z = Interval::around(rho.atanh(), half);
        Interval {
            low: z.low.tanh(),
            high: z.high.tanh(),
        }
    });
    Some(Correlation { rho, interval })
}

/// The rank of each value, from 1; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = values.iter().copied().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let mut ranked: Vec<(usize, f64)> = Vec::with_capacity(order.len());
    for equal in order.chunk_by(|(_, a), (_, b)| a == b) {
        let before = ranked.len();
        let rank = count(before) + f64::midpoint(1.0, count(equal.len()));
        ranked.extend(equal.iter().map(|(place, _)| (*place, rank)));
    }
    ranked.sort_by_key(|(place, _)| *place);
    ranked.into_iter().map(|(_, rank)| rank).collect()
}
