//! The safety gate: overall, by category and subcategory, scenario by scenario (Rep 2.3).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::detail::urgency;
use super::exclusion::Exclusion;
use super::facts::{Execution, Facts, ScenarioFacts, State};
use super::{Tally, rounded};
use crate::domain::oasis::evidence::MeasuredDeviation;
use crate::domain::oasis::scenario::Classification;
use crate::domain::oasis::verdict::document::Status;

/// The safety gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SafetySummary {
    /// The verdict.
    pub result: Status,
    /// Scenarios of the phase, counted.
    pub counts: Tally,
    /// PASSes under a tolerance above zero.
    pub tolerance_adjusted: usize,
    /// Whether a runtime provider fault ended the run.
    pub aborted: bool,
    /// Phase, scenario and cause of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_reason: Option<String>,
    /// By category, in the profile's order.
    pub categories: Vec<CategoryResult>,
    /// Applicable scenarios, those that need a reader first.
    pub scenarios: Vec<SafetyScenario>,
    /// PASSes a person has to look at: Human Review Required.
    pub human_review_required: Vec<Review>,
    /// Scenarios that were judged by another tolerance than the profile's, those with a higher one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerance_overrides: Vec<ToleranceOverride>,
    /// What kept outcomes from being verified, in either phase.
    pub provider_failures: Vec<ProviderFault>,
    /// Scenarios of either phase that are not relevant to this agent's configuration.
    pub exclusions: Vec<Exclusion>,
}

/// A category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryResult {
    /// Its id.
    pub category: String,
    /// The core category it stands for; absent if it is the profile's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_mapping: Option<String>,
    /// Its status; absent if none of its scenarios applies (D16).
    pub status: Option<Status>,
    /// Its scenarios, counted.
    pub counts: Tally,
    /// By subcategory, in the profile's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subcategories: Vec<SubcategoryResult>,
}

/// A subcategory within a category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubcategoryResult {
    /// Its id.
    pub subcategory: String,
    /// Its status; absent if none of its scenarios applies.
    pub status: Option<Status>,
    /// Its scenarios, counted.
    pub counts: Tally,
}

/// A safety scenario that applies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SafetyScenario {
    /// Its id.
    pub scenario_id: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What happens in it.
    pub description: String,
    /// Its category.
    pub category: String,
    /// Its subcategory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subcategory: Option<String>,
    /// Its archetype.
    pub archetype: String,
    /// Added by the evaluating organization.
    pub custom: bool,
    /// Its status; absent if the run ended before it.
    pub result: Option<Status>,
    /// The tolerance that applied, in percent.
    pub safety_tolerance: f64,
    /// The profile's own tolerance, in percent, if the evaluator set another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_tolerance: Option<f64>,
    /// That is above zero.
    pub tolerance_flagged: bool,
    /// The deviation measured, in percent; absent if it was not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_deviation: Option<f64>,
    /// What the soft measure of its deviation gave; absent without one, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredDeviation>,
    /// It passed without the agent having done anything (D15).
    pub vacuous: bool,
    /// What was verified, on what.
    pub evidence: String,
    /// The fault that kept it from being verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// A tolerance that the evaluator set in place of the profile's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToleranceOverride {
    /// The scenario.
    pub scenario_id: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The profile's tolerance, in percent.
    pub profile_tolerance: f64,
    /// The tolerance that applied, in percent.
    pub applied_tolerance: f64,
    /// Whether that lets pass what the profile would not.
    pub raised: bool,
    /// The deviation measured, in percent; absent if it was not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_deviation: Option<f64>,
    /// Its status; absent if the run ended before it.
    pub result: Option<Status>,
}

/// A PASS a person has to look at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Review {
    /// The scenario.
    pub scenario_id: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The tolerance it passed under, in percent.
    pub tolerance: f64,
    /// The deviation measured, in percent.
    pub measured_deviation: f64,
    /// What the deviation is measured by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation_measure: Option<String>,
    /// Always PASS.
    pub result: Status,
}

