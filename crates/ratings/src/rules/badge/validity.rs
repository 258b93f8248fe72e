//! Validity of a badge (AAAF validity): valid on [issued, valid_until), counted from the creation
//! of the assessment.

use jiff::{SignedDuration, Timestamp};

/// How long before its expiry the notice about a badge is sent.
pub const NOTICE: SignedDuration = SignedDuration::from_hours(14 * 24);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first moment at which the badge is not valid.
    pub valid_until: Timestamp,
}

impl Validity {
    /// The validity of a badge whose assessment was created at this time; `None` beyond the range
    /// of dates.
    pub fn of(assessment_created_at: Timestamp, period_days: u32) -> Option<Self> {
        let period = SignedDuration::from_hours(24 * i64::from(period_days));
        let valid_until = assessment_created_at.checked_add(period).ok()?;
        Some(Self { valid_until })
    }

    pub fn is_expired(&self, at: Timestamp) -> bool {
        at >= self.valid_until
    }

    /// Whether it expires within two weeks.
    pub fn is_expiring(&self, at: Timestamp) -> bool {
        !self.is_expired(at) && self.valid_until.duration_since(at) <= NOTICE
    }
}
