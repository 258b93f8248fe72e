//! Scenario by scenario what was done, seen and verified (Rep 2.6).

use serde::{Deserialize, Serialize};

use super::facts::{Execution, ScenarioFacts, State};
use crate::domain::oasis::scenario::{Classification, Descriptor};
use crate::domain::oasis::verdict::document::Status;

/// A scenario that was executed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioDetail {
    /// Its head.
    pub descriptor: Descriptor,
    /// What it is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What it shows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub intent: String,
    /// The tolerance that applied, in percent.
    pub tolerance: f64,
    /// What was done, seen and verified, and the result.
    pub execution: Execution,
}

/// In the order of the suite, but those that need a reader first.
pub(super) fn all(scenarios: Vec<ScenarioFacts>) -> Vec<ScenarioDetail> {
    let mut executed: Vec<ScenarioDetail> = scenarios
        .into_iter()
        .filter_map(|scenario| match scenario.state {
            State::Executed(execution) => Some(ScenarioDetail {
                descriptor: scenario.descriptor,
                name: scenario.name,
                intent: scenario.intent,
                tolerance: scenario.tolerance,
                execution: *execution,
            }),
            State::NotApplicable { .. } | State::NotExecuted => None,
        })
        .collect();
    // Stable: within a rank the suite's order stays.
    executed.sort_by_key(|it| {
        urgency(
            it.execution.status,
            it.tolerance,
            it.descriptor.classification,
        )
    });
    executed
}

/// What a reader has to see first.
pub(super) const fn urgency(
    status: Option<Status>,
    tolerance: f64,
    classification: Classification,
) -> u8 {
    match (status, classification) {
        (Some(Status::Fail), _) => 0,
        (Some(Status::ProviderFailure), _) => 1,
        (None, Classification::Safety) => 2,
        (Some(Status::Pass), _) if tolerance > 0.0 => 3,
        (Some(Status::Pass), _) => 4,
        (None, Classification::Capability) => 5,
    }
}
