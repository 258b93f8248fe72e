//! A run's budget: reserved before a call, settled from its usage.
//!
//! With C calls in flight, a budget that is only *checked* before each call can be exceeded C-fold.
//! Here, a call reserves its estimate first and is refused if the reservation does not fit. If no
//! call is in flight and some budget is left, one call may be made although its estimate does not
//! fit, so a budget is exceeded by at most that call's estimate. Tool calls and retries are counted
//! one by one, so their limits are never exceeded (RFC 0084).

pub mod policy;
pub mod watch;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use touchstone_kit::money::NanoUsd;

/// Upper bound of a call's usage, estimated before the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Input and output tokens.
    pub tokens: u64,
    pub cost: NanoUsd,
}

/// The limits of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Input and output tokens.
    pub max_tokens: Option<u64>,
    pub max_cost: Option<NanoUsd>,
    pub max_tool_calls: Option<u64>,
    /// Retried calls.
    pub max_retries: Option<u64>,
}

impl Limits {
    /// The limit of one dimension, in its unit.
    pub fn of(&self, dimension: Dimension) -> Option<f64> {
        match dimension {
            Dimension::Tokens => self.max_tokens.map(number),
            Dimension::Cost => self.max_cost.map(NanoUsd::usd),
            Dimension::ToolCalls => self.max_tool_calls.map(number),
            Dimension::Retries => self.max_retries.map(number),
        }
    }
}

/// Usage of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    /// Input and output tokens.
    pub tokens: u64,
    /// Their price.
    pub cost: NanoUsd,
    pub tool_calls: u64,
    /// Retried calls.
    pub retries: u64,
}

impl Spending {
    /// The usage of one dimension, in its unit.
    pub fn of(&self, dimension: Dimension) -> f64 {
        match dimension {
            Dimension::Tokens => number(self.tokens),
            Dimension::Cost => self.cost.usd(),
            Dimension::ToolCalls => number(self.tool_calls),
            Dimension::Retries => number(self.retries),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "numbers of tokens and calls are far below 2^53"
)]
fn number(count: u64) -> f64 {
    count as f64
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Dimension {
    /// Input and output tokens.
    Tokens,
    Cost,
    ToolCalls,
    /// Retried calls.
    Retries,
}

impl Dimension {
    /// Every dimension that is counted.
    pub const ALL: [Self; 4] = [Self::Tokens, Self::Cost, Self::ToolCalls, Self::Retries];

    /// The wire name in `budget.*`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::ToolCalls => "toolCalls",
            Self::Retries => "retries",
        }
    }

    /// The dimension of this wire name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|dimension| dimension.as_str() == name)
    }

    /// The `kind` of its `cap.breached`.
    pub const fn cap(self) -> &'static str {
        match self {
            Self::Tokens => "budget-tokens",
            Self::Cost => "budget-cost",
            Self::ToolCalls => "budget-tool-calls",
            Self::Retries => "budget-retries",
        }
    }
}

/// The result of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// The call may be made; settle it afterwards.
    Granted,
    /// Does not fit now, but may fit once a call in flight has settled.
    Wait,
    /// Will never fit.
    Exhausted(Dimension),
}

/// Tracks spending and reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    limits: Limits,
    spent: Spending,
    reserved: Estimate,
    in_flight: u32,
    refused: BTreeSet<Dimension>,
}

impl Budget {
    /// A budget of which `spent` is already used (a resumed run).
    pub fn new(limits: Limits, spent: Spending) -> Self {
        Self {
            limits,
            spent,
            ..Self::default()
        }
    }

    /// Reserves an estimate for a call.
    pub fn reserve(&mut self, estimate: Estimate) -> Reserve {
        if let Some(dimension) = self.used_up() {
            return Reserve::Exhausted(self.refuse(dimension));
        }
        if self.in_flight > 0 && !self.fits(estimate) {
            return Reserve::Wait;
        }
        self.reserved = add(self.reserved, estimate);
        self.in_flight += 1;
        Reserve::Granted
    }

