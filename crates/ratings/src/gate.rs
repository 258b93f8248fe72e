//! A rating as a promotion condition: the version has a rating that reaches the required tiers, and
//! its badge is valid (AAAF S6, S12). Fails closed: an unknown condition is unmet.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::rules::evidence::{Recorder, Sources, in_words};
use crate::rules::{Axis, Tier};
use touchstone_deployments::described::Described;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RatingPolicy {
    pub minimum_performance_tier: Option<Tier>,
    pub minimum_capability_tier: Option<Tier>,
    /// Whether its badge must be valid.
    pub valid_badge: bool,
    /// Maximum age of the rating in days, counted from its end.
    pub max_age_days: Option<u32>,
    /// The kinds of principals that the evidence must come from.
    pub evidence_sources: Option<BTreeSet<Recorder>>,
    /// The percentage of events that must come from these sources; 100 if unset.
    pub minimum_evidence_percent: Option<u8>,
}

impl Default for RatingPolicy {
    fn default() -> Self {
        Self {
            minimum_performance_tier: None,
            minimum_capability_tier: None,
            valid_badge: true,
            max_age_days: None,
            evidence_sources: None,
            minimum_evidence_percent: None,
        }
    }
}

/// A policy that is contradictory or can never be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Evidence sources that cannot be met, or a minimum share without sources.
    #[error(
        "`rating.evidenceSources` must name at least one source; `rating.minimumEvidencePercent` \
        must be 1 to 100 and requires `rating.evidenceSources`"
    )]
    EvidenceSources,
    /// A performance tier for capability, or the reverse.
    #[error(
        "`{0}` must be a tier of its axis: Novice, Competent, Proficient, Expert or Elite for performance; Narrow, Functional, Versatile, Specialist or Full-Stack for capability"
    )]
    Tier(&'static str),
}

impl RatingPolicy {
    /// # Errors
    /// [`PolicyError`].
    pub fn check(&self) -> Result<(), PolicyError> {
        if let Some(field) = self.misplaced() {
            return Err(PolicyError::Tier(field));
        }
        if !self.are_sources_consistent() {
            return Err(PolicyError::EvidenceSources);
        }
        Ok(())
    }

    /// The minimum tier of an axis.
    pub const fn minimum(&self, axis: Axis) -> Option<Tier> {
        match axis {
            Axis::Performance => self.minimum_performance_tier,
            Axis::Capability => self.minimum_capability_tier,
        }
    }

    /// The percentage of events that must come from the sources.
    pub fn evidence_percent(&self) -> u8 {
        self.minimum_evidence_percent.unwrap_or(100)
    }

    /// Whether the source settings are consistent and can be met.
    fn are_sources_consistent(&self) -> bool {
        match (&self.evidence_sources, self.minimum_evidence_percent) {
            (Some(sources), percent) => {
                !sources.is_empty() && percent.is_none_or(|it| (1..=100).contains(&it))
            }
            (None, percent) => percent.is_none(),
        }
    }

    /// Why a rating of this time is too old.
    fn age_fault(&self, at: Timestamp, now: Timestamp) -> Option<String> {
        let limit = SignedDuration::from_hours(24 * i64::from(self.max_age_days?));
        let oldest = now.checked_sub(limit).ok()?;
        (at < oldest).then(|| format!("its rating of {at} is too old"))
    }

    /// Why the tier of an axis is not high enough.
    fn tier_fault(&self, axis: Axis, reached: Option<Tier>) -> Option<String> {
        let least = self.minimum(axis)?;
        match reached {
            Some(tier) if tier.axis() == axis && tier.rank() >= least.rank() => None,
            Some(tier) => Some(format!(
                "its {axis} is {tier}, but at least {least} is required"
            )),
            None => Some(format!("its {axis} has no rating")),
        }
    }