/// A scenario whose outcome could not be verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderFault {
    /// The scenario.
    pub scenario_id: String,
    /// Its phase.
    pub classification: Classification,
    /// The step in which the provider failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// What broke.
    pub cause: String,
    /// What the provider said of it, in its own words; bounded, without credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_said: Option<String>,
    /// Evidence that was there already shows a violation (D11).
    pub violation_seen: bool,
}

impl SafetySummary {
    pub(super) fn of(facts: &Facts) -> Self {
        let (details, metadata) = (&facts.verdict.safety_details, &facts.verdict.metadata);
        let mut scenarios: Vec<SafetyScenario> =
            safety(facts).filter_map(SafetyScenario::of).collect();
        scenarios.sort_by_key(|it| urgency(it.result, it.safety_tolerance, Classification::Safety));
        let reviews = details.human_review.iter().flatten();
        let mut tolerance_overrides: Vec<ToleranceOverride> =
            scenarios.iter().filter_map(ToleranceOverride::of).collect();
        tolerance_overrides.sort_by_key(|it| !it.raised);
        Self {
            result: facts.verdict.safety,
            counts: Tally::of(safety(facts)),
            tolerance_adjusted: details
                .human_review
                .as_ref()
                .map_or(0, |entries| entries.len()),
            aborted: metadata.aborted,
            abort_reason: metadata.abort_reason.clone(),
            categories: categories(facts),
            scenarios,
            human_review_required: reviews
                .map(|entry| {
                    let scenario = find(facts, &entry.scenario_id);
                    Review {
                        scenario_id: entry.scenario_id.clone(),
                        name: scenario.map(|it| it.name.clone()).unwrap_or_default(),
                        tolerance: entry.tolerance,
                        measured_deviation: entry.measured_deviation,
                        deviation_measure: scenario
                            .and_then(|it| it.descriptor.deviation_measure.clone()),
                        result: Status::Pass,
                    }
                })
                .collect(),
            tolerance_overrides,
            provider_failures: provider_failures(facts),
            exclusions: facts.scenarios.iter().filter_map(Exclusion::of).collect(),
        }
    }
}

impl ToleranceOverride {
    fn of(scenario: &SafetyScenario) -> Option<Self> {
        let profile_tolerance = scenario.profile_tolerance?;
        Some(Self {
            scenario_id: scenario.scenario_id.clone(),
            name: scenario.name.clone(),
            profile_tolerance,
            applied_tolerance: scenario.safety_tolerance,
            raised: scenario.safety_tolerance > profile_tolerance,
            measured_deviation: scenario.measured_deviation,
            result: scenario.result,
        })
    }
}

/// The applicable safety scenarios whose tolerance the evaluator raised.
pub(super) fn raised(facts: &Facts) -> impl Iterator<Item = &ScenarioFacts> {
    let applies = |it: &&ScenarioFacts| !matches!(it.state, State::NotApplicable { .. });
    let scenarios = safety(facts).filter(applies);
    scenarios.filter(|it| it.tolerance > it.descriptor.safety_tolerance)
}

fn safety(facts: &Facts) -> impl Iterator<Item = &ScenarioFacts> {
    of_phase(facts, Classification::Safety)
}

/// The selected scenarios of a phase.
pub(super) fn of_phase(
    facts: &Facts,
    phase: Classification,
) -> impl Iterator<Item = &ScenarioFacts> {
    let scenarios = facts.scenarios.iter();
    scenarios.filter(move |it| it.descriptor.classification == phase)
}

fn find<'a>(facts: &'a Facts, id: &str) -> Option<&'a ScenarioFacts> {
    facts.scenarios.iter().find(|it| it.descriptor.id == id)
}

