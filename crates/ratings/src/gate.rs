//! A rating as a promotion condition: the version has a rating that reaches the required tiers, and
//! its badge is valid (AAAF S6, S12). Fails closed: an unknown condition is unmet.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::rules::evidence::{Recorder, Sources, in_words};
use crate::rules::{Axis, Tier};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RatingPolicy {
    /// Minimum performance tier.
    pub minimum_performance_tier: Option<Tier>,
    /// Minimum capability tier.
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
pub enum InvalidPolicy {
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
    /// [`InvalidPolicy`].
    pub fn check(&self) -> Result<(), InvalidPolicy> {
        if let Some(field) = self.misplaced() {
            return Err(InvalidPolicy::Tier(field));
        }
        if !self.names_sources_soundly() {
            return Err(InvalidPolicy::EvidenceSources);
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
    fn names_sources_soundly(&self) -> bool {
        match (&self.evidence_sources, self.minimum_evidence_percent) {
            (Some(sources), percent) => {
                !sources.is_empty() && percent.is_none_or(|it| (1..=100).contains(&it))
            }
            (None, percent) => percent.is_none(),
        }
    }

    /// Why the evidence from these sources is not enough.
    fn insufficient(&self, sources: &Sources) -> Option<String> {
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
pub enum Standing {
    /// No enrolled agent corresponds to the version.
    NotEnrolled,
    /// An enrolled agent corresponds to it, but has no rating.
    NotRated,
    Rated(Rated),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rated {
    /// The rated version; `None` if the rating names none.
    pub version: Option<String>,
    pub performance: Option<Tier>,
    pub capability: Option<Tier>,
    pub at: Timestamp,
    pub review: Review,
    pub badge: Badge,
    /// The recorders of its evidence; empty if unknown.
    pub sources: Sources,
}

/// The review state of a rating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// No review was requested, or a reviewer approved.
    Stands,
    /// A review is pending.
    Awaited,
    /// A reviewer rejected it.
    Rejected,
}

/// The state of a badge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Badge {
    Holds,
    /// No badge was issued.
    None,
    Revoked,
    Expired,
    /// The badge's proof is invalid.
    Unproven,
}

/// An unmet condition of the rating.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrated {
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

/// Every condition that the rating of `version` does not meet.
pub fn unmet(
    policy: &RatingPolicy,
    version: &str,
    standing: &Standing,
    now: Timestamp,
) -> Vec<Unrated> {
    let mut unmet = Vec::new();
    let mut refuse = |condition, message: String| unmet.push(Unrated { condition, message });
    let rated = match standing {
        Standing::NotEnrolled => {
            refuse(
                Condition::RatingEnrolled,
                "no enrolled agent corresponds to this version; enroll it with `openwop_agent`"
                    .to_owned(),
            );
            return unmet;
        }
        Standing::NotRated => {
            refuse(
                Condition::Rating,
                "it has no rating; have it assessed".to_owned(),
            );
            return unmet;
        }
        Standing::Rated(rated) => rated,
    };
    match &rated.version {
        Some(of) if of == version => {}
        Some(of) => refuse(
            Condition::RatingVersion,
            format!("its rating is for version {of}"),
        ),
        None => refuse(
            Condition::RatingVersion,
            "its rating is for all versions; enroll the agent with `openwop_agent` as \
            agent@version and have it assessed"
                .to_owned(),
        ),
    }
    match rated.review {
        Review::Stands => {}
        Review::Awaited => refuse(
            Condition::RatingReview,
            "its rating is waiting for a review".to_owned(),
        ),
        Review::Rejected => refuse(
            Condition::RatingReview,
            "its rating was rejected by a reviewer".to_owned(),
        ),
    }
    let oldest = policy.max_age_days.and_then(|days| {
        now.checked_sub(SignedDuration::from_hours(24 * i64::from(days)))
            .ok()
    });
    if oldest.is_some_and(|oldest| rated.at < oldest) {
        refuse(
            Condition::RatingAge,
            format!("its rating of {} is too old", rated.at),
        );
    }
    for (axis, reached, condition) in [
        (
            Axis::Performance,
            rated.performance,
            Condition::PerformanceTier,
        ),
        (
            Axis::Capability,
            rated.capability,
            Condition::CapabilityTier,
        ),
    ] {
        let Some(least) = policy.minimum(axis) else {
            continue;
        };
        match reached {
            Some(tier) if tier.axis() == axis && tier.rank() >= least.rank() => {}
            Some(tier) => refuse(
                condition,
                format!("its {axis} is {tier}, but at least {least} is required"),
            ),
            None => refuse(condition, format!("its {axis} has no rating")),
        }
    }
    if let Some(why) = policy.insufficient(&rated.sources) {
        refuse(Condition::RatingEvidence, why);
    }
    if policy.valid_badge {
        let why = match rated.badge {
            Badge::Holds => None,
            Badge::None => Some("no badge was issued for its rating"),
            Badge::Revoked => Some("its badge was revoked"),
            Badge::Expired => Some("its badge has expired; have it assessed again"),
            Badge::Unproven => Some("the proof of its badge is not valid"),
        };
        if let Some(why) = why {
            refuse(Condition::Badge, why.to_owned());
        }
    }
    unmet
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_776_000_000, 0);

    fn rated() -> Rated {
        Rated {
            version: Some("1.2.0".to_owned()),
            performance: Some("Expert".parse().unwrap()),
            capability: Some("Versatile".parse().unwrap()),
            at: NOW - SignedDuration::from_hours(24 * 10),
            review: Review::Stands,
            badge: Badge::Holds,
            sources: Sources::from([(Recorder::Host, 80), (Recorder::Organization, 20)]),
        }
    }

    fn names(policy: &RatingPolicy, standing: &Standing) -> Vec<&'static str> {
        let unmet = unmet(policy, "1.2.0", standing, NOW);
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
    fn what_meets_everything_is_met_and_more_is_no_harm() {
        assert_eq!(names(&strict(), &Standing::Rated(rated())), [""; 0]);
        let mut better = rated();
        better.performance = Some("Elite".parse().unwrap());
        assert_eq!(names(&strict(), &Standing::Rated(better)), [""; 0]);
    }

    #[rstest]
    #[case::another_version(|it: &mut Rated| it.version = Some("1.1.0".to_owned()), &["rating-version"])]
    #[case::no_version(|it: &mut Rated| it.version = None, &["rating-version"])]
    #[case::awaited(|it: &mut Rated| it.review = Review::Awaited, &["rating-review"])]
    #[case::rejected(|it: &mut Rated| it.review = Review::Rejected, &["rating-review"])]
    #[case::old(|it: &mut Rated| it.at -= SignedDuration::from_secs(1), &["rating-age"])]
    #[case::low(|it: &mut Rated| it.performance = Some("Proficient".parse().unwrap()), &["performance-tier"])]
    #[case::narrow(|it: &mut Rated| it.capability = Some("Narrow".parse().unwrap()), &["capability-tier"])]
    #[case::unrated(|it: &mut Rated| it.capability = None, &["capability-tier"])]
    #[case::mixed_up(|it: &mut Rated| it.capability = Some("Elite".parse().unwrap()), &["capability-tier"])]
    #[case::no_badge(|it: &mut Rated| it.badge = Badge::None, &["badge"])]
    #[case::revoked(|it: &mut Rated| it.badge = Badge::Revoked, &["badge"])]
    #[case::expired(|it: &mut Rated| it.badge = Badge::Expired, &["badge"])]
    #[case::unproven(|it: &mut Rated| it.badge = Badge::Unproven, &["badge"])]
    #[case::several(|it: &mut Rated| { it.version = None; it.badge = Badge::None; }, &["rating-version", "badge"])]
    fn what_is_not_met_is_named_one_by_one(
        #[case] change: fn(&mut Rated),
        #[case] expected: &[&str],
    ) {
        let mut rated = rated();
        change(&mut rated);
        assert_eq!(names(&strict(), &Standing::Rated(rated)), expected);
    }

    #[rstest]
    #[case::all_of_it(json!({"evidenceSources": ["host"]}), &["rating-evidence"])]
    #[case::enough(json!({"evidenceSources": ["host"], "minimumEvidencePercent": 80}), &[])]
    #[case::too_little(json!({"evidenceSources": ["host"], "minimumEvidencePercent": 81}), &["rating-evidence"])]
    #[case::together(json!({"evidenceSources": ["host", "organization"]}), &[])]
    #[case::others(json!({"evidenceSources": ["person"], "minimumEvidencePercent": 1}), &["rating-evidence"])]
    fn evidence_comes_from_the_sources_that_are_asked_for(
        #[case] policy: serde_json::Value,
        #[case] expected: &[&str],
    ) {
        let policy: RatingPolicy = serde_json::from_value(policy).unwrap();
        assert_eq!(policy.check(), Ok(()));
        assert_eq!(names(&policy, &Standing::Rated(rated())), expected);
        let mut unknown = rated();
        unknown.sources.clear();
        assert_eq!(
            names(&policy, &Standing::Rated(unknown)),
            ["rating-evidence"]
        );
    }

    #[rstest]
    #[case(json!({"evidenceSources": []}))]
    #[case(json!({"minimumEvidencePercent": 50}))]
    #[case(json!({"evidenceSources": ["host"], "minimumEvidencePercent": 0}))]
    #[case(json!({"evidenceSources": ["host"], "minimumEvidencePercent": 101}))]
    fn sources_that_say_nothing_are_refused(#[case] policy: serde_json::Value) {
        let policy: RatingPolicy = serde_json::from_value(policy).unwrap();
        assert_eq!(policy.check(), Err(InvalidPolicy::EvidenceSources));
    }

    #[test]
    fn nothing_known_is_nothing_met() {
        let least: RatingPolicy = serde_json::from_value(json!({"validBadge": false})).unwrap();
        assert_eq!(names(&least, &Standing::NotEnrolled), ["rating-enrolled"]);
        assert_eq!(names(&least, &Standing::NotRated), ["rating"]);
        let mut bare = rated();
        bare.badge = Badge::None;
        assert_eq!(names(&least, &Standing::Rated(bare)), [""; 0]);
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
        let expected = expected.map_or(Ok(()), |field| Err(InvalidPolicy::Tier(field)));
        assert_eq!(policy.check(), expected);
    }

    #[rstest]
    #[case(json!({"minimumPerformanceTier": "expert"}))]
    #[case(json!({"tier": "Expert"}))]
    fn a_misspelt_policy_is_none(#[case] policy: serde_json::Value) {
        assert!(serde_json::from_value::<RatingPolicy>(policy).is_err());
    }
}
