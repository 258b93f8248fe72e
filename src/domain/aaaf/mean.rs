//! Means that come out the same in whatever order their parts arrive.

/// How far binary arithmetic may miss a threshold that exact arithmetic meets.
const GUARD: f64 = 1e-9;

/// The weighted mean of (value, weight); `None` without weight. Sorted first: sums of fractions depend on their order, and
/// scores must not depend on the order in which events arrived.
pub fn weighted(observations: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let mut all: Vec<(f64, f64)> = observations.into_iter().collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let weight: f64 = all.iter().map(|(_, weight)| weight).sum();
    let sum: f64 = all.iter().map(|(value, weight)| value * weight).sum();
    (weight > 0.0).then(|| sum / weight)
}

/// The plain mean; `None` of nothing.
pub fn plain(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    weighted(values.into_iter().map(|value| (value, 1.0)))
}

/// Whether a threshold is met.
pub fn meets(value: f64, threshold: f64) -> bool {
    value >= threshold - GUARD
}

/// A count as a number.
pub fn count(n: usize) -> f64 {
    // Counts of tasks are far below 2^52.
    n as f64
}

/// Brought back into 0..=1.
pub fn clamped(value: f64) -> f64 {
    value.clamp(0.0, 1.0)
}