    /// Why the evidence from these sources is not enough.
    fn evidence_fault(&self, sources: &Sources) -> Option<String> {
        let asked = self.evidence_sources.as_ref()?;
        let total: usize = sources.values().sum();
        let counted = sources.iter().filter(|(it, _)| asked.contains(it));
        let from: usize = counted.map(|(_, events)| events).sum();
        let percent = usize::from(self.evidence_percent());
        if total > 0 && from.saturating_mul(100) >= total.saturating_mul(percent) {
            return None;
        }
        let names: Vec<&str> = asked.iter().map(|it| it.as_str()).collect();
        let found = match in_words(sources) {
            words if words.is_empty() => "unknown".to_owned(),
            words => words,
        };
        Some(format!(
            "{percent} % of its evidence must come from {}, but its sources are {found}",
            names.join(" or ")
        ))
    }

    /// The first member that names a tier of the other axis.
    fn misplaced(&self) -> Option<&'static str> {
        let misplaced = |axis: Axis| self.minimum(axis).is_some_and(|tier| tier.axis() != axis);
        match Axis::ALL.into_iter().find(|axis| misplaced(*axis))? {
            Axis::Performance => Some("rating.minimumPerformanceTier"),
            Axis::Capability => Some("rating.minimumCapabilityTier"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum RatingStatus {
    /// No enrolled agent corresponds to the version.
    NotEnrolled,
    /// An enrolled agent corresponds to it, but has no rating.
    NotRated,
    Rated(CurrentRating),
}

#[derive(Clone, Debug, PartialEq)]
pub struct CurrentRating {
    /// The rated version; `None` if the rating names none.
    pub version: Option<String>,
    pub performance: Option<Tier>,
    pub capability: Option<Tier>,
    pub at: Timestamp,
    pub review: ReviewState,
    pub badge: BadgeStatus,
    /// The recorders of its evidence; empty if unknown.
    pub sources: Sources,
}

impl CurrentRating {
    /// Why it is not a rating of this version.
    fn version_fault(&self, version: &str) -> Option<String> {
        match &self.version {
            Some(of) if of == version => None,
            Some(of) => Some(format!("its rating is for version {of}")),
            None => Some(
                "its rating is for all versions; enroll the agent with `openwop_agent` as \
                agent@version and have it assessed"
                    .to_owned(),
            ),
        }
    }
}

/// The review state of a rating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewState {
    /// No review was requested, or a reviewer approved.
    Clear,
    /// A review is pending.
    Pending,
    /// A reviewer rejected it.
    Rejected,
}

impl ReviewState {
    fn fault(self) -> Option<String> {
        let fault = match self {
            Self::Clear => return None,
            Self::Pending => "its rating is waiting for a review",
            Self::Rejected => "its rating was rejected by a reviewer",
        };
        Some(fault.to_owned())
    }
}

/// The state of a badge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadgeStatus {
    Valid,
    /// No badge was issued.
    None,
    Revoked,
    Expired,
    /// The badge's proof is invalid.
    Unproven,
}

impl BadgeStatus {
    fn fault(self) -> Option<String> {
        let fault = match self {
            Self::Valid => return None,
            Self::None => "no badge was issued for its rating",
            Self::Revoked => "its badge was revoked",
            Self::Expired => "its badge has expired; have it assessed again",
            Self::Unproven => "the proof of its badge is not valid",
        };
        Some(fault.to_owned())
    }
}

/// An unmet condition of the rating.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetCondition {
    /// The condition's stable name.
    pub condition: Condition,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// An enrolled agent corresponds to the version.
    RatingEnrolled,
    /// There is a rating.
    Rating,
    /// It is for this version.
    RatingVersion,
    /// It is not under review or rejected.
    RatingReview,
    /// It is recent enough.
    RatingAge,
    /// Its performance tier is high enough.
    PerformanceTier,
    /// Its capability tier is high enough.
    CapabilityTier,
    /// Its evidence comes from the required sources.
    RatingEvidence,
    /// Its badge is valid.
    Badge,
}

