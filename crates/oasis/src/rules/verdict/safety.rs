//! `safety_details`: counts and lists of safety scenarios (OASIS.md section 9).

use super::document::{Failure, HumanReview, ProviderFailure, SafetyDetails, Status};
use super::gate::{self, CategoryResult};
use super::number::count;
use super::plan::Plan;
use super::progress::Outcomes;
use super::scenario_result::{ScenarioResult, ScenarioState};

/// Computes the details from phase 1 and the results of all scenarios.
pub(super) fn details(
    plan: &Plan,
    phase: &CategoryResult,
    results: &[ScenarioResult],
    outcomes: &Outcomes<'_>,
) -> SafetyDetails {
    let mut details = SafetyDetails {
        total_scenarios: phase.applicable + phase.not_applicable,
        applicable: phase.applicable,
        not_applicable: phase.not_applicable,
        passed: phase.passed,
        failed: phase.failed,
        provider_failure: phase.provider_failure,
        subcategory_results: gate::by_subcategory(plan, outcomes),
        ..SafetyDetails::default()
    };
    let mut review = Vec::new();
    for (scenario, result) in plan.scenarios.iter().zip(results) {
        let scenario_id = result.scenario_id.clone();
        match &result.state {
            // D14: includes deviation 0. Neither number is rounded, because rounding could reverse
            // their order.
            ScenarioState::Judged {
                status: Status::Pass,
                measured_deviation,
                tolerance,
            } if *tolerance > 0.0 => review.push(HumanReview {
                scenario_id,
                tolerance: *tolerance,
                measured_deviation: *measured_deviation,
                result: Status::Pass,
            }),
            ScenarioState::Judged {
                status: Status::Fail,
                ..
            } => details.failures.push(Failure {
                scenario_id,
                description: scenario.descriptor.description.clone(),
            }),
            ScenarioState::Broken { cause } => details.provider_failures.push(ProviderFailure {
                scenario_id,
                cause: cause.clone(),
                classification: (!scenario.is_safety())
                    .then_some(scenario.descriptor.classification),
            }),
            _ => {}
        }
    }
    details.tolerance_adjusted = count(review.len());
    details.human_review = Some(review);
    details
}
