//! When an agent is to be assessed again (AAAF re-assessment): after enough new tasks, or before its badge ends. Either is said
//! once. Where the organization has a schedule, when the host orders an assessment by itself.

use jiff::{SignedDuration, Timestamp};

use super::config::Rules;
use super::notice::Topic;
use super::validity::Validity;

/// How long after a scheduled assessment that led to no rating the next one is tried.
pub const RETRY_AFTER: SignedDuration = SignedDuration::from_hours(3 * 24);

/// How long a rating says something.
const OLD_AFTER: SignedDuration = SignedDuration::from_hours(90 * 24);

/// How an agent stands since its last assessment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Tasks completed since.
    pub completed_since: u64,
    /// Of its badge, if it has one that was not revoked.
    pub validity: Option<Validity>,
}

/// What is to be said now, without what was said before. A badge that has ended is not said to be about to.
pub fn due(standing: &Standing, threshold: u64, now: Timestamp, said: &[Topic]) -> Vec<Topic> {
    let mut due = Vec::new();
    if standing.completed_since >= threshold {
        due.push(Topic::EvidenceThresholdReached);
    }
    if let Some(validity) = standing.validity {
        if validity.is_expired(now) {
            due.push(Topic::BadgeExpired);
        } else if validity.is_expiring(now) {
            due.push(Topic::BadgeExpiring);
        }
    }
    due.retain(|topic| !said.contains(topic));
    due
}

/// Whether an agent is to be assessed again for no other reason than that its rating is old.
pub fn is_old(assessed_at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(assessed_at) >= OLD_AFTER
}

/// Why the schedule has an agent assessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The last rating is as old as the interval.
    Interval,
    /// The badge of the last rating is about to end, or has ended.
    BadgeExpiry,
}

impl Reason {
    /// The name in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interval => "interval",
            Self::BadgeExpiry => "badge_expiry",
        }
    }
}

/// The last rating of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRating {
    /// When it was asked for.
    pub assessed_at: Timestamp,
    /// When its badge ends, if one was issued and not revoked.
    pub valid_until: Option<Timestamp>,
}

/// Why an assessment is due now by an organization's schedule; `None` if it is not.
pub fn scheduled(rules: &Rules, last: &LastRating, now: Timestamp) -> Option<Reason> {
    let days = |days: u32| SignedDuration::from_hours(24 * i64::from(days));
    if let Some(interval) = rules.reassessment_interval_days
        && now.duration_since(last.assessed_at) >= days(interval)
    {
        return Some(Reason::Interval);
    }
    let ahead = rules.reassessment_days_before_expiry?;
    let left = last.valid_until?.duration_since(now);
    (left <= days(ahead)).then_some(Reason::BadgeExpiry)
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
            valid_until: valid_days.map(day),
        };
        assert_eq!(scheduled(&rules, &last, day(today)), due);
    }
}
