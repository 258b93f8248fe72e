//! Multiple testing (Holm 1979).

use super::count;

/// A p value adjusted for multiple testing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adjusted {
    /// The adjusted p value.
    pub p: f64,
    /// Whether it is below the family-wise error.
    pub rejected: bool,
}

/// Holm's step-down adjustment; the results keep the order of `p_values`.
pub fn holm(p_values: &[f64], alpha: f64) -> Vec<Adjusted> {
    let mut order: Vec<(usize, f64)> = p_values.iter().copied().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let mut adjusted: Vec<(usize, f64)> = Vec::with_capacity(order.len());
    let mut least = 0.0_f64;
    for (rank, (place, p)) in order.into_iter().enumerate() {
        least = least.max(p * count(p_values.len() - rank)).min(1.0);
        adjusted.push((place, least));
    }
    adjusted.sort_by_key(|(place, _)| *place);
    let entry = |(_, p)| Adjusted {
        p,
        rejected: p <= alpha,
    };
    adjusted.into_iter().map(entry).collect()
}
