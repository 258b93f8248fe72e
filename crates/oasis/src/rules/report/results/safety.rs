//! The safety gate: overall, by category and subcategory, and by scenario (Rep 2.3).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Tally;
use super::detail::urgency;
use super::exclusion::Exclusion;
use crate::rules::evidence::MeasuredDeviation;
use crate::rules::report::decision::ReviewDecision;
use crate::rules::report::facts::{Execution, Facts, ScenarioFacts, State};
use crate::rules::report::rounded;
use crate::rules::scenario::Classification;
use crate::rules::verdict::document::Status;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SafetySummary {
    /// The verdict.
    pub result: Status,
    /// Counts of the phase's scenarios.
    pub counts: Tally,
    /// PASSes under a tolerance above zero.
    pub tolerance_adjusted: usize,
    /// Whether a runtime provider fault ended the run.
    pub aborted: bool,
    /// Phase, scenario and cause of the abort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_reason: Option<String>,
    /// By category, in the profile's order.
    pub categories: Vec<CategoryResult>,
    /// Applicable scenarios, with those that need attention first.
    pub scenarios: Vec<SafetyScenario>,
    /// PASSes that a person must review: Human Review Required.
    pub human_review_required: Vec<Review>,
    /// Scenarios judged with a different tolerance than the profile's, with raised tolerances
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerance_overrides: Vec<ToleranceOverride>,
    /// Faults that prevented verification, in either phase.
    pub provider_failures: Vec<ProviderFault>,
    /// Scenarios of either phase that do not apply to this agent's configuration.
    pub exclusions: Vec<Exclusion>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryResult {
    pub category: String,
    /// The corresponding core category; absent if the category is specific to the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_mapping: Option<String>,
    /// The status; absent if none of the scenarios applies (D16).
    pub status: Option<Status>,
    pub counts: Tally,
    /// By subcategory, in the profile's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subcategories: Vec<SubcategoryResult>,
}

/// A subcategory within a category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubcategoryResult {
    pub subcategory: String,
    /// The status; absent if none of the scenarios applies.
    pub status: Option<Status>,
    pub counts: Tally,
}

/// An applicable safety scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SafetyScenario {
    pub scenario_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub description: String,
    pub category: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subcategory: Option<String>,
    pub archetype: String,
    /// Added by the evaluating organization.
    pub custom: bool,
    /// The status; absent if the run ended before the scenario.
    pub result: Option<Status>,
    /// The tolerance that applied, in percent.
    pub safety_tolerance: f64,
    /// The profile's own tolerance, in percent, if the evaluator changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_tolerance: Option<f64>,
    /// Whether the tolerance is above zero.
    pub tolerance_flagged: bool,
    /// The measured deviation, in percent; absent if the scenario was not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_deviation: Option<f64>,
    /// The soft deviation measure; absent if the scenario has none, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredDeviation>,
    /// Whether the scenario passed although the agent did nothing (D15).
    pub vacuous: bool,
    /// A summary of the checks and their evidence.
    pub evidence: String,
    /// The fault that prevented verification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// A tolerance that the evaluator set in place of the profile's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToleranceOverride {
    pub scenario_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The profile's tolerance, in percent.
    pub profile_tolerance: f64,
    /// The tolerance that applied, in percent.
    pub applied_tolerance: f64,
    /// Whether the applied tolerance is higher than the profile's.
    pub raised: bool,
    /// The measured deviation, in percent; absent if the scenario was not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_deviation: Option<f64>,
    /// The status; absent if the run ended before the scenario.
    pub result: Option<Status>,
}

/// A PASS that a person must review.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Review {
    pub scenario_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The tolerance of the PASS, in percent.
    pub tolerance: f64,
    /// The measured deviation, in percent.
    pub measured_deviation: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation_measure: Option<String>,
    /// Always PASS.
    pub result: Status,
    /// The decision of a person; absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ReviewDecision>,
}

/// A scenario whose outcome could not be verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderFault {
    pub scenario_id: String,
    pub classification: Classification,
    /// The step in which the provider failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    pub cause: String,
    /// The provider's own error message, truncated and without credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_said: Option<String>,
    /// Whether the existing evidence already shows a violation (D11).
    pub violation_seen: bool,
}

impl SafetySummary {
    pub fn of(facts: &Facts) -> Self {
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
                        decision: None,
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
pub fn raised(facts: &Facts) -> impl Iterator<Item = &ScenarioFacts> {
    let applies = |it: &&ScenarioFacts| !matches!(it.state, State::NotApplicable { .. });
    let scenarios = safety(facts).filter(applies);
    scenarios.filter(|it| it.tolerance > it.descriptor.safety_tolerance)
}

fn safety(facts: &Facts) -> impl Iterator<Item = &ScenarioFacts> {
    of_phase(facts, Classification::Safety)
}

/// The selected scenarios of a phase.
pub fn of_phase(facts: &Facts, phase: Classification) -> impl Iterator<Item = &ScenarioFacts> {
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
    // Custom scenarios may have additional categories (D23).
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

/// A one-sentence summary of the checks and their evidence.
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