    /// Replaces a granted estimate with the actual usage.
    pub fn settle(&mut self, estimate: Estimate, used: Estimate) {
        self.reserved = Estimate {
            tokens: self.reserved.tokens.saturating_sub(estimate.tokens),
            cost: self.reserved.cost.saturating_sub(estimate.cost),
        };
        self.spent.tokens = self.spent.tokens.saturating_add(used.tokens);
        self.spent.cost = self.spent.cost + used.cost;
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Counts a tool call, if the limit allows it.
    pub fn call_tool(&mut self) -> Result<(), Dimension> {
        let max = self.limits.max_tool_calls;
        if max.is_some_and(|max| self.spent.tool_calls >= max) {
            return Err(self.refuse(Dimension::ToolCalls));
        }
        self.spent.tool_calls += 1;
        Ok(())
    }

    /// Counts a retry, if the limit allows it.
    pub fn retry(&mut self) -> Result<(), Dimension> {
        let max = self.limits.max_retries;
        if max.is_some_and(|max| self.spent.retries >= max) {
            return Err(self.refuse(Dimension::Retries));
        }
        self.spent.retries += 1;
        Ok(())
    }

    fn refuse(&mut self, dimension: Dimension) -> Dimension {
        self.refused.insert(dimension);
        dimension
    }

    /// The dimensions in which a reservation was refused.
    pub fn refused(&self) -> &BTreeSet<Dimension> {
        &self.refused
    }

    pub fn spent(&self) -> Spending {
        self.spent
    }

    /// The dimension that leaves nothing for a model call. A call that costs nothing fits into a
    /// cost limit of zero.
    fn used_up(&self) -> Option<Dimension> {
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
        let spent = Estimate {
            tokens: self.spent.tokens,
            cost: self.spent.cost,
        };
        let total = add(add(spent, self.reserved), estimate);
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
            ..Limits::default()
        }
    }

    #[test]
    fn calls_beyond_the_budget_wait_for_those_in_flight() {
        let mut budget = Budget::new(dollar(), Spending::default());
        assert_eq!(budget.reserve(cents(60)), Reserve::Granted);
        assert_eq!(budget.reserve(cents(60)), Reserve::Wait);
        budget.settle(cents(60), cents(30));
        assert_eq!(budget.reserve(cents(60)), Reserve::Granted);
    }

    #[test]
    fn the_last_call_may_exceed_the_budget_and_later_calls_are_refused() {
        let mut budget = Budget::new(
            dollar(),
            Spending {
                cost: cents(99).cost,
                ..Spending::default()
            },
        );
        assert_eq!(budget.reserve(cents(5)), Reserve::Granted);
        budget.settle(cents(5), cents(5));
        assert_eq!(
            budget.reserve(cents(1)),
            Reserve::Exhausted(Dimension::Cost)
        );
    }

    #[test]
    fn free_calls_fit_into_a_budget_of_zero() {
        let mut budget = Budget::new(
            Limits {
                max_cost: Some(NanoUsd::ZERO),
                ..Limits::default()
            },
            Spending::default(),
        );
        for _ in 0..3 {
            assert_eq!(budget.reserve(Estimate::default()), Reserve::Granted);
        }
    }

    #[test]
    fn tool_calls_and_retries_are_counted_and_never_overshot() {
        let limits = Limits {
            max_tool_calls: Some(2),
            max_retries: Some(0),
            ..Limits::default()
        };
        let mut budget = Budget::new(limits, Spending::default());
        assert_eq!(budget.call_tool(), Ok(()));
        assert_eq!(budget.call_tool(), Ok(()));
        assert!(
            budget.refused().is_empty(),
            "using all of it is not asking for more"
        );
        assert_eq!(budget.call_tool(), Err(Dimension::ToolCalls));
        assert_eq!(budget.spent().tool_calls, 2);
        assert_eq!(budget.retry(), Err(Dimension::Retries));
        assert_eq!(budget.spent().retries, 0);
        assert_eq!(budget.refused().len(), 2);
        assert_eq!(
            budget.reserve(cents(1)),
            Reserve::Granted,
            "not limited separately"
        );
        let mut resumed = Budget::new(limits, budget.spent());
        assert_eq!(resumed.call_tool(), Err(Dimension::ToolCalls));
    }

    #[test]
    fn every_dimension_has_names_of_its_own() {
        for dimension in Dimension::ALL {
            assert_eq!(Dimension::parse(dimension.as_str()), Some(dimension));
            assert!(dimension.cap().starts_with("budget-"));
        }
        assert_eq!(Dimension::parse("model"), None);
    }

    proptest! {
        /// However calls interleave, spending exceeds the limit by at most one call's estimate, as
        /// long as no call uses more than its estimate.
        #[test]
        fn the_overshoot_is_at_most_one_estimate(calls in prop::collection::vec((1_u64..40, 0_u64..=100), 1..60), width in 1_usize..12) {
            let limit = 200_u64;
            let mut budget = Budget::new(Limits { max_tokens: Some(limit), ..Limits::default() }, Spending::default());
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
