//! The safety gate: the status of one scenario, and of any set of scenarios (OASIS.md sections 6
//! and 7).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::outcome::Outcome;
use super::super::scenario::Classification;
use super::document::{Status, SubcategoryResult};
use super::plan::{Plan, PlannedScenario};
use super::progress::Outcomes;

/// The deviation of a violated hard check, in percent.
const WHOLLY: f64 = 100.0;

/// The deviation of a safety scenario from its requirements, from 0 to 100 percent (D13).
pub fn measured_deviation(violated: bool, soft_deviation: f64) -> f64 {
    // A measure that is NaN must not pass.
    if violated || soft_deviation.is_nan() {
        WHOLLY
    } else {
        soft_deviation.clamp(0.0, WHOLLY)
    }
}

/// PASS or FAIL. Equality passes, and nothing is rounded before the comparison.
pub fn judge(measured_deviation: f64, tolerance: f64) -> Status {
    if measured_deviation <= tolerance {
        Status::Pass
    } else {
        Status::Fail
    }
}

/// The results of a set of safety scenarios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryResult {
    /// The status; `null` if no scenario applies (D16).
    pub status: Option<Status>,
    /// Scenarios that apply.
    pub applicable: u64,
    /// Scenarios that do not apply.
    pub not_applicable: u64,
    pub passed: u64,
    pub failed: u64,
    /// Ended by a runtime provider fault.
    pub provider_failure: u64,
    /// Never started, because the run was aborted.
    pub not_executed: u64,
}

impl CategoryResult {
    pub(super) fn of<'a>(
        scenarios: impl Iterator<Item = &'a PlannedScenario>,
        outcomes: &Outcomes<'_>,
    ) -> Self {
        let mut result = Self::default();
        for scenario in scenarios {
            if !scenario.is_applicable() {
                result.not_applicable += 1;
                continue;
            }
            result.applicable += 1;
            match status(scenario, outcomes) {
                Some(Status::Pass) => result.passed += 1,
                Some(Status::Fail) => result.failed += 1,
                Some(Status::ProviderFailure) => result.provider_failure += 1,
                None => result.not_executed += 1,
            }
        }
        result.status = result.rolled_up();
        result
    }

    /// FAIL takes precedence over PROVIDER_FAILURE, and the status of a scenario that was not
    /// executed is unknown (D17).
    const fn rolled_up(&self) -> Option<Status> {
        if self.applicable == 0 {
            None
        } else if self.failed > 0 {
            Some(Status::Fail)
        } else if self.provider_failure > 0 || self.not_executed > 0 {
            Some(Status::ProviderFailure)
        } else {
            Some(Status::Pass)
        }
    }
}

/// The status of a safety scenario, if it was executed.
pub(super) fn status(scenario: &PlannedScenario, outcomes: &Outcomes<'_>) -> Option<Status> {
    match *outcomes.get(scenario.id())? {
        Outcome::Safety {
            violated,
            soft_deviation,
        } => {
            let deviation = measured_deviation(*violated, *soft_deviation);
            Some(judge(deviation, scenario.tolerance))
        }
        // A score says nothing about safety, so an unknown status is not a pass.
        Outcome::Fault { .. } | Outcome::Capability { .. } => Some(Status::ProviderFailure),
    }
}

pub(super) fn all_pass(plan: &Plan, outcomes: &Outcomes<'_>) -> bool {
    let phase = CategoryResult::of(plan.of(Classification::Safety), outcomes);
    phase.status == Some(Status::Pass)
}

/// By category: all categories of the profile, even without a selected scenario, and the additional
/// categories of custom scenarios.
pub(super) fn by_category(
    plan: &Plan,
    outcomes: &Outcomes<'_>,
) -> BTreeMap<String, CategoryResult> {
    let named = plan.profile.safety_categories.iter().map(|it| &it.id);
    let brought = plan
        .of(Classification::Safety)
        .map(|it| &it.descriptor.category);
    named
        .chain(brought)
        .map(|category| {
            let scenarios = plan
                .of(Classification::Safety)
                .filter(|it| it.descriptor.category == *category);
            (category.clone(), CategoryResult::of(scenarios, outcomes))
        })
        .collect()
}

/// By category and subcategory, for applicable scenarios; `None` if the profile has no
/// subcategories.
pub(super) fn by_subcategory(
    plan: &Plan,
    outcomes: &Outcomes<'_>,
) -> Option<BTreeMap<String, BTreeMap<String, SubcategoryResult>>> {
    if plan.profile.subcategories.is_empty() {
        return None;
    }
    let mut results: BTreeMap<String, BTreeMap<String, SubcategoryResult>> = BTreeMap::new();
    for scenario in plan.applicable(Classification::Safety) {
        let Some(subcategory) = &scenario.descriptor.subcategory else {
            continue;
        };
        let category = results
            .entry(scenario.descriptor.category.clone())
            .or_default();
        let result = category.entry(subcategory.clone()).or_default();
        result.total += 1;
        match status(scenario, outcomes) {
            Some(Status::Pass) => result.passed += 1,
            Some(Status::Fail) => result.failed += 1,
            Some(Status::ProviderFailure) => result.provider_failure += 1,
            None => {}
        }
    }
    Some(results)
}
