//! Agent card scores as a promotion condition, for agents that run elsewhere: the card at a URL was
//! scored recently, and its scores are high enough. Fails closed: an unknown condition is unmet.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::rules::history::CardScoring;
use crate::rules::points::Points;
use crate::rules::{Thresholds, web_url};
use touchstone_deployments::described::Described;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CardPolicy {
    pub url: String,
    /// Minimum compliance.
    #[serde(default = "compliance")]
    pub minimum_compliance: Points,
    /// Minimum trust.
    #[serde(default = "trust")]
    pub minimum_trust: Points,
    /// Minimum availability; `null` if no live test is required.
    #[serde(default = "availability")]
    pub minimum_availability: Option<Points>,
    /// Maximum age of the score in hours.
    #[serde(default = "max_age_hours")]
    pub max_age_hours: u32,
}

const fn compliance() -> Points {
    Thresholds::PRODUCTION.compliance
}

const fn trust() -> Points {
    Thresholds::PRODUCTION.trust
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the type of the member it is the default of"
)]
const fn availability() -> Option<Points> {
    Some(Thresholds::PRODUCTION.availability)
}

/// A week; watched cards are scored far more often.
const fn max_age_hours() -> u32 {
    24 * 7
}

/// A policy that can never be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`agentCard.url` must be an http or https URL of at most 2048 bytes, without credentials")]
pub struct NoCardUrl;

impl CardPolicy {
    /// The default requirements for the card at `url`: those for production.
    pub fn of(url: String) -> Self {
        Self {
            url,
            minimum_compliance: compliance(),
            minimum_trust: trust(),
            minimum_availability: availability(),
            max_age_hours: max_age_hours(),
        }
    }

    /// # Errors
    /// [`NoCardUrl`].
    pub fn check(&self) -> Result<(), NoCardUrl> {
        self.place().map(drop).ok_or(NoCardUrl)
    }

    /// The card's URL in the form that scores are stored by; `None` if no card can be there.
    pub fn place(&self) -> Option<Url> {
        web_url::card_place(&self.url)
    }
}

/// An unmet condition of the card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unscored {
    /// The condition's stable name.
    pub condition: Condition,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// The card has a score.
    CardScored,
    /// The score is recent enough.
    CardAge,
    /// Its compliance is high enough.
    CardCompliance,
    /// Its trust is high enough.
    CardTrust,
    /// Its availability is high enough.
    CardAvailability,
}

impl Condition {
    /// The name in messages and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CardScored => "card-scored",
            Self::CardAge => "card-age",
            Self::CardCompliance => "card-compliance",
            Self::CardTrust => "card-trust",
            Self::CardAvailability => "card-availability",
        }
    }
}

/// The conditions of a policy, in words.
pub fn described(policy: &CardPolicy) -> Vec<Described> {
    let scored = Condition::CardScored.as_str();
    let least = |condition: Condition, name: &str, least: Points| {
        Described::new(
            condition.as_str(),
            format!("the card's {name} is at least {least}"),
        )
        .after(scored)
    };
    let mut all = vec![
        Described::new(scored, format!("the agent card {} has scores", policy.url)),
        Described::new(
            Condition::CardAge.as_str(),
            format!("the scores are at most {} hours old", policy.max_age_hours),
        )
        .after(scored),
        least(
            Condition::CardCompliance,
            "compliance",
            policy.minimum_compliance,
        ),
        least(Condition::CardTrust, "trust", policy.minimum_trust),
    ];
    all.extend(
        policy
            .minimum_availability
            .map(|it| least(Condition::CardAvailability, "availability", it)),
    );
    all
}

