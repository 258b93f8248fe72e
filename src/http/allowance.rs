//! How much each of many may ask for, by the generic cell rate algorithm, in this process: each replica has its own. What is
//! remembered is bounded by those who asked lately.

use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::protocol::error::{ErrorCode, Problem};
use crate::telemetry::names;

/// Every so many requests, what is remembered of those who have been quiet is forgotten.
pub(super) const FORGET_EVERY: u64 = 4096;

/// What is left for each of many.
pub(super) struct Allowance<K: Clone + Eq + Hash> {
    scope: &'static str,
    limit: u32,
    limiter: DefaultKeyedRateLimiter<K>,
    taken: AtomicU64,
}

impl<K: Clone + Eq + Hash> Allowance<K> {
    /// Full allowances. `scope` and `limit` are what a refusal says.
    pub(super) fn new(scope: &'static str, limit: u32, quota: Quota) -> Self {
        Self {
            scope,
            limit,
            limiter: RateLimiter::keyed(quota),
            taken: AtomicU64::new(0),
        }
    }

    /// Takes one.
    ///
    /// # Errors
    /// `rate_limited`.
    pub(super) fn take(&self, key: &K) -> Result<(), Problem> {
        self.take_many(key, NonZeroU32::MIN)
    }

    /// Takes so many, or none.
    ///
    /// # Errors
    /// `rate_limited`; `validation_error` for more than there can ever be.
    pub(super) fn take_many(&self, key: &K, many: NonZeroU32) -> Result<(), Problem> {
        if self.taken.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            self.limiter.retain_recent();
        }
        match self.limiter.check_key_n(key, many) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(until)) => {
                let wait = until.wait_time_from(DefaultClock::default().now());
                Err(limited(self.scope, self.limit, wait))
            }
            Err(_) => Err(Problem::validation(
                "",
                format!(
                    "at most {} at once are allowed here; send fewer",
                    self.limit
                ),
            )),
        }
    }
}

/// The refusal of who asked too much.
pub(super) fn limited(scope: &'static str, limit: u32, wait: Duration) -> Problem {
    metrics::counter!(names::RATE_LIMITED, "scope" => scope).increment(1);
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    Problem::new(
        ErrorCode::RateLimited,
        "too many requests; come back when `Retry-After` is over",
    )
    .with("scope", scope)
    .with("limit", limit)
    .with("retryAfterMs", wait_ms)
}
