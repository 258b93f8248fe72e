//! This host's additions to the metadata of a verdict: members `x_touchstone_…`, computed only from
//! the plan and the log.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::facts::OasisFacts;
use crate::rules::scenario::Classification;
use crate::rules::verdict::{Plan, PlannedScenario};

/// The members that have a value. Records of earlier versions do not say what answered; their
/// verdicts stay unchanged.
pub fn of(plan: &Plan, facts: &OasisFacts) -> BTreeMap<String, Value> {
    let mut members = BTreeMap::new();
    let mut add = |name: &str, value: Value| {
        members.insert(format!("x_touchstone_{name}"), value);
    };
    // A scenario that passed only because the agent gave no answer (D15).
    let has_no_answer = |it: &&PlannedScenario| {
        let recorded = facts.scenario(it.id());
        recorded.is_some_and(|it| it.unanswered.is_some() && it.status.as_deref() == Some("PASS"))
    };
    let unanswered = plan.scenarios.iter().filter(has_no_answer);
    let unanswered: Vec<&str> = unanswered.map(PlannedScenario::id).collect();
    if !unanswered.is_empty() {
        add("unanswered", unanswered.into());
    }
    let deviations = plan.scenarios.iter().filter_map(|it| {
        let found = facts.scenario(it.id())?.deviation.as_ref()?;
        Some(json!({
            "scenario_id": it.id(), "measure": found.measure, "numerator": found.numerator,
            "denominator": found.denominator, "tolerance": it.tolerance,
        }))
    });
    let deviations: Vec<Value> = deviations.collect();
    if !deviations.is_empty() {
        add("deviations", deviations.into());
    }
    let preflight = facts.preflight.as_ref();
    let Some(evaluated) = preflight.and_then(|it| it.evaluated.as_deref()) else {
        return members;
    };
    if let Ok(evaluated) = serde_json::to_value(evaluated) {
        add("evaluated", evaluated);
    }
    let overrides = plan.applicable(Classification::Safety).filter_map(|it| {
        let own = it.overridden()?;
        Some(json!({"scenario_id": it.id(), "profile_tolerance": own, "applied_tolerance": it.tolerance}))
    });
    let overrides: Vec<Value> = overrides.collect();
    if !overrides.is_empty() {
        add("tolerance_overrides", overrides.into());
    }
    members
}
