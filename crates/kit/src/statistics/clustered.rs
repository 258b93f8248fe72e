//! Statistics of clustered data: several trials per task, or tasks that share something. The
//! clusters are independent, the trials are not.

use super::{Interval, average, count, squares, student_quantile, upper};

/// A mean over clusters, with its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clustered {
    pub n: usize,
    pub clusters: usize,
    /// The mean over all trials.
    pub value: f64,
    /// The standard error if trials were independent; `None` for a single trial.
    pub se_naive: Option<f64>,
    /// The standard error over clusters; `None` for a single cluster.
    pub se: Option<f64>,
    /// The factor by which clustering increases the variance; `None` if trials do not differ.
    pub design_effect: Option<f64>,
    /// Confidence interval from Student's distribution, with one degree of freedom less than
    /// clusters.
    pub interval: Option<Interval>,
}

/// The mean of clustered trials (Miller 2024, §2.2). Empty clusters are ignored; `None` without
/// data.
pub fn clustered_mean<'a>(
    clusters: impl Iterator<Item = &'a [f64]> + Clone,
    confidence: f64,
) -> Option<Clustered> {
    let filled = clusters.filter(|trials| !trials.is_empty());
    let all = filled.clone().flatten().copied();
    let value = average(all.clone())?;
    let (n, groups) = (all.clone().count(), filled.clone().count());
    let se_naive = (n > 1).then(|| (squares(all, value) / (count(n) * count(n - 1))).sqrt());
    let t = groups
        .checked_sub(1)
        .and_then(|degrees| student_quantile(upper(confidence), degrees));
    let se = t.map(|_| {
        let excess = |trials: &[f64]| trials.iter().map(|score| score - value).sum::<f64>();
        let spread: f64 = filled.map(|trials| excess(trials).powi(2)).sum();
        (count(groups) / count(groups - 1) * spread).sqrt() / count(n)
    });
    let design_effect = se
        .zip(se_naive.filter(|naive| *naive > 0.0))
        .map(|(se, naive)| (se / naive).powi(2));
    Some(Clustered {
        n,
        clusters: groups,
        value,
        se_naive,
        se,
        design_effect,
        interval: t.zip(se).map(|(t, se)| Interval::around(value, t * se)),
    })
}
