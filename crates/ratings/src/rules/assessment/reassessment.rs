//! When a reassessment is due (AAAF re-assessment): after enough new tasks, or before the badge
//! expires, with one notice for each. With a schedule, the host also orders assessments itself.

use jiff::{SignedDuration, Timestamp};

use crate::rules::badge::validity::Validity;
use crate::rules::config::Rules;
use crate::rules::notice::Topic;

/// How long the schedule waits after an assessment that led to no rating.
pub const RETRY_AFTER: SignedDuration = SignedDuration::from_hours(3 * 24);

/// Age at which a rating is outdated.
const OLD_AFTER: SignedDuration = SignedDuration::from_hours(90 * 24);

/// State of an agent since its last assessment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassessmentState {
    /// Number of tasks completed since.
    pub completed_since: u64,
    /// The validity of its badge, if it has one that was not revoked.
    pub validity: Option<Validity>,
}

/// The notices that are due now, without those already sent. An expired badge gets no notice that
/// it will expire.
pub fn due(
    state: &ReassessmentState,
    threshold: u64,
    now: Timestamp,
    sent: &[Topic],
) -> Vec<Topic> {
    let mut due = Vec::new();
    if state.completed_since >= threshold {
        due.push(Topic::EvidenceThresholdReached);
    }
    if let Some(validity) = state.validity {
        if validity.is_expired(now) {
            due.push(Topic::BadgeExpired);
        } else if validity.is_expiring(now) {
            due.push(Topic::BadgeExpiring);
        }
    }
    due.retain(|topic| !sent.contains(topic));
    due
}

/// Whether a reassessment is due only because of the rating's age.
pub fn is_old(assessed_at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(assessed_at) >= OLD_AFTER
}

/// Why the schedule orders an assessment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The last rating is older than the interval.
    Interval,
    /// The agent's last badge expires soon or has expired.
    BadgeExpiry,
}

impl Reason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interval => "interval",
            Self::BadgeExpiry => "badge_expiry",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRating {
    /// When the assessment was ordered.
    pub assessed_at: Timestamp,
    /// The agent's last badge that was issued and not revoked.
    pub badge: Option<LastBadge>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastBadge {
    pub valid_until: Timestamp,
    /// Whether it belongs to an earlier rating, because the last rating has no badge.
    pub is_earlier: bool,
}

/// Why the organization's schedule calls for an assessment now; `None` if it does not.
pub fn scheduled(rules: &Rules, last: &LastRating, now: Timestamp) -> Option<Reason> {
    let days = |days: u32| SignedDuration::from_hours(24 * i64::from(days));
    if let Some(interval) = rules.reassessment_interval_days
        && now.duration_since(last.assessed_at) >= days(interval)
    {
        return Some(Reason::Interval);
    }
    let ahead = days(rules.reassessment_days_before_expiry?);
    let badge = last.badge?;
    let expires_soon = |at: Timestamp| badge.valid_until.duration_since(at) <= ahead;
    // One rating per expiry: one without a badge may wait for a review, and another assessment
    // would not replace the review.
    let rated_again = badge.is_earlier && expires_soon(last.assessed_at);
    (expires_soon(now) && !rated_again).then_some(Reason::BadgeExpiry)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn day(day: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + day * 86_400).unwrap()
    }

    #[rstest]
    #[case(None, None, Some(90), 1000, None)]
    #[case(Some(30), None, Some(90), 29, None)]
    #[case(Some(30), None, Some(90), 30, Some(Reason::Interval))]
    #[case(Some(30), None, None, 30, Some(Reason::Interval))]
    #[case(None, Some(14), Some(90), 75, None)]
    #[case(None, Some(14), Some(90), 76, Some(Reason::BadgeExpiry))]
    #[case(None, Some(14), Some(90), 100, Some(Reason::BadgeExpiry))]
    #[case(None, Some(14), None, 100, None)]
    #[case(Some(80), Some(14), Some(90), 76, Some(Reason::BadgeExpiry))]
    #[case(Some(60), Some(14), Some(90), 76, Some(Reason::Interval))]
    fn an_assessment_is_due_by_age_or_by_the_end_of_the_badge(
        #[case] interval: Option<u32>,
        #[case] before_expiry: Option<u32>,
        #[case] valid_days: Option<i64>,
        #[case] today: i64,
        #[case] due: Option<Reason>,
    ) {
        let rules = Rules {
            reassessment_interval_days: interval,
            reassessment_days_before_expiry: before_expiry,
            ..Rules::default()
        };
        let last = LastRating {
            assessed_at: day(0),
            badge: valid_days.map(|days| LastBadge {
                valid_until: day(days),
                is_earlier: false,
            }),
        };
        assert_eq!(scheduled(&rules, &last, day(today)), due);
    }

    #[rstest]
    #[case::long_before(30, 75, None)]
    #[case::before(30, 76, Some(Reason::BadgeExpiry))]
    #[case::expired(30, 100, Some(Reason::BadgeExpiry))]
    #[case::rated_shortly_before(75, 76, Some(Reason::BadgeExpiry))]
    #[case::rated_in_time(76, 77, None)]
    #[case::rated_after_the_expiry(95, 100, None)]
    fn the_badge_of_an_earlier_rating_leads_to_one_assessment(
        #[case] assessed: i64,
        #[case] today: i64,
        #[case] due: Option<Reason>,
    ) {
        let rules = Rules {
            reassessment_days_before_expiry: Some(14),
            ..Rules::default()
        };
        let last = LastRating {
            assessed_at: day(assessed),
            badge: Some(LastBadge {
                valid_until: day(90),
                is_earlier: true,
            }),
        };
        assert_eq!(scheduled(&rules, &last, day(today)), due);
    }
}
