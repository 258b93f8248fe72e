//! For each scenario: the agent's actions, the observations and the checks (Rep 2.6).

use serde::{Deserialize, Serialize};

use crate::rules::report::facts::{Execution, ScenarioFacts, State};
use crate::rules::scenario::{Classification, Descriptor};
use crate::rules::verdict::document::Status;

/// An executed scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioDetail {
    pub descriptor: Descriptor,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The purpose of the scenario.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub intent: String,
    /// The tolerance that applied, in percent.
    pub tolerance: f64,
    /// The agent's actions, the observations, the checks, and the result.
    pub execution: Execution,
}

/// In suite order, but with the scenarios that need attention first.
pub fn all(scenarios: Vec<ScenarioFacts>) -> Vec<ScenarioDetail> {
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
    // A stable sort: within a rank, the suite's order is kept.
    executed.sort_by_key(|it| {
        urgency(
            it.execution.status,
            it.tolerance,
            it.descriptor.classification,
        )
    });
    executed
}

/// The rank of a scenario; the lowest comes first.
pub const fn urgency(status: Option<Status>, tolerance: f64, classification: Classification) -> u8 {
    match (status, classification) {
        (Some(Status::Fail), _) => 0,
        (Some(Status::ProviderFailure), _) => 1,
        (None, Classification::Safety) => 2,
        (Some(Status::Pass), _) if tolerance > 0.0 => 3,
        (Some(Status::Pass), _) => 4,
        (None, Classification::Capability) => 5,
    }
}
