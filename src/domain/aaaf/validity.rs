//! How long a badge is valid (AAAF validity): from the assessment's creation on, valid on [issued, valid_until).

use jiff::{SignedDuration, Timestamp};

/// How long before its end a badge is said to expire.
pub const NOTICE: SignedDuration = SignedDuration::from_hours(14 * 24);

/// When a badge ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first moment at which it is not valid any more.
    pub valid_until: Timestamp,
}

impl Validity {
    /// Of a badge on an assessment created then; `None` beyond what dates can say.
    pub fn of(assessment_created_at: Timestamp, period_days: u32) -> Option<Self> {
        let period = SignedDuration::from_hours(24 * i64::from(period_days));
        let valid_until = assessment_created_at.checked_add(period).ok()?;
        Some(Self { valid_until })
    }

    /// Whether it has ended.
    pub fn is_expired(&self, at: Timestamp) -> bool {
        at >= self.valid_until
    }

    /// Whether it ends within two weeks.
    pub fn is_expiring(&self, at: Timestamp) -> bool {
        !self.is_expired(at) && self.valid_until.duration_since(at) <= NOTICE
    }
}
