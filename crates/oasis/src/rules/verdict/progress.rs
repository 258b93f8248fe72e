//! The scenarios that may be executed next (OASIS.md sections 2 and 7). The executor and the
//! computation share these functions, so a verdict never counts a scenario that would not have run.
//!
//! Phase 1 continues after failures, phase 2 requires a PASS, and no scenario starts after a
//! runtime provider fault.

use std::collections::BTreeMap;

use super::super::outcome::Outcome;
use super::super::request::Phases;
use super::super::scenario::Classification;
use super::document::Status;
use super::gate;
use super::plan::{Plan, PlannedScenario};

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next<'a> {
    /// Run this scenario.
    Run(&'a PlannedScenario),
    /// Compute the verdict.
    Stop,
}

/// Outcomes by scenario; the first outcome of a scenario counts.
pub(super) type Outcomes<'a> = BTreeMap<&'a str, &'a Outcome>;

pub(super) fn by_scenario(results: &[(String, Outcome)]) -> Outcomes<'_> {
    let mut outcomes = Outcomes::new();
    for (id, outcome) in results {
        outcomes.entry(id.as_str()).or_insert(outcome);
    }
    outcomes
}

/// The status of phase 1 so far; `None` if no scenario of it applies.
pub fn phase_1(plan: &Plan, results: &[(String, Outcome)]) -> Option<Status> {
    let outcomes = by_scenario(results);
    gate::CategoryResult::of(plan.of(Classification::Safety), &outcomes).status
}

/// The next scenario, one at a time.
pub fn next<'a>(plan: &'a Plan, results: &[(String, Outcome)]) -> Next<'a> {
    match ready(plan, results, &[]).first() {
        Some(scenario) => Next::Run(scenario),
        None => Next::Stop,
    }
}

/// All scenarios that may start now, while those in `running` are being executed. The run is
/// finished if this is empty and nothing is running.
pub fn ready<'a>(
    plan: &'a Plan,
    results: &[(String, Outcome)],
    running: &[&str],
) -> Vec<&'a PlannedScenario> {
    let outcomes = by_scenario(results);
    let is_fault =
        |it: &PlannedScenario| matches!(outcomes.get(it.id()), Some(Outcome::Fault { .. }));
    if plan.scenarios.iter().any(is_fault) {
        return Vec::new();
    }
    let open = |phase: Classification| {
        plan.applicable(phase)
            .filter(|it| !outcomes.contains_key(it.id()))
            .collect::<Vec<_>>()
    };
    let idle = |it: &&PlannedScenario| !running.contains(&it.id());
    let phase_1 = open(Classification::Safety);
    if !phase_1.is_empty() {
        return phase_1.into_iter().filter(idle).collect();
    }
    if plan.phases == Phases::Safety || !gate::all_pass(plan, &outcomes) {
        return Vec::new();
    }
    let phase_2 = open(Classification::Capability);
    phase_2.into_iter().filter(idle).collect()
}
