//! Times of signatures and keys: seconds since 1970, possibly with a fraction (RFC 7519 §2,
//! NumericDate).

use jiff::Timestamp;
use serde_json::Value;

/// Accepted clock difference at the end or start of a period, in seconds.
const SKEW: f64 = 60.0;
/// Accepted lead of the signer's clock, in seconds.
const AHEAD: f64 = 300.0;
/// Maximum age of a recent signature, in seconds: 90 days.
const RECENT: f64 = 90.0 * 86_400.0;

/// When a signature was made, according to its protected header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningTime {
    /// Within 90 days.
    Recent,
    /// More than 90 days ago.
    Old,
    /// The header does not say.
    Unknown,
    /// In the future.
    Future,
}

impl SigningTime {
    /// Reads `iat`.
    pub fn of(issued_at: Option<&Value>, now: Timestamp) -> Self {
        let Some(issued_at) = issued_at.and_then(Value::as_f64) else {
            return Self::Unknown;
        };
        match seconds(now) - issued_at {
            age if age < -AHEAD => Self::Future,
            age if age <= RECENT => Self::Recent,
            _ => Self::Old,
        }
    }
}

/// Whether an end has passed. A value that is not a number counts as passed, because the signer
/// meant to set an end.
pub fn is_over(end: Option<&Value>, now: Timestamp) -> bool {
    end.is_some_and(|end| end.as_f64().is_none_or(|end| end < seconds(now) - SKEW))
}

/// Whether a start is in the future, or is not a number.
pub fn is_still_to_come(beginning: Option<&Value>, now: Timestamp) -> bool {
    beginning.is_some_and(|it| it.as_f64().is_none_or(|it| it > seconds(now) + SKEW))
}

fn seconds(now: Timestamp) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a double holds every second of the years a timestamp can have"
    )]
    let whole = now.as_second() as f64;
    whole
}
