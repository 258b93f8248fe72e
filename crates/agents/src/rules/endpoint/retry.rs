//! The delay before a model call is retried.

use std::time::Duration;

/// A limited number of attempts with exponential backoff and jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Total number of attempts, at least 1.
    pub attempts: u32,
    /// Delay after the first attempt.
    pub base: Duration,
    /// Longest delay, unless the endpoint asks for a longer one.
    pub cap: Duration,
    /// Longest delay an endpoint may ask for with `Retry-After`.
    pub retry_after_cap: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 3,
            base: Duration::from_millis(250),
            cap: Duration::from_secs(8),
            retry_after_cap: Duration::from_secs(30),
        }
    }
}

impl RetryPolicy {
    /// The delay after attempt number `attempt` (from 1) failed; `None` if it was the last one.
    ///
    /// `seed` spreads the delays of invocations that failed together. It depends only on the
    /// invocation, so repeating an invocation repeats its delays. The delay is at least
    /// `Retry-After`, up to `retry_after_cap`; jitter reduces a computed delay by up to half.
    pub fn wait(&self, attempt: u32, seed: u64, retry_after: Option<Duration>) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        let spread = f64::from(fraction(seed, attempt)) / f64::from(u16::MAX);
        Some(match retry_after {
            Some(asked) => asked.min(self.retry_after_cap).mul_f64(1.0 + 0.1 * spread),
            None => {
                let doublings = attempt.saturating_sub(1).min(16);
                let full = self.base.saturating_mul(1 << doublings).min(self.cap);
                full.mul_f64(1.0 - 0.5 * spread)
            }
        })
    }
}

/// Sixteen well-mixed bits (the finalizer of splitmix64).
fn fraction(seed: u64, attempt: u32) -> u16 {
    let mut z = seed.wrapping_add(u64::from(attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let [a, b, ..] = (z ^ (z >> 31)).to_be_bytes();
    u16::from_be_bytes([a, b])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn retry_delays_stay_within_their_limits(attempt in 1..10u32, seed: u64, asked in prop::option::of(0..100u64)) {
            let policy = RetryPolicy { attempts: 6, ..RetryPolicy::default() };
            let asked = asked.map(Duration::from_secs);
            match policy.wait(attempt, seed, asked) {
                None => prop_assert!(attempt >= 6),
                Some(wait) => {
                    prop_assert!(attempt < 6);
                    match asked {
                        Some(asked) => {
                            prop_assert!(wait >= asked.min(policy.retry_after_cap));
                            prop_assert!(wait <= policy.retry_after_cap.mul_f64(1.1));
                        }
                        None => {
                            prop_assert!(wait <= policy.cap);
                            prop_assert!(wait >= policy.base.mul_f64(0.49));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn retry_delays_of_simultaneous_failures_are_spread() {
        let policy = RetryPolicy::default();
        let waits: std::collections::HashSet<_> =
            (0..100).map(|seed| policy.wait(1, seed, None)).collect();
        assert!(waits.len() > 90);
    }
}
