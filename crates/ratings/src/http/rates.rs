//! Rate limits per key of the AAAF API (AAAF S14): one token bucket each for requests, events and
//! assessments, in addition to the limits of the whole host.

use std::num::NonZeroU32;

use governor::Quota;

use touchstone_host::http::limits::allowance::Allowance;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::KeyId;

/// Rate limits of one key; 0 means no limit. The bucket size is the limit of one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatingRates {
    pub requests_per_minute: u32,
    pub events_per_minute: u32,
    pub assessments_per_hour: u32,
}

impl Default for RatingRates {
    fn default() -> Self {
        Self {
            requests_per_minute: 600,
            events_per_minute: 6000,
            assessments_per_hour: 10,
        }
    }
}

/// The token buckets of all keys.
pub struct Allowances {
    requests: Option<Allowance<KeyId>>,
    events: Option<Allowance<KeyId>>,
    assessments: Option<Allowance<KeyId>>,
}

impl Allowances {
    pub fn new(rates: RatingRates) -> Self {
        let bucket = |scope, limit, quota: fn(NonZeroU32) -> Quota| {
            let limit = NonZeroU32::new(limit)?;
            Some(Allowance::new(scope, limit.get(), quota(limit)))
        };
        Self {
            requests: bucket("requests", rates.requests_per_minute, Quota::per_minute),
            events: bucket("events", rates.events_per_minute, Quota::per_minute),
            assessments: bucket("assessments", rates.assessments_per_hour, Quota::per_hour),
        }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// `rate_limited`.
    pub fn request(&self, key: &KeyId) -> Result<(), Problem> {
        take(self.requests.as_ref(), key, 1)
    }

    /// Counts an ordered assessment.
    ///
    /// # Errors
    /// `rate_limited`.
    pub fn assessment(&self, key: &KeyId) -> Result<(), Problem> {
        take(self.assessments.as_ref(), key, 1)
    }

    /// Counts events.
    ///
    /// # Errors
    /// `rate_limited`.
    pub fn events(&self, key: &KeyId, many: usize) -> Result<(), Problem> {
        take(self.events.as_ref(), key, many)
    }
}

fn take(allowance: Option<&Allowance<KeyId>>, key: &KeyId, many: usize) -> Result<(), Problem> {
    let many = u32::try_from(many).unwrap_or(u32::MAX);
    match (allowance, NonZeroU32::new(many)) {
        (Some(allowance), Some(many)) => allowance.take_many(key, many),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_kit::error::ErrorCode;

    #[test]
    fn rate_limits_are_counted_per_key() {
        let allowances = Allowances::new(RatingRates {
            requests_per_minute: 3,
            events_per_minute: 10,
            assessments_per_hour: 1,
        });
        let (ours, theirs) = (KeyId::from("a"), KeyId::from("b"));
        for _ in 0..3 {
            allowances.request(&ours).unwrap();
        }
        let refused = allowances.request(&ours).unwrap_err();
        assert_eq!(refused.code, ErrorCode::RateLimited);
        assert!(refused.details["retryAfterMs"].as_u64().unwrap() > 1000);
        allowances.request(&theirs).unwrap();
        allowances.events(&ours, 9).unwrap();
        let refused = allowances.events(&ours, 2).unwrap_err();
        assert_eq!(refused.code, ErrorCode::RateLimited);
        let never = allowances.events(&theirs, 11).unwrap_err();
        assert_eq!(never.code, ErrorCode::ValidationError);
        allowances.assessment(&ours).unwrap();
        let refused = allowances.assessment(&ours).unwrap_err();
        assert!(refused.details["retryAfterMs"].as_u64().unwrap() > 3_000_000);
        let unlimited = Allowances::new(RatingRates {
            requests_per_minute: 0,
            events_per_minute: 0,
            assessments_per_hour: 0,
        });
        (0..1000).for_each(|_| unlimited.request(&ours).unwrap());
    }
}