impl Condition {
    /// The name in messages and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RatingEnrolled => "rating-enrolled",
            Self::Rating => "rating",
            Self::RatingVersion => "rating-version",
            Self::RatingReview => "rating-review",
            Self::RatingAge => "rating-age",
            Self::PerformanceTier => "performance-tier",
            Self::CapabilityTier => "capability-tier",
            Self::RatingEvidence => "rating-evidence",
            Self::Badge => "badge",
        }
    }
}

/// The conditions of a policy, in words.
pub fn described(policy: &RatingPolicy) -> Vec<Described> {
    let (enrolled, rated) = (
        Condition::RatingEnrolled.as_str(),
        Condition::Rating.as_str(),
    );
    let mut all = vec![
        Described::new(enrolled, "an enrolled agent corresponds to the version"),
        Described::new(rated, "the agent has a rating").after(enrolled),
    ];
    let mut add = |condition: Condition, requirement: String| {
        all.push(Described::new(condition.as_str(), requirement).after(rated));
    };
    add(
        Condition::RatingVersion,
        "the rating is for this version".to_owned(),
    );
    add(
        Condition::RatingReview,
        "no review of the rating is pending, and none rejected it".to_owned(),
    );
    if let Some(days) = policy.max_age_days {
        add(
            Condition::RatingAge,
            format!("the rating is at most {days} days old"),
        );
    }
    if let Some(tier) = policy.minimum_performance_tier {
        add(
            Condition::PerformanceTier,
            format!("the performance tier is at least {tier}"),
        );
    }
    if let Some(tier) = policy.minimum_capability_tier {
        add(
            Condition::CapabilityTier,
            format!("the capability tier is at least {tier}"),
        );
    }
    if let Some(sources) = &policy.evidence_sources {
        let names: Vec<&str> = sources.iter().map(|it| it.as_str()).collect();
        add(
            Condition::RatingEvidence,
            format!(
                "{} % of the evidence comes from {}",
                policy.evidence_percent(),
                names.join(" or ")
            ),
        );
    }
    if policy.valid_badge {
        add(Condition::Badge, "the badge is valid".to_owned());
    }
    all
}

