//! When an agent is to be assessed again (AAAF re-assessment): after enough new tasks, or before its badge ends. Either is said
//! once.

use jiff::{SignedDuration, Timestamp};

use super::notice::Topic;
use super::validity::Validity;

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
