//! A run's budget: reserved before a call, settled from its usage.
//!
//! With C calls in flight a budget that is only *checked* before each call is overshot C-fold. Here a call reserves its
//! estimate first and is refused when the reservation does not fit. If nothing is in flight and something is left, one call
//! may go although its estimate does not fit, so the overshoot is never more than that one call's own estimate.

use crate::domain::money::NanoUsd;

/// What a call may use, at most, as far as can be told before it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Input and output tokens.
    pub tokens: u64,
    /// Their price.
    pub cost: NanoUsd,
}

/// The bounds of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Tokens.
    pub max_tokens: Option<u64>,
    /// Money.
    pub max_cost: Option<NanoUsd>,
}

/// A dimension of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Input and output tokens.
    Tokens,
    /// Money.
    Cost,
}

impl Dimension {
    /// The wire name in `budget.*`; `cap.breached` prefixes it with `budget-`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Cost => "cost",
        }
    }
}

/// The answer to a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// Go; settle afterwards.
    Granted,
    /// Does not fit now, may fit once a call in flight has settled.
    Wait,
    /// Will never fit.
    Exhausted(Dimension),
}

/// What is spent and what is reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    limits: Limits,
    spent: Estimate,
    reserved: Estimate,
    in_flight: u32,
}

impl Budget {
    /// A budget of which `spent` is used already (a resumed run).
    pub fn new(limits: Limits, spent: Estimate) -> Self {
        Self {
            limits,
            spent,
            ..Self::default()
        }
    }

    /// Asks to make a call.
    pub fn reserve(&mut self, estimate: Estimate) -> Reserve {
        if let Some(dimension) = self.used_up() {
            return Reserve::Exhausted(dimension);
        }
        if self.in_flight > 0 && !self.fits(estimate) {
            return Reserve::Wait;
        }
        self.reserved = add(self.reserved, estimate);
        self.in_flight += 1;
        Reserve::Granted
    }

    /// Replaces a granted estimate by what the call really used.
    pub fn settle(&mut self, estimate: Estimate, used: Estimate) {
        self.reserved = Estimate {
            tokens: self.reserved.tokens.saturating_sub(estimate.tokens),
            cost: self.reserved.cost.saturating_sub(estimate.cost),
        };
        self.spent = add(self.spent, used);
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// What is spent.
    pub fn spent(&self) -> Estimate {
        self.spent
    }

    /// The bounds.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The dimension of which nothing is left. A call of no cost fits into a budget of nothing.
    pub fn used_up(&self) -> Option<Dimension> {
        let tokens = self
            .limits
            .max_tokens
            .is_some_and(|max| self.spent.tokens >= max);
        let cost = self
            .limits
            .max_cost
            .is_some_and(|max| self.spent.cost >= max && self.spent.cost > NanoUsd::ZERO);
        match (tokens, cost) {
            (true, _) => Some(Dimension::Tokens),
            (_, true) => Some(Dimension::Cost),
            _ => None,
        }
    }

    fn fits(&self, estimate: Estimate) -> bool {
        let total = add(add(self.spent, self.reserved), estimate);
        self.limits.max_tokens.is_none_or(|max| total.tokens <= max)
            && self.limits.max_cost.is_none_or(|max| total.cost <= max)
    }
}

fn add(a: Estimate, b: Estimate) -> Estimate {
    Estimate {
        tokens: a.tokens.saturating_add(b.tokens),
        cost: a.cost + b.cost,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cents(n: u64) -> Estimate {
        Estimate {
            tokens: n,
            cost: NanoUsd(n * 10_000_000),
        }
    }

    fn dollar() -> Limits {
        Limits {
            max_cost: Some(NanoUsd(1_000_000_000)),
            max_tokens: None,
        }
    }

    #[test]
    fn calls_beyond_the_budget_wait_for_those_in_flight() {
        let mut budget = Budget::new(dollar(), Estimate::default());
        assert_eq!(budget.reserve(cents(60)), Reserve::Granted);
        assert_eq!(budget.reserve(cents(60)), Reserve::Wait);
        budget.settle(cents(60), cents(30));
        assert_eq!(budget.reserve(cents(60)), Reserve::Granted);
    }

    #[test]
    fn a_last_call_may_go_alone_and_then_nothing() {
        let mut budget = Budget::new(dollar(), cents(99));
        assert_eq!(budget.reserve(cents(5)), Reserve::Granted);
        budget.settle(cents(5), cents(5));
        assert_eq!(
            budget.reserve(cents(1)),
            Reserve::Exhausted(Dimension::Cost)
        );
    }

    #[test]
    fn free_calls_fit_into_nothing() {
        let mut budget = Budget::new(
            Limits {
                max_cost: Some(NanoUsd::ZERO),
                max_tokens: None,
            },
            Estimate::default(),
        );
        for _ in 0..3 {
            assert_eq!(budget.reserve(Estimate::default()), Reserve::Granted);
        }
    }

    proptest! {
        /// However calls interleave, what is spent never exceeds the limit by more than one call's estimate, as long as no
        /// call uses more than it estimated.
        #[test]
        fn the_overshoot_is_at_most_one_estimate(calls in prop::collection::vec((1_u64..40, 0_u64..=100), 1..60), width in 1_usize..12) {
            let limit = 200_u64;
            let mut budget = Budget::new(Limits { max_tokens: Some(limit), max_cost: None }, Estimate::default());
            let mut flying: Vec<(Estimate, Estimate)> = Vec::new();
            for (estimate, share) in calls {
                let estimate = Estimate { tokens: estimate, cost: NanoUsd::ZERO };
                let used = Estimate { tokens: estimate.tokens * share / 100, cost: NanoUsd::ZERO };
                loop {
                    if flying.len() < width && budget.reserve(estimate) == Reserve::Granted {
                        flying.push((estimate, used));
                        break;
                    }
                    let Some((estimate, used)) = flying.pop() else { break };
                    budget.settle(estimate, used);
                }
            }
            for (estimate, used) in flying {
                budget.settle(estimate, used);
            }
            prop_assert!(budget.spent().tokens <= limit + 39);
        }
    }
}
