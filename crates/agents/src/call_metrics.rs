//! Metrics of calls to models and remote agents. Neither the address nor the name of a model is a
//! label: tenants may choose both, and an address may contain a secret. The metrics with a limited
//! number of models are in `client_metrics`.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Histogram};

use crate::calls::CallRole;
use crate::ports::model::ModelError;
use crate::rules::{COMMAND_PROVIDER, CallOutcome, TokenUsage};
use touchstone_host::telemetry::{counter, histogram, names};
use touchstone_kit::money::NanoUsd;

/// The values of the label `provider`. Other names, such as those of cassettes, count as the last
/// one.
const PROVIDERS: [&str; 7] = [
    "a2a",
    "anthropic",
    COMMAND_PROVIDER,
    "openai",
    "openwop",
    "scripted",
    "other",
];

/// The metrics of the calls in one role to the models of one provider.
pub(super) struct CallMetrics {
    /// In the order of [`CallOutcome::ALL`].
    outcomes: [Counter; CallOutcome::ALL.len()],
    seconds: Histogram,
    input_tokens: Counter,
    output_tokens: Counter,
    cost_usd: Histogram,
}

impl CallMetrics {
    /// Exported from the first time they are asked for.
    pub fn of(provider: &str, role: CallRole) -> &'static Self {
        static ALL: [[OnceLock<CallMetrics>; CallRole::COUNT]; PROVIDERS.len()] =
            [const { [const { OnceLock::new() }; CallRole::COUNT] }; PROVIDERS.len()];
        static OTHER: OnceLock<CallMetrics> = OnceLock::new();
        let label = provider_of(provider);
        let known = PROVIDERS.iter().position(|it| *it == label);
        let index = known.unwrap_or(PROVIDERS.len() - 1);
        let cell = ALL.get(index).and_then(|roles| roles.get(role as usize));
        cell.unwrap_or(&OTHER)
            .get_or_init(|| Self::new(label, role))
    }

    fn new(provider: &'static str, role: CallRole) -> Self {
        let labels = [("provider", provider), ("role", role.as_str())];
        let with = |name, value| [labels.as_slice(), &[(name, value)]].concat();
        let tokens = |kind| counter(names::MODEL_TOKENS, &with("type", kind));
        Self {
            outcomes: CallOutcome::ALL
                .map(|it| counter(names::MODEL_CALLS, &with("outcome", it.as_str()))),
            seconds: histogram(names::MODEL_SECONDS, &labels),
            input_tokens: tokens("input"),
            output_tokens: tokens("output"),
            cost_usd: histogram(names::MODEL_COST, &labels),
        }
    }

    /// Counts an attempt.
    pub fn attempted<T>(&self, result: &Result<T, ModelError>, took: Duration) {
        self.seconds.record(took.as_secs_f64());
        self.count(match result {
            Ok(_) => CallOutcome::Answered,
            Err(error) => outcome_of(error),
        });
    }

    /// Counts a call that was not made.
    pub fn prevented(&self, error: &ModelError) {
        self.count(outcome_of(error));
    }

    /// Counts an answer from the cache.
    pub fn cached(&self) {
        self.count(CallOutcome::Cached);
    }

    /// Counts what an answer used.
    pub fn used(&self, usage: &TokenUsage, cost: Option<NanoUsd>) {
        self.input_tokens.increment(usage.input);
        self.output_tokens.increment(usage.output);
        if let Some(cost) = cost {
            self.cost_usd.record(cost.usd());
        }
    }

    fn count(&self, outcome: CallOutcome) {
        if let Some(counter) = self.outcomes.get(outcome as usize) {
            counter.increment(1);
        }
    }
}

/// The value of the label `provider`.
pub(super) fn provider_of(provider: &str) -> &'static str {
    let known = PROVIDERS.iter().find(|it| **it == provider);
    known.copied().unwrap_or("other")
}

pub(super) fn outcome_of(error: &ModelError) -> CallOutcome {
    match error {
        ModelError::Unavailable { reason, .. } => CallOutcome::of_reason(reason),
        ModelError::Rejected { .. } => CallOutcome::Rejected,
    }
}
