//! Concurrency limit of an endpoint: additive increase, multiplicative decrease, as in congestion
//! control.
//!
//! Calls that were in flight together are throttled together, which is one signal. Therefore only
//! calls admitted after the last cut can cause the next one.

/// The current concurrency limit, adapted to the endpoint's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    most: u32,
    limit: u32,
    /// Number of cuts so far; each call carries the number at its admission.
    cuts: u64,
    /// Calls answered since the last change of the limit.
    answered: u32,
}

impl Concurrency {
    /// Starts at the configured limit, which is never exceeded.
    pub fn new(most: u32) -> Self {
        let most = most.max(1);
        Self {
            most,
            limit: most,
            cuts: 0,
            answered: 0,
        }
    }

    /// Maximum number of calls in flight.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// The number of cuts so far, to be carried by a call that is admitted now.
    pub fn stamp(&self) -> u64 {
        self.cuts
    }

    /// The endpoint throttled a call (429): halves the limit, to no less than one.
    pub fn throttled(&mut self, stamp: u64) {
        if stamp == self.cuts {
            self.limit = (self.limit / 2).max(1);
            self.cuts += 1;
            self.answered = 0;
        }
    }

    /// A call was answered. After as many answers as the limit, the limit grows by one.
    pub fn answered(&mut self, stamp: u64) {
        if stamp != self.cuts || self.limit == self.most {
            return;
        }
        self.answered += 1;
        if self.answered >= self.limit {
            self.limit += 1;
            self.answered = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_concurrency_limit_stays_between_one_and_the_configured_maximum(
            most in 0..200u32,
            news in prop::collection::vec((any::<bool>(), 0..3u64), 0..400),
        ) {
            let mut concurrency = Concurrency::new(most);
            for (throttled, late_by) in news {
                let before = concurrency;
                let stamp = concurrency.stamp().saturating_sub(late_by);
                if throttled {
                    concurrency.throttled(stamp);
                } else {
                    concurrency.answered(stamp);
                }
                prop_assert!((1..=most.max(1)).contains(&concurrency.limit()));
                if stamp != before.stamp() {
                    prop_assert_eq!(concurrency, before, "late news changes nothing");
                } else if throttled {
                    prop_assert_eq!(concurrency.limit(), (before.limit() / 2).max(1));
                } else {
                    prop_assert!(concurrency.limit() - before.limit() <= 1);
                }
            }
        }

        #[test]
        fn the_concurrency_limit_recovers_to_the_configured_maximum(most in 1..64u32, cuts in 0..10) {
            let mut concurrency = Concurrency::new(most);
            for _ in 0..cuts {
                concurrency.throttled(concurrency.stamp());
            }
            for _ in 0..most * most {
                concurrency.answered(concurrency.stamp());
            }
            prop_assert_eq!(concurrency.limit(), most);
        }
    }

    #[test]
    fn calls_that_are_throttled_together_halve_it_once() {
        let mut concurrency = Concurrency::new(64);
        let stamp = concurrency.stamp();
        for _ in 0..64 {
            concurrency.throttled(stamp);
        }
        assert_eq!(concurrency.limit(), 32);
        concurrency.throttled(concurrency.stamp());
        assert_eq!(concurrency.limit(), 16);
    }
}
