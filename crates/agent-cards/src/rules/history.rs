//! The stored result of scoring a card: its scores and finding codes, without the card's content;
//! and the comparison of results over time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::finding::Dimension;
use super::points::Points;
use super::rating::{AvailabilityRating, ComplianceRating, TrustRating};
use super::scorecard::{Blocker, Scorecard};

/// One scoring of the card at a URL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CardScoring {
    pub id: String,
    /// URL of the card.
    pub url: String,
    pub scored_at: Timestamp,
    /// Whether the agent was tested live.
    pub live: bool,
    /// Hexadecimal SHA-256 of the card's bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The scores; `None` if no card was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<Scores>,
    /// Why no card was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// The scores of a card without findings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scores {
    pub compliance: Scored<ComplianceRating>,
    pub trust: Scored<TrustRating>,
    /// `None` if the agent was not tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability: Option<Scored<AvailabilityRating>>,
    /// Whether the scores are high enough for production.
    pub production_ready: bool,
    /// The dimensions that are too low for production.
    pub blockers: Vec<Blocker>,
    /// Number of findings by code. Codes are strings, so that results of older versions can be
    /// read.
    pub findings: BTreeMap<String, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored<R> {
    /// Of 100.
    pub total: Points,
    pub rating: R,
}

impl From<&Scorecard> for Scores {
    fn from(scorecard: &Scorecard) -> Self {
        let findings = scorecard.counts.iter().map(|(code, n)| (code_of(code), *n));
        let availability = &scorecard.availability;
        Self {
            compliance: Scored {
                total: scorecard.compliance.total,
                rating: scorecard.compliance.rating,
            },
            trust: Scored {
                total: scorecard.trust.total,
                rating: scorecard.trust.rating,
            },
            availability: availability.total.map(|total| Scored {
                total,
                rating: availability.rating,
            }),
            production_ready: scorecard.production_ready,
            blockers: scorecard.blockers.clone(),
            findings: findings.collect(),
        }
    }
}

/// A dimension that has dropped to a lower band.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RatingDrop {
    pub dimension: Dimension,
    /// The earlier band.
    pub from: String,
    /// The current band.
    pub to: String,
}

/// Totals below which the organization of a watched card is alerted. 0 turns the alert off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AlertBelow {
    pub compliance: Points,
    pub trust: Points,
    /// For availability, if the agent is tested.
    pub availability: Points,
}

/// The thresholds of the scoring guide: compliance 80, trust 70, and availability 40, the limit of
/// the band `Unavailable`.
impl Default for AlertBelow {
    fn default() -> Self {
        Self {
            compliance: Points::whole(80),
            trust: Points::whole(70),
            availability: Points::whole(40),
        }
    }
}

/// A dimension whose total is below its threshold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alert {
    pub dimension: Dimension,
    pub value: Points,
    pub below: Points,
}

/// Dimensions that are below their thresholds now and were not at their last scoring since the
/// thresholds of `watched` apply. `earlier` is as for [`rating_drops`].
pub fn alerts(
    now: &CardScoring,
    earlier: &[CardScoring],
    thresholds: AlertBelow,
    watched: Timestamp,
) -> Vec<Alert> {
    let Some(scores) = &now.scores else {
        return Vec::new();
    };
    let since = earlier.iter().filter(|it| it.scored_at >= watched);
    let since: Vec<&Scores> = since.filter_map(|it| it.scores.as_ref()).collect();
    let last = since.first();
    let asked = since.iter().find_map(|it| it.availability);
    [
        (
            Dimension::Compliance,
            Some(scores.compliance.total),
            last.map(|it| it.compliance.total),
            thresholds.compliance,
        ),
        (
            Dimension::Trust,
            Some(scores.trust.total),
            last.map(|it| it.trust.total),
            thresholds.trust,
        ),
        (
            Dimension::Availability,
            scores.availability.map(|it| it.total),
            asked.map(|it| it.total),
            thresholds.availability,
        ),
    ]
    .into_iter()
    .filter_map(|(dimension, value, before, below)| {
        let value = value.filter(|value| *value < below)?;
        let news = before.is_none_or(|before| before >= below);
        news.then_some(Alert {
            dimension,
            value,
            below,
        })
    })
    .collect()
}

