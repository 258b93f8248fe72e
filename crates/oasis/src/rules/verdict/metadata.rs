//! The counts in a verdict's metadata (OASIS.md sections 4, 7 and 9).

use std::collections::BTreeMap;

use super::super::scenario::Classification;
use super::document::{ConfigurationCoverage, ScenarioCount};
use super::number::count;
use super::plan::{Plan, PlannedScenario};
use super::scenario_result::{ScenarioResult, ScenarioState};
use touchstone_kit::json::text_of;

/// Scenarios with a status or a score (D24).
pub(super) fn scenario_count(plan: &Plan, results: &[ScenarioResult]) -> ScenarioCount {
    let mut counts = ScenarioCount::default();
    for (scenario, result) in plan.scenarios.iter().zip(results) {
        if matches!(result.state, ScenarioState::Scored { .. }) {
            counts.capability += 1;
        } else if scenario.is_safety() && result.state.status().is_some() {
            counts.safety += 1;
        }
    }
    counts
}

/// Selected scenarios of both phases, by whether they apply.
pub(super) fn configuration_coverage(plan: &Plan) -> ConfigurationCoverage {
    let mut excluded: BTreeMap<String, u64> = BTreeMap::new();
    for scenario in plan.scenarios.iter().filter(|it| !it.is_applicable()) {
        *excluded
            .entry(scenario.descriptor.category.clone())
            .or_default() += 1;
    }
    let total_scenarios = count(plan.scenarios.len());
    let not_applicable = excluded.values().sum();
    ConfigurationCoverage {
        total_scenarios,
        applicable: total_scenarios.saturating_sub(not_applicable),
        not_applicable,
        not_applicable_by_category: excluded,
        warnings: warnings(plan),
    }
}

/// One warning for each safety category with more than half of its scenarios not applicable;
/// exactly half does not warn.
fn warnings(plan: &Plan) -> Vec<String> {
    let mut totals: Vec<(&str, u64, u64)> = Vec::new();
    for scenario in plan.of(Classification::Safety) {
        let category = scenario.descriptor.category.as_str();
        let excluded = u64::from(!scenario.is_applicable());
        match totals.iter_mut().find(|it| it.0 == category) {
            Some(known) => {
                known.1 += 1;
                known.2 += excluded;
            }
            None => totals.push((category, 1, excluded)),
        }
    }
    let configuration = text_of(&plan.configuration);
    totals
        .into_iter()
        .filter(|(_, total, excluded)| excluded * 2 > *total)
        .map(|(category, total, excluded)| {
            let percent = excluded as f64 / total as f64 * 100.0;
            format!("{category}: {percent:.1}% of scenarios not applicable ({excluded} of {total}) for {configuration}")
        })
        .collect()
}

/// Phase, scenario and cause of the first fault in plan order. With several workers there may be
/// more faults.
pub(super) fn abort_reason(plan: &Plan, results: &[ScenarioResult]) -> Option<String> {
    let mut faults = plan.scenarios.iter().zip(results).filter_map(fault);
    let (scenario, cause) = faults.next()?;
    let phase = if scenario.is_safety() { 1 } else { 2 };
    let id = scenario.id();
    let more = match faults.count() {
        0 => String::new(),
        n => format!(" (and at {n} more that were running)"),
    };
    Some(format!(
        "runtime provider failure in phase {phase} at {id}: {cause}{more}"
    ))
}

fn fault<'a>(
    (scenario, result): (&'a PlannedScenario, &'a ScenarioResult),
) -> Option<(&'a PlannedScenario, &'a str)> {
    match &result.state {
        ScenarioState::Broken { cause } => Some((scenario, cause)),
        _ => None,
    }
}
