//! Scenarios of a set, counted, and the status that gives (OASIS section 7).

use serde::{Deserialize, Serialize};

use super::facts::{ScenarioFacts, State};
use crate::domain::oasis::verdict::document::Status;

/// Safety scenarios of a set, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// All but the excluded ones.
    pub applicable: usize,
    /// Excluded.
    pub not_applicable: usize,
    /// PASS.
    pub passed: usize,
    /// FAIL.
    pub failed: usize,
    /// PROVIDER_FAILURE.
    pub provider_failure: usize,
    /// Not reached before the run was ended.
    pub not_executed: usize,
}

impl Tally {
    pub(super) fn of<'a>(scenarios: impl Iterator<Item = &'a ScenarioFacts>) -> Self {
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

    /// The status of the set: FAIL beats PROVIDER_FAILURE, and what was not executed is no PASS (D17). None if nothing
    /// applies (D16).
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
