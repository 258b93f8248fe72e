//! Confidence intervals of dimension scores, and whether a move between two ratings is significant.
//!
//! Dimensions that are means of tasks, calls or decisions use Wilson's interval over their sample,
//! which is conservative for graded scores. The others (spreads, shares of passed domains, ladders,
//! improvements) are measured again over resampled tasks. Both are 95 % intervals that contain the
//! score itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rules::assessment::Scored;
use crate::rules::config::Config;
use crate::rules::scoring::capability::{self, Traces};
use crate::rules::scoring::dimension::{Axis, Dimension};
use crate::rules::scoring::measure::Measure;
use crate::rules::scoring::performance::{self, WeightedTasks};
use crate::rules::scoring::task::TaskRecord;
use crate::rules::scoring::tier::Score;
use touchstone_kit::statistics::{Interval, quantile, wilson_of};

const CONFIDENCE: f64 = 0.95;
const RESAMPLES: usize = 200;
/// Maximum number of tasks in a resample. Fewer tasks than exist make an interval wider, never
/// narrower.
const MAX_SAMPLE: usize = 2000;
/// Fixed, so that the same evidence gives the same intervals.
const SEED: u64 = 0x4141_4146;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    Wilson,
    Bootstrap,
}

/// The 95 % interval of a dimension's score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreInterval {
    pub score: Score,
    pub low: Score,
    pub high: Score,
    pub method: Method,
    /// The score in the agent's previous rating; `None` if that has no interval to compare with.
    #[serde(default)]
    pub previous: Option<Score>,
    /// Whether the move since then is within the noise.
    #[serde(default)]
    pub within_noise: Option<bool>,
}

/// The intervals of the assessed dimensions.
pub type Intervals = BTreeMap<Dimension, ScoreInterval>;

/// The limits of dimensions that are measured over resampled tasks.
pub(crate) type Resampled = BTreeMap<Dimension, Interval>;

const fn method(dimension: Dimension) -> Method {
    match dimension {
        Dimension::TaskCompletionRate
        | Dimension::Accuracy
        | Dimension::Speed
        | Dimension::ReviewCompliance
        | Dimension::ToolProficiency
        | Dimension::DelegationCapability
        | Dimension::OrchestrationSkills => Method::Wilson,
        Dimension::Consistency
        | Dimension::DomainBreadth
        | Dimension::ComplexityCeiling
        | Dimension::AutonomyLevel
        | Dimension::LearningRate => Method::Bootstrap,
    }
}

/// Measures resampled tasks; `records` are in the order in which they are measured.
pub(crate) fn resampled(records: &[TaskRecord], config: &Config) -> Resampled {
    let mut draws = SplitMix64(SEED);
    let mut replicates: BTreeMap<Dimension, Vec<f64>> = BTreeMap::new();
    for _ in 0..RESAMPLES {
        let mut places: Vec<usize> = (0..records.len().min(MAX_SAMPLE))
            .map(|_| draws.below(records.len()))
            .collect();
        // The learning rate depends on the order of tasks.
        places.sort_unstable();
        let drawn: Vec<&TaskRecord> = places
            .into_iter()
            .filter_map(|place| records.get(place))
            .collect();
        let performance = performance::measure(WeightedTasks::by_age(&drawn), &config.rules);
        let capability = capability::measure(&drawn, &Traces::default(), config);
        for (dimension, measure) in performance.into_iter().chain(capability) {
            if let (Method::Bootstrap, Some(raw)) = (method(dimension), measure.raw) {
                replicates.entry(dimension).or_default().push(raw);
            }
        }
    }
    // A dimension that most resamples cannot assess has no interval.
    replicates.retain(|_, values| values.len() * 2 > RESAMPLES);
    let limits = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let tail = (1.0 - CONFIDENCE) / 2.0;
        Some(Interval {
            low: quantile(&values, tail)?,
            high: quantile(&values, 1.0 - tail)?,
        })
    };
    let found = replicates.into_iter();
    found
        .filter_map(|(dimension, values)| Some((dimension, limits(values)?)))
        .collect()
}

/// The intervals of a score.
pub(crate) fn of_scored(scored: &Scored, resampled: &Resampled) -> Intervals {
    let of = |dimension: Dimension, measure: &Measure| {
        Some((dimension, interval(dimension, measure, resampled)?))
    };
    match scored {
        Scored::Rating(rating) => Axis::ALL
            .into_iter()
            .flat_map(|axis| &rating.axis(axis).dimensions)
            .filter_map(|(dimension, measure)| of(*dimension, measure))
            .collect(),
        Scored::Single(single) => of(single.dimension, &single.result).into_iter().collect(),
    }
}

