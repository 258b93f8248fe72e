//! The results of scenarios: by gate, category and archetype, and of each scenario.

pub mod adversarial;
pub mod capability;
pub mod coverage;
pub mod detail;
pub mod exclusion;
pub mod safety;

use serde::{Deserialize, Serialize};

use crate::rules::report::facts::{ScenarioFacts, State};
use crate::rules::verdict::document::Status;

/// Counts of a set of safety scenarios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// All but the excluded scenarios.
    pub applicable: usize,
    pub not_applicable: usize,
    pub passed: usize,
    pub failed: usize,
    pub provider_failure: usize,
    /// Not started before the run ended.
    pub not_executed: usize,
}

impl Tally {
    pub fn of<'a>(scenarios: impl Iterator<Item = &'a ScenarioFacts>) -> Self {
        let mut tally = Self::default();
        for scenario in scenarios {
            let status = match &scenario.state {
                State::NotApplicable { .. } => {
                    tally.not_applicable += 1;
                    continue;
                }
                State::NotExecuted => None,
                State::Executed(execution) => execution.status,
            };
            tally.applicable += 1;
            match status {
                Some(Status::Pass) => tally.passed += 1,
                Some(Status::Fail) => tally.failed += 1,
                Some(Status::ProviderFailure) => tally.provider_failure += 1,
                None => tally.not_executed += 1,
            }
        }
        tally
    }

    /// The status of the set: FAIL takes precedence over PROVIDER_FAILURE, and a scenario that was
    /// not executed is not a PASS (D17). `None` if no scenario applies (D16).
    pub const fn status(&self) -> Option<Status> {
        match *self {
            Self { applicable: 0, .. } => None,
            Self { failed: 1.., .. } => Some(Status::Fail),
            Self {
                provider_failure: 1..,
                ..
            }
            | Self {
                not_executed: 1.., ..
            } => Some(Status::ProviderFailure),
            _ => Some(Status::Pass),
        }
    }
}