/// Every condition that the latest score of the card does not meet.
pub fn unmet(policy: &CardPolicy, last: Option<&CardScoring>, now: Timestamp) -> Vec<Unscored> {
    let mut unmet = Vec::new();
    let mut refuse = |condition, message: String| unmet.push(Unscored { condition, message });
    let Some(scoring) = last else {
        refuse(
            Condition::CardScored,
            "the agent's card has never been scored; score it with `POST \
            /v1/host/touchstone/agent-cards/score`"
                .to_owned(),
        );
        return unmet;
    };
    let Some(scores) = &scoring.scores else {
        refuse(
            Condition::CardScored,
            format!(
                "the card could not be fetched at the last check, {}",
                scoring.scored_at
            ),
        );
        return unmet;
    };
    let age = SignedDuration::from_hours(i64::from(policy.max_age_hours));
    if now
        .checked_sub(age)
        .is_ok_and(|oldest| scoring.scored_at < oldest)
    {
        refuse(
            Condition::CardAge,
            format!(
                "the card's scores from {} are too old; score the card again",
                scoring.scored_at
            ),
        );
    }
    let mut compare = |condition, name: &str, total: Points, least: Points| {
        if total < least {
            refuse(
                condition,
                format!("the card's {name} is {total}, but at least {least} is required"),
            );
        }
    };
    compare(
        Condition::CardCompliance,
        "compliance",
        scores.compliance.total,
        policy.minimum_compliance,
    );
    compare(
        Condition::CardTrust,
        "trust",
        scores.trust.total,
        policy.minimum_trust,
    );
    match (policy.minimum_availability, &scores.availability) {
        (None, _) => {}
        (Some(least), Some(found)) => {
            compare(
                Condition::CardAvailability,
                "availability",
                found.total,
                least,
            );
        }
        (Some(_), None) => refuse(
            Condition::CardAvailability,
            "the agent's availability was not measured; score the card with `live`".to_owned(),
        ),
    }
    unmet
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_780_000_000, 0);

    fn scoring(change: impl FnOnce(&mut Value)) -> CardScoring {
        let mut scoring = json!({
            "id": "look_1", "url": "https://agents.example/", "live": true,
            "scoredAt": NOW - SignedDuration::from_hours(24),
            "scores": {
                "compliance": {"total": 95, "rating": "EXCELLENT"},
                "trust": {"total": 60.5, "rating": "TRUSTED"},
                "availability": {"total": 80, "rating": "AVAILABLE"},
                "productionReady": true, "blockers": [], "findings": {},
            },
        });
        change(&mut scoring);
        serde_json::from_value(scoring).unwrap()
    }

    fn names(policy: &Value, scoring: Option<&CardScoring>) -> Vec<&'static str> {
        let mut all = json!({"url": "https://agents.example/"});
        let members = policy.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(members);
        let policy: CardPolicy = serde_json::from_value(all).unwrap();
        let unmet = unmet(&policy, scoring, NOW);
        unmet.iter().map(|it| it.condition.as_str()).collect()
    }

    #[rstest]
    #[case::production(json!({}), &[])]
    #[case::old(json!({"maxAgeHours": 23}), &["card-age"])]
    #[case::as_old_as_it_may_be(json!({"maxAgeHours": 24}), &[])]
    #[case::more(json!({"minimumCompliance": 95.01, "minimumTrust": 61, "minimumAvailability": 95}),
        &["card-compliance", "card-trust", "card-availability"])]
    fn every_unmet_requirement_is_listed(#[case] policy: Value, #[case] expected: &[&str]) {
        assert_eq!(names(&policy, Some(&scoring(|_| {}))), expected);
    }

    #[test]
    fn missing_scores_do_not_meet_the_requirements() {
        assert_eq!(names(&json!({}), None), ["card-scored"]);
        let gone = scoring(|it| it["scores"] = Value::Null);
        assert_eq!(names(&json!({}), Some(&gone)), ["card-scored"]);
        let unasked = scoring(|it| it["scores"]["availability"] = Value::Null);
        assert_eq!(names(&json!({}), Some(&unasked)), ["card-availability"]);
        assert_eq!(
            names(&json!({"minimumAvailability": null}), Some(&unasked)),
            [""; 0]
        );
    }

    #[rstest]
    #[case("https://a.example/", Ok(()))]
    #[case("ftp://a.example/", Err(NoCardUrl))]
    #[case("https://me:secret@a.example/", Err(NoCardUrl))]
    fn a_url_without_a_card_is_refused(#[case] url: &str, #[case] expected: Result<(), NoCardUrl>) {
        assert_eq!(CardPolicy::of(url.to_owned()).check(), expected);
    }

    #[rstest]
    #[case(json!({"url": "https://a.example/", "minimumTrust": 101}))]
    #[case(json!({"url": "https://a.example/", "minimumtrust": 10}))]
    #[case(json!({"minimumTrust": 10}))]
    fn an_invalid_policy_is_rejected(#[case] policy: Value) {
        assert!(serde_json::from_value::<CardPolicy>(policy).is_err());
    }

    #[test]
    fn every_condition_that_can_be_unmet_is_described() {
        let policy = CardPolicy::of("https://agents.example/".to_owned());
        let described = described(&policy);
        let known: Vec<&str> = described.iter().map(|it| it.condition).collect();
        let worst = scoring(|it| {
            it["scoredAt"] = json!(NOW - SignedDuration::from_hours(24 * 100));
            it["scores"]["compliance"]["total"] = json!(1);
            it["scores"]["trust"]["total"] = json!(1);
            it["scores"]["availability"] = Value::Null;
        });
        let found = [unmet(&policy, None, NOW), unmet(&policy, Some(&worst), NOW)].concat();
        assert_eq!(found.len(), 5);
        for unmet in found {
            assert!(known.contains(&unmet.condition.as_str()), "{unmet:?}");
        }
        let without = CardPolicy {
            minimum_availability: None,
            ..policy
        };
        assert_eq!(super::described(&without).len(), known.len() - 1);
    }
}
