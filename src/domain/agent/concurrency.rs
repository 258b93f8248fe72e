//! How many calls an endpoint is given at once: additive increase, multiplicative decrease, as congestion control has it.
//!
//! Calls that were under way together are throttled together, and that is one piece of news: only calls admitted after the
//! last cut can cause the next one.

/// Calls in flight at most, as the endpoint's answers suggest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    most: u32,
    limit: u32,
    /// Cuts so far; a call carries the number that it was admitted under.
    cuts: u64,
    /// Calls answered since the last change of the limit.
    answered: u32,
}

impl Concurrency {
    /// Begins at the configured number, which is never exceeded.
    pub fn new(most: u32) -> Self {
        let most = most.max(1);
        Self {
            most,
            limit: most,
            cuts: 0,
            answered: 0,
        }
    }

    /// Calls in flight at most.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// What a call admitted now carries.
    pub fn stamp(&self) -> u64 {
        self.cuts
    }

    /// The endpoint asked for less (429): half as many calls, at least one.
    pub fn throttled(&mut self, stamp: u64) {
        if stamp == self.cuts {
            self.limit = (self.limit / 2).max(1);
            self.cuts += 1;
            self.answered = 0;
        }
    }

    /// A call was answered. As many answers as calls may be in flight allow for one call more.
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
        fn it_stays_between_one_and_the_configured_number(
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
        fn whatever_happened_it_grows_back(most in 1..64u32, cuts in 0..10) {
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
