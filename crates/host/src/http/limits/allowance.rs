//! Rate limits by the generic cell rate algorithm (GCRA), one allowance per key `K`. They are kept
//! in this process, so each replica counts for itself. Memory is bounded by the number of keys seen
//! recently.

use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::telemetry::{counter, names};
use touchstone_kit::error::{ErrorCode, Problem};

/// Number of requests after which the state of idle keys is dropped.
pub(super) const FORGET_EVERY: u64 = 4096;

/// The remaining allowance of every key.
pub struct Allowance<K: Clone + Eq + Hash> {
    scope: &'static str,
    limit: u32,
    limiter: DefaultKeyedRateLimiter<K>,
    taken: AtomicU64,
}

impl<K: Clone + Eq + Hash> Allowance<K> {
    /// Full allowances. `scope` and `limit` appear in the refusal.
    pub fn new(scope: &'static str, limit: u32, quota: Quota) -> Self {
        // Exported before it counts, so that its first increase is visible.
        counter(names::RATE_LIMITED, &[("scope", scope)]).increment(0);
        Self {
            scope,
            limit,
            limiter: RateLimiter::keyed(quota),
            taken: AtomicU64::new(0),
        }
    }

    /// Takes one unit.
    ///
    /// # Errors
    /// `rate_limited`.
    pub(super) fn take(&self, key: &K) -> Result<(), Problem> {
        self.take_many(key, NonZeroU32::MIN)
    }

    /// Takes `many` units, or none.
    ///
    /// # Errors
    /// `rate_limited`; `validation_error` if `many` exceeds the whole allowance.
    pub fn take_many(&self, key: &K, many: NonZeroU32) -> Result<(), Problem> {
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
                    "at most {} are allowed in one request; send fewer",
                    self.limit
                ),
            )),
        }
    }
}

pub(super) fn limited(scope: &'static str, limit: u32, wait: Duration) -> Problem {
    metrics::counter!(names::RATE_LIMITED, "scope" => scope).increment(1);
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    Problem::new(
        ErrorCode::RateLimited,
        "too many requests; retry after the time in `Retry-After`",
    )
    .with("scope", scope)
    .with("limit", limit)
    .with("retryAfterMs", wait_ms)
}
