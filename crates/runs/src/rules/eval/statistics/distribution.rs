//! How many values are in each of some ranges of equal width.

const SCORE_RANGES: usize = 10;
const LATENCY_RANGES: usize = 16;

/// Counts of values from 0 to `end`, by ranges of equal width. The last range includes its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    pub end: f64,
    pub counts: Vec<usize>,
}

impl Distribution {
    /// Of scores, 0.0..=1.0.
    pub fn of_scores(scores: impl Iterator<Item = f64>) -> Self {
        let mut found = Self::for_scores();
        scores.for_each(|score| found.add(score));
        found
    }

    /// Of latencies in milliseconds.
    pub fn of_latencies(latencies: impl Iterator<Item = u64> + Clone) -> Self {
        let mut found = Self::for_latencies(latencies.clone().max().unwrap_or_default());
        latencies.for_each(|ms| found.add_latency(ms));
        found
    }

    /// Without values yet, for scores.
    pub fn for_scores() -> Self {
        Self::empty(1.0, SCORE_RANGES)
    }

    /// Without values yet, for latencies up to `most` milliseconds.
    pub fn for_latencies(most: u64) -> Self {
        Self::empty(ceiling(milliseconds(most).max(1.0)), LATENCY_RANGES)
    }

    fn empty(end: f64, ranges: usize) -> Self {
        let counts = vec![0; ranges];
        Self { end, counts }
    }

    pub fn add_latency(&mut self, ms: u64) {
        self.add(milliseconds(ms));
    }

    pub fn add(&mut self, value: f64) {
        let ranges = self.counts.len();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a place in a short list; the cast saturates"
        )]
        let range = (value / self.end * ranges as f64).floor() as usize;
        if let Some(count) = self.counts.get_mut(range.min(ranges.saturating_sub(1))) {
            *count += 1;
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds are far below 2^52"
)]
const fn milliseconds(ms: u64) -> f64 {
    ms as f64
}

/// The next number of the form 1, 2 or 5 times a power of ten.
fn ceiling(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1.0).log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|it| *it >= value)
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_highest_score_is_in_the_last_range() {
        let found = Distribution::of_scores([1.0, 1.0, 0.0, 0.95].into_iter());
        assert_eq!(found.counts, [1, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
    }

    proptest! {
        #[test]
        fn every_latency_is_counted_once(latencies in prop::collection::vec(0..90_000_u64, 1..200)) {
            let found = Distribution::of_latencies(latencies.iter().copied());
            prop_assert_eq!(found.counts.iter().sum::<usize>(), latencies.len());
            prop_assert!(latencies.iter().all(|ms| (*ms as f64) <= found.end));
        }
    }
}
