//! Averages that do not depend on the order of their values.

/// By how much binary arithmetic may miss a threshold that exact arithmetic meets.
const GUARD: f64 = 1e-9;

/// The weighted mean of (value, weight); `None` if the total weight is zero. Values are sorted
/// first, because floating-point sums depend on the order, and scores must not depend on the order
/// in which events arrived.
pub fn weighted(observations: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let mut all: Vec<(f64, f64)> = observations.into_iter().collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let weight: f64 = all.iter().map(|(_, weight)| weight).sum();
    let sum: f64 = all.iter().map(|(value, weight)| value * weight).sum();
    (weight > 0.0).then(|| sum / weight)
}

/// The unweighted mean; `None` without values.
pub fn plain(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    weighted(values.into_iter().map(|value| (value, 1.0)))
}

/// Whether a threshold is met.
pub fn meets(value: f64, threshold: f64) -> bool {
    value >= threshold - GUARD
}

/// Converts a count to a floating-point number.
pub fn count(n: usize) -> f64 {
    // Counts of tasks are far below 2^52.
    n as f64
}

/// Limits a value to 0..=1.
pub fn clamped(value: f64) -> f64 {
    value.clamp(0.0, 1.0)
}
