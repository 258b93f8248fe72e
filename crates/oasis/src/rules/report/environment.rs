//! The parties and tools of the evaluation (Rep 2.1), and its environment (Rep 2.2).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::facts::{Execution, Facts, Implementation, Requirement, State};
use crate::rules::configuration::Configuration;
use crate::rules::evaluated::Evaluated;

/// The parties and tools of the evaluation (Rep 2.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// The agent, as its adapter reports it.
    pub agent: Named,
    /// The agent's effective configuration, with defaults filled in.
    pub agent_configuration: Configuration,
    /// The evaluating organization or person.
    pub evaluator: String,
    /// RFC 3339.
    pub date: String,
    /// ISO 8601.
    pub duration: String,
    /// Version of the core specification.
    pub oasis_core_version: String,
    pub domain_profile: Named,
    pub domain_profile_identifier: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub domain_profile_description: String,
    /// The software that ran the evaluation.
    pub evaluation_implementation: Implementation,
    /// The run that the report describes.
    pub run_id: String,
    /// The subject of the evaluation and its reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated: Option<Evaluated>,
    pub environment_provider: Named,
    /// The check before the run.
    pub preflight: PreflightSummary,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    pub name: String,
    pub version: String,
}

/// The check before the run (PC 3.8).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PreflightSummary {
    /// The result in one sentence, as in the verdict.
    pub result: String,
    /// Number of checked requirements.
    pub checked: usize,
    /// Number of requirements that the provider satisfies.
    pub satisfied: usize,
    /// Each requirement with the provider's answer.
    pub requirements: Vec<Requirement>,
}

/// The environment of the evaluation (Rep 2.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The claimed complexity tier.
    pub tier: u8,
    /// The standard's name for the tier.
    pub tier_name: String,
    /// The profile's requirements for an environment of the tier.
    pub characteristics: String,
    /// Measurements of the run's environments; absent in older records, and if no baseline was
    /// taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredEnvironment>,
    /// The evidence that the tier is met.
    pub tier_evidence: String,
    /// The lab framework, or a statement that none is declared.
    pub lab_framework: String,
}

/// Measurements of a run's environments: counts of provider responses, by scenario of the profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredEnvironment {
    /// Environments with a baseline.
    pub environments: usize,
    /// Distinct ids among them; fewer than `environments` if scenarios shared an environment.
    pub distinct_environments: usize,
    /// The fewest resources in a baseline.
    pub fewest_resources: usize,
    /// The most resources in a baseline.
    pub most_resources: usize,
    /// Resources of each kind, over all baselines.
    pub resource_kinds: BTreeMap<String, usize>,
    /// Observations taken, by type.
    pub observations: BTreeMap<String, usize>,
    /// Operations of the agent that the host brokered to environments.
    pub operations: usize,
    /// Environments that could not be torn down.
    pub not_torn_down: usize,
}

impl MeasuredEnvironment {
    fn of(facts: &Facts) -> Option<Self> {
        let totals = || facts.baselines.iter().map(|it| it.values().sum::<usize>());
        let (fewest_resources, most_resources) = totals().min().zip(totals().max())?;
        let mut resource_kinds = BTreeMap::new();
        for (kind, count) in facts.baselines.iter().flatten() {
            *resource_kinds.entry(kind.clone()).or_insert(0) += count;
        }
        let executed: Vec<&Execution> = facts
            .scenarios
            .iter()
            .filter_map(|it| match &it.state {
                State::Executed(execution) => Some(execution.as_ref()),
                State::NotApplicable { .. } | State::NotExecuted => None,
            })
            .collect();
        let mut observations = BTreeMap::new();
        for it in executed.iter().flat_map(|it| &it.observations) {
            *observations.entry(it.observation_type.clone()).or_insert(0) += 1;
        }
        let ids: BTreeSet<&str> = executed
            .iter()
            .filter_map(|it| it.preconditions.as_ref()?.environment_id.as_deref())
            .collect();
        let checked = executed.iter().filter_map(|it| it.cross_check.as_ref());
        let left = executed.iter().filter(|it| it.teardown_problem.is_some());
        Some(Self {
            environments: facts.baselines.len(),
            distinct_environments: ids.len(),
            fewest_resources,
            most_resources,
            resource_kinds,
            observations,
            operations: checked.map(|it| it.operations).sum(),
            not_torn_down: left.count(),
        })
    }
}

/// The resources of a baseline snapshot by kind.
pub fn resources_by_kind(snapshot: &Value) -> BTreeMap<String, usize> {
    let resources = snapshot.get("resources").and_then(Value::as_array);
    let kinds = resources
        .into_iter()
        .flatten()
        .filter_map(|it| it.get("kind")?.as_str());
    let mut found = BTreeMap::new();
    for kind in kinds {
        *found.entry(kind.to_owned()).or_insert(0) += 1;
    }
    found
}

impl Metadata {
    pub(super) fn of(facts: &Facts) -> Self {
        let metadata = &facts.verdict.metadata;
        let requirements = facts.preflight.requirements.clone();
        Self {
            agent: Named::of(&metadata.agent, &metadata.agent_version),
            agent_configuration: metadata.agent_configuration.clone(),
            evaluator: metadata.evaluator.clone(),
            date: metadata.timestamp.clone(),
            duration: metadata.duration.clone(),
            oasis_core_version: metadata.oasis_core_version.clone(),
            domain_profile: Named::of(&metadata.domain_profile, &metadata.domain_profile_version),
            domain_profile_identifier: facts.profile.rules.identifier.clone(),
            domain_profile_description: facts.profile.description.clone(),
            evaluation_implementation: facts.run.implementation.clone(),
            run_id: facts.run.run_id.clone(),
            evaluated: facts.run.evaluated.clone(),
            environment_provider: Named::of(
                &metadata.environment.provider,
                &metadata.environment.provider_version,
            ),
            preflight: PreflightSummary {
                result: metadata.environment.conformance_check.clone(),
                checked: requirements.len(),
                satisfied: requirements.iter().filter(|it| it.satisfied).count(),
                requirements,
            },
        }
    }
}

impl Named {
    fn of(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
        }
    }
}

impl Environment {
    pub(super) fn of(facts: &Facts) -> Self {
        let environment = &facts.verdict.metadata.environment;
        let demanded = facts.profile.tier_environment.as_str();
        Self {
            tier: environment.tier,
            tier_name: tier_name(environment.tier).to_owned(),
            characteristics: if demanded.is_empty() {
                "The profile does not describe an environment for this tier.".to_owned()
            } else {
                demanded.to_owned()
            },
            measured: MeasuredEnvironment::of(facts),
            tier_evidence: environment.tier_evidence.clone(),
            lab_framework: match &facts.lab_framework {
                Some(framework) => framework.clone(),
                None => "None is declared.".to_owned(),
            },
        }
    }
}

/// The standard's name for a tier.
pub const fn tier_name(tier: u8) -> &'static str {
    match tier {
        1 => "minimal",
        2 => "integrated",
        3 => "production-realistic",
        _ => "unknown",
    }
}
