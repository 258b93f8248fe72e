//! The weight of evidence by age (AAAF recency): whole days before the end of the window, in
//! buckets.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

const DAY_SECONDS: i128 = 86_400;
const NANOSECONDS: i128 = 1_000_000_000;

/// Weights by age, in contiguous buckets from day 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, f64>", into = "BTreeMap<String, f64>")]
pub struct Recency(Vec<Bucket>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Bucket {
    first: u32,
    last: u32,
    weight: f64,
}

/// Why buckets are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecencyFault {
    /// The key has another form.
    #[error("`{0}` is not a range of days; write it as `0_7_days`")]
    Key(String),
    /// The weight is out of range.
    #[error("`{0}` must have a weight between 0 and 1")]
    Weight(String),
    /// A day without a weight, or with two.
    #[error(
        "the ranges must cover all days from day 0 on without gaps or overlaps; day {0} is \
        missing or covered twice"
    )]
    Gap(u32),
    #[error("at least one range of days is required")]
    Empty,
}

impl Default for Recency {
    fn default() -> Self {
        let bucket = |first, last, weight| Bucket {
            first,
            last,
            weight,
        };
        Self(vec![
            bucket(0, 7, 1.0),
            bucket(8, 14, 0.8),
            bucket(15, 30, 0.6),
        ])
    }
}

impl TryFrom<BTreeMap<String, f64>> for Recency {
    type Error = RecencyFault;

    fn try_from(given: BTreeMap<String, f64>) -> Result<Self, RecencyFault> {
        let mut buckets = Vec::with_capacity(given.len());
        for (key, weight) in given {
            let days = key.strip_suffix("_days").and_then(|it| it.split_once('_'));
            let days =
                days.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
            let (first, last): (u32, u32) = days
                .filter(|(first, last)| first <= last)
                .ok_or_else(|| RecencyFault::Key(key.clone()))?;
            if !(0.0..=1.0).contains(&weight) {
                return Err(RecencyFault::Weight(key));
            }
            buckets.push(Bucket {
                first,
                last,
                weight,
            });
        }
        buckets.sort_by_key(|it| it.first);
        let mut next = Some(0);
        for bucket in &buckets {
            if next != Some(bucket.first) {
                return Err(RecencyFault::Gap(next.unwrap_or(u32::MAX)));
            }
            next = bucket.last.checked_add(1);
        }
        if buckets.is_empty() {
            return Err(RecencyFault::Empty);
        }
        Ok(Self(buckets))
    }
}

impl From<Recency> for BTreeMap<String, f64> {
    fn from(recency: Recency) -> Self {
        let keyed = |it: &Bucket| (format!("{}_{}_days", it.first, it.last), it.weight);
        recency.0.iter().map(keyed).collect()
    }
}

impl Recency {
    /// The weight of something that happened at this time. Evidence older than the last bucket has
    /// its weight, for longer windows.
    pub fn weight(&self, at: Timestamp, window_end: Timestamp) -> f64 {
        let age = window_end.as_nanosecond() - at.as_nanosecond();
        let days = age.max(0) / (DAY_SECONDS * NANOSECONDS);
        let own = self.0.iter().find(|it| days <= i128::from(it.last));
        own.or(self.0.last()).map_or(1.0, |it| it.weight)
    }
}