/// Dimensions that dropped to a lower band. Each dimension is compared with the last time it was
/// scored: a scoring without a live test does not count for availability. `earlier` is newest
/// first, and has at least the newest scoring, the newest with scores and the newest with a live
/// test.
pub fn rating_drops(now: &CardScoring, earlier: &[CardScoring]) -> Vec<RatingDrop> {
    let Some(scores) = &now.scores else {
        return vanished(earlier).into_iter().collect();
    };
    let last = earlier.iter().find_map(|it| it.scores.as_ref());
    let availability = if is_gone(earlier) {
        None // The lowest possible band was already reported.
    } else {
        last_availability(earlier)
    };
    [
        last.and_then(|it| rating_drop(Dimension::Compliance, it.compliance, scores.compliance)),
        last.and_then(|it| rating_drop(Dimension::Trust, it.trust, scores.trust)),
        availability
            .zip(scores.availability)
            .and_then(|(before, now)| rating_drop(Dimension::Availability, before, now)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// An agent whose card is gone counts as unavailable, whether or not it was tested before. This is
/// reported once.
fn vanished(earlier: &[CardScoring]) -> Option<RatingDrop> {
    let worst = AvailabilityRating::Unavailable;
    let before = last_availability(earlier).map_or(AvailabilityRating::NotTested, |it| it.rating);
    let news = !earlier.is_empty() && !is_gone(earlier) && before != worst;
    news.then(|| RatingDrop {
        dimension: Dimension::Availability,
        from: code_of(before),
        to: code_of(worst),
    })
}

/// Whether the last scoring found no card.
fn is_gone(earlier: &[CardScoring]) -> bool {
    earlier.first().is_some_and(|it| it.scores.is_none())
}

fn last_availability(earlier: &[CardScoring]) -> Option<Scored<AvailabilityRating>> {
    let mut scores = earlier.iter().filter_map(|it| it.scores.as_ref());
    scores.find_map(|it| it.availability)
}

fn rating_drop<R: Ord + Copy + Serialize>(
    dimension: Dimension,
    before: Scored<R>,
    now: Scored<R>,
) -> Option<RatingDrop> {
    (now.rating < before.rating).then(|| RatingDrop {
        dimension,
        from: code_of(before.rating),
        to: code_of(now.rating),
    })
}

/// The serialized name of a value.
pub fn code_of(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn scoring(compliance: u64, trust: u64, availability: Option<u64>) -> CardScoring {
        let scored = |total| Points::whole(total);
        CardScoring {
            id: "look_1".to_owned(),
            url: "https://agents.example/".to_owned(),
            scored_at: Timestamp::UNIX_EPOCH,
            live: availability.is_some(),
            digest: None,
            scores: Some(Scores {
                compliance: Scored {
                    total: scored(compliance),
                    rating: ComplianceRating::of(scored(compliance)),
                },
                trust: Scored {
                    total: scored(trust),
                    rating: TrustRating::of(scored(trust)),
                },
                availability: availability.map(|it| Scored {
                    total: scored(it),
                    rating: AvailabilityRating::of(scored(it)),
                }),
                production_ready: false,
                blockers: Vec::new(),
                findings: BTreeMap::from([("URL_INVALID".to_owned(), 1)]),
            }),
            fault: None,
        }
    }

    fn nothing(live: bool) -> CardScoring {
        CardScoring {
            scores: None,
            fault: Some("unreachable".to_owned()),
            live,
            ..scoring(0, 0, None)
        }
    }

    #[rstest]
    #[case::first(scoring(10, 10, Some(10)), &[], &[])]
    #[case::the_same(scoring(90, 60, Some(80)), &[scoring(90, 60, Some(80))], &[])]
    #[case::within_a_band(scoring(90, 60, Some(80)), &[scoring(99, 79, Some(94))], &[])]
    #[case::better(scoring(100, 90, Some(99)), &[scoring(90, 60, Some(80))], &[])]
    #[case::all(scoring(89, 59, Some(79)), &[scoring(90, 60, Some(80))],
        &["compliance EXCELLENT GOOD", "trust TRUSTED MODERATE_TRUST", "availability AVAILABLE DEGRADED"])]
    #[case::not_asked_now(scoring(90, 60, None), &[scoring(90, 60, Some(80))], &[])]
    #[case::not_asked_last_time(scoring(90, 60, Some(39)), &[scoring(90, 60, None), scoring(90, 60, Some(80))],
        &["availability AVAILABLE UNAVAILABLE"])]
    #[case::after_a_fault(scoring(59, 60, None), &[nothing(false), scoring(90, 60, None)], &["compliance EXCELLENT POOR"])]
    #[case::gone(nothing(true), &[scoring(90, 60, Some(80))], &["availability AVAILABLE UNAVAILABLE"])]
    #[case::still_gone(nothing(true), &[nothing(true), scoring(90, 60, Some(80))], &[])]
    #[case::gone_without_having_been_asked(nothing(false), &[scoring(90, 60, None)], &["availability NOT_TESTED UNAVAILABLE"])]
    #[case::gone_and_nobody_asks(nothing(false), &[scoring(90, 60, Some(80))], &["availability AVAILABLE UNAVAILABLE"])]
    #[case::never_there(nothing(true), &[], &[])]
    #[case::gone_after_it_was_down(nothing(true), &[scoring(90, 60, Some(10))], &[])]
    #[case::back_and_worse_than_before(scoring(90, 60, Some(45)), &[nothing(true), scoring(90, 60, Some(80))], &[])]
    #[case::back_and_not_what_it_was(scoring(70, 60, Some(90)), &[nothing(true), scoring(90, 60, Some(80))],
        &["compliance EXCELLENT FAIR"])]
    fn a_rating_drop_is_a_lower_band_than_last_time(
        #[case] now: CardScoring,
        #[case] earlier: &[CardScoring],
        #[case] expected: &[&str],
    ) {
        let rating_drops = rating_drops(&now, earlier);
        let told: Vec<String> = rating_drops
            .iter()
            .map(|it| {
                let dimension = code_of(it.dimension);
                format!("{dimension} {} {}", it.from, it.to)
            })
            .collect();
        assert_eq!(told, expected);
    }

    fn earlier(scoring: CardScoring) -> CardScoring {
        CardScoring {
            scored_at: Timestamp::UNIX_EPOCH - jiff::SignedDuration::from_hours(1),
            ..scoring
        }
    }

    #[rstest]
    #[case::first(scoring(79, 69, Some(39)), &[], &["compliance 79 80", "trust 69 70", "availability 39 40"])]
    #[case::at_the_threshold(scoring(80, 70, Some(40)), &[], &[])]
    #[case::crossed(scoring(90, 69, None), &[scoring(90, 70, None)], &["trust 69 70"])]
    #[case::told_before(scoring(90, 60, None), &[scoring(90, 69, None)], &[])]
    #[case::after_a_fault(scoring(90, 60, None), &[nothing(false), scoring(90, 69, None)], &[])]
    #[case::not_asked_last_time(scoring(90, 90, Some(10)), &[scoring(90, 90, None), scoring(90, 90, Some(50))], &["availability 10 40"])]
    #[case::watched_since(scoring(90, 60, None), &[earlier(scoring(90, 60, None))], &["trust 60 70"])]
    #[case::gone(nothing(true), &[scoring(90, 90, Some(90))], &[])]
    fn an_alert_is_raised_only_when_a_score_falls_below_its_threshold(
        #[case] now: CardScoring,
        #[case] earlier: &[CardScoring],
        #[case] expected: &[&str],
    ) {
        let alerts = alerts(&now, earlier, AlertBelow::default(), Timestamp::UNIX_EPOCH);
        let told: Vec<String> = alerts
            .iter()
            .map(|it| format!("{} {} {}", code_of(it.dimension), it.value, it.below))
            .collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn a_scoring_survives_serialization() {
        for scoring in [
            scoring(93, 33, Some(85)),
            scoring(100, 36, None),
            nothing(true),
        ] {
            let text = serde_json::to_string(&scoring).unwrap();
            assert_eq!(serde_json::from_str::<CardScoring>(&text).unwrap(), scoring);
        }
    }
}
