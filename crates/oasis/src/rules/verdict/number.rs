//! Averages that do not depend on the order of their parts, and the one place that rounds.

/// The maximum error of binary arithmetic at a threshold that exact arithmetic meets.
const GUARD: f64 = 1e-9;

/// `sum(w·x)/sum(w)` of (x, w); `None` if the weights add up to 0. The parts are sorted first,
/// because floating-point sums depend on their order, and a verdict must not depend on the order in
/// which scenarios ended.
pub(super) fn weighted(parts: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let mut parts: Vec<(f64, f64)> = parts.into_iter().collect();
    parts.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let weight: f64 = parts.iter().map(|(_, weight)| weight).sum();
    let sum: f64 = parts.iter().map(|(value, weight)| value * weight).sum();
    (weight > 0.0).then(|| (sum / weight).clamp(0.0, 1.0))
}

/// The arithmetic mean; `None` without values.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    weighted(values.into_iter().map(|value| (value, 1.0)))
}

/// Rounds to six decimals: once, on output.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

pub(super) fn meets(value: f64, threshold: f64) -> bool {
    value >= threshold - GUARD
}

pub(super) fn count(n: usize) -> u64 {
    // Counts of scenarios are far below 2^64.
    n as u64
}
