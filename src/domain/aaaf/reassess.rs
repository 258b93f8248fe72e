//! When an agent is to be assessed again (AAAF re-assessment): after enough new tasks, or before its badge ends. Either is said
//! once.

use jiff::Timestamp;

use super::validity::Validity;

/// What there is to say about an assessed agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Notice {
    /// Enough tasks were completed since.
    ThresholdReached,
    /// Its badge ends within two weeks.
    Expiring,
    /// Its badge has ended.
    Expired,
}

impl Notice {
    /// The event's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ThresholdReached => "evidence.threshold_reached",
            Self::Expiring => "badge.expiring",
            Self::Expired => "badge.expired",
        }
    }
}

/// How an agent stands since its last assessment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Tasks completed since.
    pub completed_since: u64,
    /// Of its badge, if it has one that was not revoked.
    pub validity: Option<Validity>,
}

/// What is to be said now, without what was said before. A badge that has ended is not said to be about to.
pub fn due(standing: &Standing, threshold: u64, now: Timestamp, said: &[Notice]) -> Vec<Notice> {
    let mut due = Vec::new();
    if standing.completed_since >= threshold {
        due.push(Notice::ThresholdReached);
    }
    if let Some(validity) = standing.validity {
        if validity.is_expired(now) {
            due.push(Notice::Expired);
        } else if validity.is_expiring(now) {
            due.push(Notice::Expiring);
        }
    }
    due.retain(|notice| !said.contains(notice));
    due
}
