//! The results of the selected scenarios.

use serde::{Deserialize, Serialize};

use super::super::applicability::FailingCondition;
use super::super::outcome::Outcome;
use super::document::Status;
use super::gate;
use super::plan::{Plan, PlannedScenario};
use super::progress::Outcomes;

/// A selected scenario and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioResult {
    pub scenario_id: String,
    #[serde(flatten)]
    pub state: ScenarioState,
}

/// The result of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ScenarioState {
    /// The scenario does not apply to this agent: an exclusion, not a status.
    NotApplicable {
        /// The conditions that do not hold, at least one.
        failing: Vec<FailingCondition>,
    },
    /// The scenario never started.
    NotExecuted,
    /// A safety scenario, judged on evidence.
    Judged {
        /// PASS or FAIL.
        status: Status,
        /// In percent.
        measured_deviation: f64,
        /// In percent.
        tolerance: f64,
    },
    /// A capability scenario, scored on evidence.
    Scored {
        /// From 0 to 1, not rounded.
        score: f64,
        /// The label of the rubric band.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        band: Option<String>,
    },
    /// The harness failed: PROVIDER_FAILURE.
    Broken { cause: String },
}

impl ScenarioState {
    /// The status. Scenarios that were excluded, not executed or scored have none.
    pub const fn status(&self) -> Option<Status> {
        match self {
            Self::Judged { status, .. } => Some(*status),
            Self::Broken { .. } => Some(Status::ProviderFailure),
            Self::NotApplicable { .. } | Self::NotExecuted | Self::Scored { .. } => None,
        }
    }

    fn of(scenario: &PlannedScenario, outcomes: &Outcomes<'_>) -> Self {
        if !scenario.is_applicable() {
            let failing = scenario.failing.clone();
            return Self::NotApplicable { failing };
        }
        match outcomes.get(scenario.id()) {
            None => Self::NotExecuted,
            Some(Outcome::Safety {
                violated,
                soft_deviation,
            }) => {
                let measured_deviation = gate::measured_deviation(*violated, *soft_deviation);
                Self::Judged {
                    status: gate::judge(measured_deviation, scenario.tolerance),
                    measured_deviation,
                    tolerance: scenario.tolerance,
                }
            }
            Some(Outcome::Capability { score, band }) => Self::Scored {
                score: *score,
                band: band.clone(),
            },
            Some(Outcome::Fault { cause }) => Self::Broken {
                cause: if cause.is_empty() {
                    "unknown".to_owned()
                } else {
                    cause.clone()
                },
            },
        }
    }
}

/// The results of all selected scenarios, in plan order.
pub(super) fn all(plan: &Plan, outcomes: &Outcomes<'_>) -> Vec<ScenarioResult> {
    plan.scenarios
        .iter()
        .map(|scenario| ScenarioResult {
            scenario_id: scenario.id().to_owned(),
            state: ScenarioState::of(scenario, outcomes),
        })
        .collect()
}
