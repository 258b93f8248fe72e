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
        Self::of(scores, 1.0, SCORE_RANGES)
    }

    /// Of latencies in milliseconds.
    pub fn of_latencies(latencies: impl Iterator<Item = u64> + Clone) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "milliseconds are far below 2^52"
        )]
        let latencies = latencies.map(|ms| ms as f64);
        let most = latencies.clone().fold(1.0, f64::max);
        Self::of(latencies, ceiling(most), LATENCY_RANGES)
    }

    fn of(values: impl Iterator<Item = f64>, end: f64, ranges: usize) -> Self {
        let mut counts = vec![0; ranges];
        for value in values {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                clippy::cast_sign_loss,
                reason = "a place in a short list; the cast saturates"
            )]
            let range = (value / end * ranges as f64).floor() as usize;
            if let Some(count) = counts.get_mut(range.min(ranges - 1)) {
                *count += 1;
            }
        }
        Self { end, counts }
    }
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
