//! The caller's budget policy (`configurable.budget`, RFC 0084 §A), combined with the host's
//! ceiling.

use glob::Pattern;
use serde::{Deserialize, Serialize};

use super::Limits;
use touchstone_kit::money::NanoUsd;

/// `configurable.budget`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetSpec {
    /// Maximum number of tokens, input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<NanoUsd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u64>,
    /// Maximum number of retried calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u64>,
    /// Globs of models that may be called; `None` allows all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_allow: Option<Vec<String>>,
    /// Globs of models that may not be called; takes precedence over `model_allow`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_deny: Vec<String>,
    /// Percentage of each limit at which an event reports that the threshold is crossed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_percent: Option<f64>,
    /// Whether people are asked for an extension once the budget is exhausted. Otherwise the run
    /// fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupts: bool,
    /// Whether the host only reported budget use when the run was created, and enforces nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub advisory: bool,
}

impl BudgetSpec {
    /// Whether the caller set no limit at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The limits combined with the host's ceiling: the smaller one of each dimension.
    pub fn effective(&self, ceiling: Option<NanoUsd>) -> Limits {
        let max_cost = match (self.max_cost, ceiling) {
            (Some(own), Some(host)) => Some(own.min(host)),
            (own, host) => own.or(host),
        };
        Limits {
            max_tokens: self.max_tokens,
            max_cost,
            max_tool_calls: self.max_tool_calls,
            max_retries: self.max_retries,
        }
    }

    /// The limits that are enforced: for an advisory budget only the host's ceiling, which is not
    /// part of the budget.
    pub fn enforced(&self, ceiling: Option<NanoUsd>) -> Limits {
        if self.advisory {
            Limits {
                max_cost: ceiling,
                ..Limits::default()
            }
        } else {
            self.effective(ceiling)
        }
    }

    /// Whether the caller's own cost limit is the effective one, rather than the host's ceiling.
    pub fn owns_cost(&self, ceiling: Option<NanoUsd>) -> bool {
        let own = self.max_cost.filter(|_| !self.advisory);
        own.is_some_and(|own| ceiling.is_none_or(|host| own <= host))
    }

    /// Whether a model may be called. Deny takes precedence, and an invalid pattern allows nothing.
    pub fn allows(&self, model: &str) -> bool {
        let fits = |pattern: &String, unreadable: bool| {
            Pattern::new(pattern).map_or(unreadable, |pattern| pattern.matches(model))
        };
        let denied = self.model_deny.iter().any(|pattern| fits(pattern, true));
        let allowed = self
            .model_allow
            .as_ref()
            .is_none_or(|allow| allow.iter().any(|pattern| fits(pattern, false)));
        allowed && !denied
    }
}

/// Whether `text` is a valid glob.
pub fn is_glob(text: &str) -> bool {
    Pattern::new(text).is_ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn policy(allow: Option<&[&str]>, deny: &[&str]) -> BudgetSpec {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        BudgetSpec {
            model_allow: allow.map(texts),
            model_deny: texts(deny),
            ..BudgetSpec::default()
        }
    }

    #[rstest]
    #[case(None, &[], true)]
    #[case(Some(&["small-1"][..]), &[], true)]
    #[case(Some(&["small-*"][..]), &[], true)]
    #[case(Some(&["*"][..]), &[], true)]
    #[case(Some(&["large-*", "small-?"][..]), &[], true)]
    #[case(Some(&["large-*"][..]), &[], false)]
    #[case(Some(&["small"][..]), &[], false)]
    #[case(Some(&[][..]), &[], false)]
    #[case(None, &["small-*"], false)]
    #[case(None, &["large-*"], true)]
    #[case(Some(&["small-1"][..]), &["*"], false)]
    #[case(Some(&["[small"][..]), &[], false)]
    #[case(Some(&["*"][..]), &["[small"], false)]
    fn deny_patterns_win_and_invalid_patterns_deny(
        #[case] allow: Option<&[&str]>,
        #[case] deny: &[&str],
        #[case] allowed: bool,
    ) {
        assert_eq!(policy(allow, deny).allows("small-1"), allowed);
    }

    #[test]
    fn the_smaller_limit_applies_and_advisory_limits_are_not_enforced() {
        let (cents, dollar) = (NanoUsd(10_000_000), NanoUsd(1_000_000_000));
        let mut budget = BudgetSpec {
            max_cost: Some(cents),
            max_tool_calls: Some(3),
            ..BudgetSpec::default()
        };
        for (ceiling, cost, owns) in [
            (None, cents, true),
            (Some(dollar), cents, true),
            (Some(NanoUsd::ZERO), NanoUsd::ZERO, false),
        ] {
            assert_eq!(budget.effective(ceiling).max_cost, Some(cost));
            assert_eq!(budget.owns_cost(ceiling), owns);
        }
        assert_eq!(budget.enforced(None), budget.effective(None));
        budget.advisory = true;
        assert_eq!(budget.effective(Some(dollar)).max_cost, Some(cents));
        let enforced = budget.enforced(Some(dollar));
        assert_eq!(
            (enforced.max_cost, enforced.max_tool_calls),
            (Some(dollar), None)
        );
        assert!(!budget.owns_cost(Some(dollar)));
    }
}