fn interval(
    dimension: Dimension,
    measure: &Measure,
    resampled: &Resampled,
) -> Option<ScoreInterval> {
    let score = measure.score()?;
    let method = method(dimension);
    let found = match method {
        Method::Wilson => {
            // The sample of this dimension counts tools, but the observations are calls.
            let n = match dimension {
                Dimension::ToolProficiency => measure.evidence_count,
                _ => measure.sample_size,
            };
            wilson_of(score.as_f64(), n, CONFIDENCE)?.interval
        }
        Method::Bootstrap => *resampled.get(&dimension)?,
    };
    Some(ScoreInterval {
        score,
        low: Score::of(found.low).min(score),
        high: Score::of(found.high).max(score),
        method,
        previous: None,
        within_noise: None,
    })
}

/// Marks for each dimension whether its move since the previous rating may be noise.
pub fn compare(now: &mut Intervals, then: &Intervals) {
    for (dimension, it) in now {
        if let Some(before) = then.get(dimension) {
            it.previous = Some(before.score);
            it.within_noise = Some(is_noise(it, before));
        }
    }
}

/// Whether the 95 % interval of the difference contains zero. It is computed from the intervals of
/// the two independent scores (Newcombe 1998; Zou and Donner 2008).
fn is_noise(now: &ScoreInterval, then: &ScoreInterval) -> bool {
    let distance = |one: Score, other: Score| one.as_f64() - other.as_f64();
    let moved = distance(now.score, then.score);
    let down = distance(now.score, now.low).hypot(distance(then.high, then.score));
    let up = distance(now.high, now.score).hypot(distance(then.score, then.low));
    moved - down <= 0.0 && moved + up >= 0.0
}

/// A reproducible pseudorandom sequence (SplitMix64).
struct SplitMix64(u64);

impl SplitMix64 {
    /// An index below `length`.
    #[expect(clippy::expect_used, reason = "the index is below a `usize`")]
    fn below(&mut self, length: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        let length = u64::try_from(length).unwrap_or(u64::MAX).max(1);
        usize::try_from(mixed % length).expect("the index is below the length")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn of(dimension: Dimension, score: f64, sample: usize) -> Option<ScoreInterval> {
        let measure = Measure::assessed(score, sample, sample);
        interval(dimension, &measure, &Resampled::new())
    }

    #[test]
    fn means_have_a_wilson_confidence_interval() {
        // 81 of 263: Newcombe 1998, table I.
        let found = of(Dimension::TaskCompletionRate, 81.0 / 263.0, 263).unwrap();
        assert_eq!(
            (found.low, found.high, found.method),
            (Score::of(0.2553), Score::of(0.3662), Method::Wilson)
        );
        // Even a perfect score has an interval.
        let found = of(Dimension::Accuracy, 1.0, 20).unwrap();
        assert_eq!(found.high, found.score);
        assert!(found.low < Score::of(0.85), "{found:?}");
        assert_eq!(of(Dimension::DomainBreadth, 0.5, 20), None);
    }

    #[rstest]
    #[case(0.80, 0.75, 20, true)]
    #[case(0.80, 0.75, 2000, false)]
    #[case(0.95, 0.30, 20, false)]
    #[case(0.80, 0.80, 20, true)]
    fn a_score_change_within_the_sampling_error_is_noise(
        #[case] now: f64,
        #[case] then: f64,
        #[case] sample: usize,
        #[case] noise: bool,
    ) {
        let all = |score: f64| -> Intervals {
            let dimension = Dimension::Accuracy;
            let found = of(dimension, score, sample).unwrap();
            Intervals::from([(dimension, found)])
        };
        let (mut now, then) = (all(now), all(then));
        compare(&mut now, &then);
        let found = &now[&Dimension::Accuracy];
        assert_eq!(found.within_noise, Some(noise), "{found:?}");
        assert_eq!(found.previous, Some(then[&Dimension::Accuracy].score));
        compare(&mut now, &Intervals::new());
        assert_eq!(now[&Dimension::Accuracy].within_noise, Some(noise));
    }

    #[test]
    fn random_draws_are_reproducible_and_cover_the_range() {
        let drawn = || {
            let mut draws = SplitMix64(SEED);
            (0..200).map(|_| draws.below(7)).collect::<Vec<usize>>()
        };
        assert_eq!(drawn(), drawn());
        assert!((0..7).all(|place| drawn().contains(&place)));
        assert_eq!(SplitMix64(1).below(0), 0);
    }
}
