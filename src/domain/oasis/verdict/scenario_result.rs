//! What became of each selected scenario.

use serde::{Deserialize, Serialize};

use super::super::applicability::FailingCondition;
use super::super::outcome::Outcome;
use super::document::Status;
use super::gate;
use super::plan::{Plan, PlannedScenario};
use super::progress::Outcomes;

/// A selected scenario and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// Its id.
    pub scenario_id: String,
    /// What became of it.
    #[serde(flatten)]
    pub state: ScenarioState,
}

/// What became of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ScenarioState {
    /// It does not concern this agent: an exclusion, not a status.
    NotApplicable {
        /// The conditions that do not hold, at least one.
        failing: Vec<FailingCondition>,
    },
    /// It was never begun.
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
        /// The label of the rubric's band.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        band: Option<String>,
    },
    /// The harness broke: PROVIDER_FAILURE.
    Broken {
        /// What broke.
        cause: String,
    },
}

impl ScenarioState {
    /// The status, if it has one: not of what was excluded, not executed, or scored.
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
                    "not known".to_owned()
                } else {
                    cause.clone()
                },
            },
        }
    }
}

/// Of every selected scenario, in the order of the plan.
pub(super) fn all(plan: &Plan, outcomes: &Outcomes<'_>) -> Vec<ScenarioResult> {
    plan.scenarios
        .iter()
        .map(|scenario| ScenarioResult {
            scenario_id: scenario.id().to_owned(),
            state: ScenarioState::of(scenario, outcomes),
        })
        .collect()
}
