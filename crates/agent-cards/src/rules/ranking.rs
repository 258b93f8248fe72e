//! Ranks candidates by the weighted mean of their cards' three totals.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Scorecard;
use super::history::Scores;
use super::points::Points;

/// The weights of the dimensions. Only their proportions matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Weights {
    #[serde(default)]
    pub compliance: Points,
    #[serde(default)]
    pub trust: Points,
    /// For availability; an agent that was not tested has 0 points.
    #[serde(default)]
    pub availability: Points,
}

/// The scoring guide's example for agents that receive payments: trust has the largest weight.
impl Default for Weights {
    fn default() -> Self {
        Self {
            compliance: Points::ratio(3, 10),
            trust: Points::ratio(5, 10),
            availability: Points::ratio(2, 10),
        }
    }
}

/// Why a text is not a set of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWeights {
    #[error(
        "must be `DIMENSION=N,…` with the dimensions compliance, trust and availability, each once, and N from 0 to 100"
    )]
    Form,
    #[error("must have at least one weight above 0")]
    Zero,
}

impl Weights {
    /// Refuses weights that are all 0.
    ///
    /// # Errors
    /// [`NotWeights::Zero`].
    pub fn checked(self) -> Result<Self, NotWeights> {
        if self.sum() == 0 {
            return Err(NotWeights::Zero);
        }
        Ok(self)
    }

    const fn sum(self) -> u64 {
        self.compliance.hundredths() + self.trust.hundredths() + self.availability.hundredths()
    }

    /// The weighted mean, of 100.
    pub fn score(self, scores: &Scores) -> Points {
        let available = scores.availability.map_or(0, |it| it.total.hundredths());
        let weighed = self.compliance.hundredths() * scores.compliance.total.hundredths()
            + self.trust.hundredths() * scores.trust.total.hundredths()
            + self.availability.hundredths() * available;
        Points::ratio(weighed, self.sum() * 100)
    }
}

/// Dimensions that are not named have weight 0.
impl FromStr for Weights {
    type Err = NotWeights;

    fn from_str(text: &str) -> Result<Self, NotWeights> {
        let (mut compliance, mut trust, mut availability) = (None, None, None);
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').ok_or(NotWeights::Form)?;
            let place = match name.trim() {
                "compliance" => &mut compliance,
                "trust" => &mut trust,
                "availability" => &mut availability,
                _ => return Err(NotWeights::Form),
            };
            let weight: Points = weight.trim().parse().map_err(|_| NotWeights::Form)?;
            if place.replace(weight).is_some() {
                return Err(NotWeights::Form);
            }
        }
        Self {
            compliance: compliance.unwrap_or_default(),
            trust: trust.unwrap_or_default(),
            availability: availability.unwrap_or_default(),
        }
        .checked()
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (compliance, trust) = (self.compliance, self.trust);
        let availability = self.availability;
        write!(
            f,
            "compliance {compliance}, trust {trust}, availability {availability}"
        )
    }
}

/// A candidate with its rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ranked {
    /// From 1; equal scores share a rank.
    pub rank: usize,
    /// The candidate's label: its file, its URL, or a name.
    pub card: String,
    /// The weighted mean.
    pub score: Points,
    pub scores: Scores,
}

/// A candidate whose card could not be fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unranked {
    /// The candidate's label.
    pub card: String,
    /// Why the card could not be fetched.
    pub fault: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ranking {
    pub weights: Weights,
    /// Best first; equal scores in the order given.
    pub ranking: Vec<Ranked>,
    /// Candidates whose card could not be fetched, in the order given.
    pub unranked: Vec<Unranked>,
}

impl Ranking {
    /// Ranks candidates, each with its scorecard or the reason for a missing card.
    pub fn of(
        weights: Weights,
        candidates: impl IntoIterator<Item = (String, Result<Scorecard, String>)>,
    ) -> Self {
        let (mut ranking, mut unranked) = (Vec::new(), Vec::new());
        for (card, scored) in candidates {
            match scored {
                Ok(scorecard) => {
                    let scores = Scores::from(&scorecard);
                    ranking.push(Ranked {
                        rank: 0,
                        card,
                        score: weights.score(&scores),
                        scores,
                    });
                }
                Err(fault) => unranked.push(Unranked { card, fault }),
            }
        }
        ranking.sort_by_key(|it: &Ranked| Reverse(it.score));
        let totals: Vec<Points> = ranking.iter().map(|it| it.score).collect();
        for it in &mut ranking {
            it.rank = 1 + totals.iter().filter(|other| **other > it.score).count();
        }
        Self {
            weights,
            ranking,
            unranked,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rstest::rstest;

    use super::*;
    use crate::rules::history::Scored;
    use crate::rules::rating::{AvailabilityRating, ComplianceRating, TrustRating};

    fn scores(compliance: u64, trust: u64, availability: Option<u64>) -> Scores {
        let (compliance, trust) = (Points::whole(compliance), Points::whole(trust));
        Scores {
            compliance: Scored {
                total: compliance,
                rating: ComplianceRating::of(compliance),
            },
            trust: Scored {
                total: trust,
                rating: TrustRating::of(trust),
            },
            availability: availability.map(Points::whole).map(|total| Scored {
                total,
                rating: AvailabilityRating::of(total),
            }),
            production_ready: false,
            blockers: Vec::new(),
            findings: BTreeMap::new(),
        }
    }

    /// The first case is `score_for_payments` of the scoring guide.
    #[rstest]
    #[case::payments(Weights::default(), scores(90, 80, Some(50)), "77")]
    #[case::not_asked_is_nothing(Weights::default(), scores(90, 80, None), "67")]
    #[case::proportions("compliance=3,trust=5,availability=2".parse().unwrap(), scores(90, 80, Some(50)), "77")]
    #[case::one_alone("trust=1".parse().unwrap(), scores(0, 36, None), "36")]
    #[case::thirds("compliance=1,trust=1,availability=1".parse().unwrap(), scores(100, 0, Some(0)), "33.33")]
    #[case::all(Weights::default(), scores(100, 100, Some(100)), "100")]
    fn a_score_is_the_weighted_mean(
        #[case] weights: Weights,
        #[case] scores: Scores,
        #[case] expected: &str,
    ) {
        assert_eq!(weights.score(&scores).to_string(), expected);
    }

    #[rstest]
    #[case("", NotWeights::Form)]
    #[case("trust", NotWeights::Form)]
    #[case("trust=x", NotWeights::Form)]
    #[case("trust=-1", NotWeights::Form)]
    #[case("trust=1,trust=2", NotWeights::Form)]
    #[case("speed=1", NotWeights::Form)]
    #[case("trust=0,compliance=0", NotWeights::Zero)]
    fn invalid_weights_are_rejected(#[case] text: &str, #[case] fault: NotWeights) {
        assert_eq!(text.parse::<Weights>(), Err(fault));
    }
}