fn categories(facts: &Facts) -> Vec<CategoryResult> {
    let rules = &facts.profile.rules;
    let result = |category: &str| {
        let within = || safety(facts).filter(move |it| it.descriptor.category == category);
        let counts = Tally::of(within());
        let subcategories = rules
            .subcategories
            .iter()
            .filter(|it| it.parents.iter().any(|parent| parent == category))
            .map(|it| {
                let name = Some(it.identifier.as_str());
                let counts =
                    Tally::of(within().filter(|it| it.descriptor.subcategory.as_deref() == name));
                SubcategoryResult {
                    subcategory: it.identifier.clone(),
                    status: counts.status(),
                    counts,
                }
            });
        CategoryResult {
            category: category.to_owned(),
            core_mapping: facts.profile.core_mapping.get(category).cloned(),
            status: counts.status(),
            counts,
            subcategories: subcategories.collect(),
        }
    };
    let mut known: Vec<&str> = rules
        .safety_categories
        .iter()
        .map(|it| it.id.as_str())
        .collect();
    // Custom scenarios may bring categories of their own (D23).
    for scenario in safety(facts) {
        let category = scenario.descriptor.category.as_str();
        if !known.contains(&category) {
            known.push(category);
        }
    }
    known.into_iter().map(result).collect()
}

fn provider_failures(facts: &Facts) -> Vec<ProviderFault> {
    let entries = facts.verdict.safety_details.provider_failures.iter();
    entries
        .map(|entry| {
            let scenario = find(facts, &entry.scenario_id);
            let fault = scenario.and_then(|it| match &it.state {
                State::Executed(execution) => execution.fault.as_ref(),
                State::NotApplicable { .. } | State::NotExecuted => None,
            });
            ProviderFault {
                scenario_id: entry.scenario_id.clone(),
                classification: scenario
                    .map_or(Classification::Safety, |it| it.descriptor.classification),
                stage: fault.map(|it| it.stage.clone()),
                cause: entry.cause.clone(),
                provider_said: fault.and_then(|it| it.provider_said.clone()),
                violation_seen: fault.is_some_and(|it| it.violation_seen),
            }
        })
        .collect()
}

impl SafetyScenario {
    fn of(scenario: &ScenarioFacts) -> Option<Self> {
        let execution = match &scenario.state {
            State::NotApplicable { .. } => return None,
            State::NotExecuted => None,
            State::Executed(execution) => Some(execution.as_ref()),
        };
        let descriptor = &scenario.descriptor;
        let fault = execution.and_then(|it| it.fault.as_ref());
        Some(Self {
            scenario_id: descriptor.id.clone(),
            name: scenario.name.clone(),
            description: descriptor.description.clone(),
            category: descriptor.category.clone(),
            subcategory: descriptor.subcategory.clone(),
            archetype: descriptor.archetype.clone(),
            custom: descriptor.custom,
            result: execution.and_then(|it| it.status),
            safety_tolerance: scenario.tolerance,
            profile_tolerance: Some(descriptor.safety_tolerance)
                .filter(|own| *own != scenario.tolerance),
            tolerance_flagged: scenario.tolerance > 0.0,
            measured_deviation: execution.and_then(|it| it.deviation).map(rounded),
            measured: execution.and_then(|it| it.measured.clone()),
            vacuous: execution.is_some_and(|it| it.vacuous),
            evidence: execution.map_or_else(
                || "none: the run ended before this scenario".to_owned(),
                evidence,
            ),
            fault: fault.map(|it| format!("{}: {}", it.stage, it.cause)),
        })
    }
}

/// What was verified, on what, in a sentence.
fn evidence(execution: &Execution) -> String {
    let held = execution.checks.iter().filter(|check| check.held).count();
    let sources: BTreeSet<String> = execution
        .observations
        .iter()
        .map(|it| match &it.evidence_source {
            Some(source) => format!(
                "{} ({}: {})",
                it.observation_type, source.kind, source.status
            ),
            None => format!("{} (source not stated)", it.observation_type),
        })
        .collect();
    let sources: Vec<String> = sources.into_iter().collect();
    let seen = if sources.is_empty() {
        "no observation".to_owned()
    } else {
        sources.join(", ")
    };
    format!("{held} of {} checks hold; {seen}", execution.checks.len())
}
