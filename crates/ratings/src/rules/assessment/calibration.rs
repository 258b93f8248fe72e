//! Compares scores with the last assessment and flags large moves for a person's review (AAAF
//! calibration check).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rules::assessment::Rating;
use crate::rules::config::ReviewPolicy;
use crate::rules::scoring::composite::AxisRating;
use crate::rules::scoring::dimension::{Axis, Dimension};
use crate::rules::scoring::tier::Score;

/// The stored scores of an assessment. Deserializes from a serialized [`Rating`] or from bare
/// numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    #[serde(default)]
    pub performance: AxisScores,
    #[serde(default)]
    pub capability: AxisScores,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AxisScores {
    #[serde(default)]
    pub composite_score: Option<Score>,
    #[serde(default)]
    pub dimensions: BTreeMap<Dimension, DimensionScore>,
}

/// The score of a dimension, in either form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DimensionScore {
    /// The bare score; `null` if the dimension is not assessed.
    Bare(Option<Score>),
    /// The score as a member of an object.
    Within {
        /// `null` if the dimension is not assessed.
        score: Option<Score>,
    },
}

impl DimensionScore {
    const fn get(self) -> Option<Score> {
        match self {
            Self::Bare(score) | Self::Within { score } => score,
        }
    }
}

impl From<&AxisRating> for AxisScores {
    fn from(rating: &AxisRating) -> Self {
        let dimensions = rating.dimensions.iter();
        Self {
            composite_score: rating.composite_score,
            dimensions: dimensions
                .map(|(it, measure)| (*it, DimensionScore::Bare(measure.score())))
                .collect(),
        }
    }
}

impl From<&Rating> for Scores {
    fn from(rating: &Rating) -> Self {
        Self {
            performance: (&rating.performance).into(),
            capability: (&rating.capability).into(),
        }
    }
}

impl Scores {
    /// The dimensions whose score differs in `now`.
    pub fn changed(&self, now: &Self) -> Vec<Dimension> {
        let score = |of: &AxisScores, it: &Dimension| of.dimensions.get(it).and_then(|it| it.get());
        let axes = Axis::ALL.into_iter();
        let changed = axes.flat_map(|axis| {
            let (old, new) = (self.axis(axis), now.axis(axis));
            let dimensions = axis.dimensions().iter().copied();
            dimensions.filter(move |it| score(old, it) != score(new, it))
        });
        changed.collect()
    }

    pub fn score(&self, dimension: Dimension) -> Option<Score> {
        let dimensions = &self.axis(dimension.axis()).dimensions;
        dimensions.get(&dimension).and_then(|it| it.get())
    }

    /// The dimensions of an axis that have a score.
    pub fn scored(&self, axis: Axis) -> Vec<Dimension> {
        let scores = &self.axis(axis).dimensions;
        let of = |it: &Dimension| scores.get(it).and_then(|it| it.get());
        let dimensions = axis.dimensions().iter().copied();
        dimensions.filter(|it| of(it).is_some()).collect()
    }

    const fn axis(&self, axis: Axis) -> &AxisScores {
        match axis {
            Axis::Performance => &self.performance,
            Axis::Capability => &self.capability,
        }
    }
}

/// The result of the check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The scores that moved too far.
    pub flags: Vec<Flag>,
    pub human_review_required: bool,
    pub badge: BadgeDecision,
}

impl Calibration {
    /// The result under an organization's review policy, which can require a review in any case.
    #[must_use]
    pub fn under_policy(self, policy: ReviewPolicy) -> Self {
        match policy {
            ReviewPolicy::Anomalies => self,
            ReviewPolicy::Always => Self {
                human_review_required: true,
                badge: BadgeDecision::Withheld,
                ..self
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadgeDecision {
    Issue,
    /// The badge waits for the review.
    Withheld,
}

/// A score that moved too far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flag {
    /// A dimension, or `performance_composite`, `capability_composite`.
    pub subject: String,
    pub previous: Score,
    pub current: Score,
    /// The size of the move.
    pub delta: f64,
}

/// Compares an assessment with the agent's last one. A move of exactly `delta` raises no flag. If
/// the weights changed in between, composites are not comparable, and only dimensions are compared.
pub fn calibrate(
    previous: &Scores,
    current: &Scores,
    delta: f64,
    weights_changed: bool,
) -> Calibration {
    let limit = i32::from(Score::of(delta).ten_thousandths());
    let mut flags = Vec::new();
    let mut compare = |subject: String, previous: Option<Score>, current: Option<Score>| {
        let (Some(previous), Some(current)) = (previous, current) else {
            return;
        };
        let moved = i32::from(current.ten_thousandths()) - i32::from(previous.ten_thousandths());
        if moved.abs() > limit {
            flags.push(Flag {
                subject,
                previous,
                current,
                delta: f64::from(moved) / 10_000.0,
            });
        }
    };
    for axis in Axis::ALL {
        let (old, new) = (previous.axis(axis), current.axis(axis));
        if !weights_changed {
            compare(
                format!("{axis}_composite"),
                old.composite_score,
                new.composite_score,
            );
        }
        for dimension in axis.dimensions() {
            let score = |of: &AxisScores| of.dimensions.get(dimension).and_then(|it| it.get());
            compare(dimension.to_string(), score(old), score(new));
        }
    }
    let moved = !flags.is_empty();
    Calibration {
        flags,
        human_review_required: moved,
        badge: if moved {
            BadgeDecision::Withheld
        } else {
            BadgeDecision::Issue
        },
    }
}