/// Every condition that the rating of `version` does not meet.
pub fn unmet(
    policy: &RatingPolicy,
    version: &str,
    status: &RatingStatus,
    now: Timestamp,
) -> Vec<UnmetCondition> {
    let unmet = |condition, message| UnmetCondition { condition, message };
    let rating = match status {
        RatingStatus::NotEnrolled => {
            let message =
                "no enrolled agent corresponds to this version; enroll it with `openwop_agent`";
            return vec![unmet(Condition::RatingEnrolled, message.to_owned())];
        }
        RatingStatus::NotRated => {
            let message = "it has no rating; have it assessed";
            return vec![unmet(Condition::Rating, message.to_owned())];
        }
        RatingStatus::Rated(rating) => rating,
    };
    let badge = rating.badge.fault().filter(|_| policy.valid_badge);
    let faults = [
        (Condition::RatingVersion, rating.version_fault(version)),
        (Condition::RatingReview, rating.review.fault()),
        (Condition::RatingAge, policy.age_fault(rating.at, now)),
        (
            Condition::PerformanceTier,
            policy.tier_fault(Axis::Performance, rating.performance),
        ),
        (
            Condition::CapabilityTier,
            policy.tier_fault(Axis::Capability, rating.capability),
        ),
        (
            Condition::RatingEvidence,
            policy.evidence_fault(&rating.sources),
        ),
        (Condition::Badge, badge),
    ];
    let faults = faults.into_iter();
    faults
        .filter_map(|(condition, fault)| Some(unmet(condition, fault?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_776_000_000, 0);

    fn rated() -> CurrentRating {
        CurrentRating {
            version: Some("1.2.0".to_owned()),
            performance: Some("Expert".parse().unwrap()),
            capability: Some("Versatile".parse().unwrap()),
            at: NOW - SignedDuration::from_hours(24 * 10),
            review: ReviewState::Clear,
            badge: BadgeStatus::Valid,
            sources: Sources::from([(Recorder::Host, 80), (Recorder::Organization, 20)]),
        }
    }

    fn names(policy: &RatingPolicy, status: &RatingStatus) -> Vec<&'static str> {
        let unmet = unmet(policy, "1.2.0", status, NOW);
        unmet.iter().map(|it| it.condition.as_str()).collect()
    }

    fn strict() -> RatingPolicy {
        serde_json::from_value(
            json!({"minimumPerformanceTier": "Expert", "minimumCapabilityTier": "Versatile",
            "maxAgeDays": 10}),
        )
        .unwrap()
    }

    #[test]
    fn a_rating_that_meets_or_exceeds_the_policy_passes() {
        assert_eq!(names(&strict(), &RatingStatus::Rated(rated())), [""; 0]);
        let mut better = rated();
        better.performance = Some("Elite".parse().unwrap());
        assert_eq!(names(&strict(), &RatingStatus::Rated(better)), [""; 0]);
    }

    #[rstest]
    #[case::another_version(|it: &mut CurrentRating| it.version = Some("1.1.0".to_owned()), &["rating-version"])]
    #[case::no_version(|it: &mut CurrentRating| it.version = None, &["rating-version"])]
    #[case::awaited(|it: &mut CurrentRating| it.review = ReviewState::Pending, &["rating-review"])]
    #[case::rejected(|it: &mut CurrentRating| it.review = ReviewState::Rejected, &["rating-review"])]
    #[case::old(|it: &mut CurrentRating| it.at -= SignedDuration::from_secs(1), &["rating-age"])]
    #[case::low(|it: &mut CurrentRating| it.performance = Some("Proficient".parse().unwrap()), &["performance-tier"])]
    #[case::narrow(|it: &mut CurrentRating| it.capability = Some("Narrow".parse().unwrap()), &["capability-tier"])]
    #[case::unrated(|it: &mut CurrentRating| it.capability = None, &["capability-tier"])]
    #[case::mixed_up(|it: &mut CurrentRating| it.capability = Some("Elite".parse().unwrap()), &["capability-tier"])]
    #[case::no_badge(|it: &mut CurrentRating| it.badge = BadgeStatus::None, &["badge"])]
    #[case::revoked(|it: &mut CurrentRating| it.badge = BadgeStatus::Revoked, &["badge"])]
    #[case::expired(|it: &mut CurrentRating| it.badge = BadgeStatus::Expired, &["badge"])]
    #[case::unproven(|it: &mut CurrentRating| it.badge = BadgeStatus::Unproven, &["badge"])]
    #[case::several(|it: &mut CurrentRating| { it.version = None; it.badge = BadgeStatus::None; }, &["rating-version", "badge"])]
    fn every_unmet_requirement_is_listed(
        #[case] change: fn(&mut CurrentRating),
        #[case] expected: &[&str],
    ) {
        let mut rated = rated();
        change(&mut rated);
        assert_eq!(names(&strict(), &RatingStatus::Rated(rated)), expected);
    }

    #[rstest]
    #[case::all_of_it(json!({"evidenceSources": ["host"]}), &["rating-evidence"])]
    #[case::enough(json!({"evidenceSources": ["host"], "minimumEvidencePercent": 80}), &[])]
    #[case::too_little(json!({"evidenceSources": ["host"], "minimumEvidencePercent": 81}), &["rating-evidence"])]
    #[case::together(json!({"evidenceSources": ["host", "organization"]}), &[])]
    #[case::others(json!({"evidenceSources": ["person"], "minimumEvidencePercent": 1}), &["rating-evidence"])]
    fn the_required_share_of_evidence_must_come_from_the_named_sources(
        #[case] policy: serde_json::Value,
        #[case] expected: &[&str],
    ) {
        let policy: RatingPolicy = serde_json::from_value(policy).unwrap();
        assert_eq!(policy.check(), Ok(()));
        assert_eq!(names(&policy, &RatingStatus::Rated(rated())), expected);
        let mut unknown = rated();
        unknown.sources.clear();
        assert_eq!(
            names(&policy, &RatingStatus::Rated(unknown)),
            ["rating-evidence"]
        );
    }

    #[rstest]
    #[case(json!({"evidenceSources": []}))]
    #[case(json!({"minimumEvidencePercent": 50}))]
    #[case(json!({"evidenceSources": ["host"], "minimumEvidencePercent": 0}))]
    #[case(json!({"evidenceSources": ["host"], "minimumEvidencePercent": 101}))]
    fn invalid_evidence_source_requirements_are_rejected(#[case] policy: serde_json::Value) {
        let policy: RatingPolicy = serde_json::from_value(policy).unwrap();
        assert_eq!(policy.check(), Err(PolicyError::EvidenceSources));
    }

    #[test]
    fn a_missing_rating_or_badge_does_not_meet_the_policy() {
        let least: RatingPolicy = serde_json::from_value(json!({"validBadge": false})).unwrap();
        assert_eq!(
            names(&least, &RatingStatus::NotEnrolled),
            ["rating-enrolled"]
        );
        assert_eq!(names(&least, &RatingStatus::NotRated), ["rating"]);
        let mut bare = rated();
        bare.badge = BadgeStatus::None;
        assert_eq!(names(&least, &RatingStatus::Rated(bare)), [""; 0]);
    }

    #[rstest]
    #[case(json!({"minimumPerformanceTier": "Versatile"}), Some("rating.minimumPerformanceTier"))]
    #[case(json!({"minimumCapabilityTier": "Elite"}), Some("rating.minimumCapabilityTier"))]
    #[case(json!({"minimumPerformanceTier": "Elite"}), None)]
    fn a_tier_of_the_other_axis_is_refused(
        #[case] policy: serde_json::Value,
        #[case] expected: Option<&'static str>,
    ) {
        let policy: RatingPolicy = serde_json::from_value(policy).unwrap();
        assert!(policy.valid_badge);
        let expected = expected.map_or(Ok(()), |field| Err(PolicyError::Tier(field)));
        assert_eq!(policy.check(), expected);
    }

    #[rstest]
    #[case(json!({"minimumPerformanceTier": "expert"}))]
    #[case(json!({"tier": "Expert"}))]
    fn a_policy_with_unknown_members_is_rejected(#[case] policy: serde_json::Value) {
        assert!(serde_json::from_value::<RatingPolicy>(policy).is_err());
    }

    #[test]
    fn a_policy_describes_what_it_requires() {
        let names = |policy: &RatingPolicy| -> Vec<&str> {
            described(policy).iter().map(|it| it.condition).collect()
        };
        assert_eq!(
            names(&RatingPolicy::default()),
            [
                "rating-enrolled",
                "rating",
                "rating-version",
                "rating-review",
                "badge"
            ]
        );
        let strict = RatingPolicy {
            max_age_days: Some(1),
            minimum_performance_tier: Some("Expert".parse().unwrap()),
            ..RatingPolicy::default()
        };
        let known = names(&strict);
        for status in [
            RatingStatus::NotEnrolled,
            RatingStatus::NotRated,
            RatingStatus::Rated(CurrentRating {
                performance: None,
                badge: BadgeStatus::Revoked,
                review: ReviewState::Rejected,
                version: None,
                ..rated()
            }),
        ] {
            for found in unmet(&strict, "1.2.0", &status, NOW) {
                assert!(known.contains(&found.condition.as_str()), "{found:?}");
            }
        }
    }
}
