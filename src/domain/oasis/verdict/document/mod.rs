//! The verdict document (OASIS Rep 1; OASIS.md section 9): what an evaluation comes to, under the names the standard gives.
//!
//! Only the shape is here. What a schema says about it is `schemas/oasis-verdict.schema.json`, what no schema can say is
//! [`super::rules`]. Members stand in the schema's order; maps are sorted, so the same verdict has the same bytes.

mod adversarial;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::oasis::configuration::Configuration;
use crate::domain::oasis::profile::CoreDimension;
use crate::domain::oasis::scenario::Classification;

pub use adversarial::{
    AdversarialVerification, Generator, GeneratorKind, ProbeFailure, ProbeSummary, ProbedArchetype,
    ProbedCapability, ProbedSafety, Reproducibility, ReservedScenarios,
};

/// The document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Its only member.
    pub verdict: Verdict,
}

/// The three statuses, at every level. Whatever else can be said of a scenario is not a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// Within tolerance, on evidence.
    Pass,
    /// Beyond tolerance, on evidence.
    Fail,
    /// The harness broke: nothing is known.
    ProviderFailure,
}

impl Status {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::ProviderFailure => "PROVIDER_FAILURE",
        }
    }
}

/// A verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The gate.
    pub safety: Status,
    /// Counts of safety scenarios.
    pub safety_details: SafetyDetails,
    /// Scores; only behind a PASS of which phase 2 was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    /// Who, what, where, when.
    pub metadata: Metadata,
    /// The adversarial phase, if there was one. It changes nothing above but coverage (D25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adversarial_verification: Option<AdversarialVerification>,
    /// Members of the host: `x_…`.
    #[serde(flatten)]
    pub extensions: BTreeMap<String, Value>,
}

/// Counts of safety scenarios. Those that do not apply are in the total and in `not_applicable`, and nowhere else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SafetyDetails {
    /// Selected.
    pub total_scenarios: u64,
    /// Of these, applicable.
    pub applicable: u64,
    /// Of these, not applicable.
    pub not_applicable: u64,
    /// Executed to a PASS.
    pub passed: u64,
    /// Executed to a FAIL.
    pub failed: u64,
    /// Ended by a runtime provider fault in phase 1.
    pub provider_failure: u64,
    /// PASSed under a tolerance above 0.
    pub tolerance_adjusted: u64,
    /// What failed.
    pub failures: Vec<Failure>,
    /// Where the harness broke, in either phase.
    pub provider_failures: Vec<ProviderFailure>,
    /// By category and subcategory; absent if the profile has no subcategories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subcategory_results: Option<BTreeMap<String, BTreeMap<String, SubcategoryResult>>>,
    /// What people must look at: each PASS under a tolerance above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub human_review: Option<Vec<HumanReview>>,
}

/// A scenario that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The scenario.
    pub scenario_id: String,
    /// What happens in it.
    pub description: String,
}

/// A scenario at which the harness broke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderFailure {
    /// The scenario.
    pub scenario_id: String,
    /// What broke.
    pub cause: String,
    /// Its phase; safety if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classification: Option<Classification>,
}

impl ProviderFailure {
    /// Whether it happened in phase 2.
    pub fn in_phase_2(&self) -> bool {
        self.classification == Some(Classification::Capability)
    }
}

/// Applicable scenarios of one subcategory in one category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubcategoryResult {
    /// All of them.
    pub total: u64,
    /// Executed to a PASS.
    pub passed: u64,
    /// Executed to a FAIL.
    pub failed: u64,
    /// Ended by a runtime provider fault.
    pub provider_failure: u64,
}

/// A PASS that people must look at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HumanReview {
    /// The scenario.
    pub scenario_id: String,
    /// In percent, above 0.
    pub tolerance: f64,
    /// In percent, at most the tolerance.
    pub measured_deviation: f64,
    /// Always PASS.
    pub result: Status,
}

/// Scores, each from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capability {
    /// The claimed tier; scores compare only within one.
    pub tier: u8,
    /// What was looked at, against what must be.
    pub coverage: Coverage,
    /// By category; one of which nothing was evaluated is absent.
    pub domain_categories: BTreeMap<String, DomainCategory>,
    /// By dimension; one to which nothing contributes is absent.
    pub core_dimensions: BTreeMap<CoreDimension, f64>,
}

/// Archetypes looked at, against those that must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Capability archetypes that must be evaluated, over all categories.
    pub required_archetypes: u64,
    /// Capability archetypes that were, surplus included.
    pub evaluated_archetypes: u64,
    /// Whether each category of both phases reaches its own minimum (D22).
    pub complete: bool,
}

/// The score of a capability category.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainCategory {
    /// From 0 to 1.
    pub score: f64,
    /// Its archetypes that entered the score.
    pub archetypes_evaluated: u64,
    /// The dimensions it is reported under.
    pub maps_to_dimensions: Vec<CoreDimension>,
}

/// Who, what, where, when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// The agent's name, from its adapter.
    pub agent: String,
    /// Its semantic version, from its adapter.
    pub agent_version: String,
    /// The effective configuration.
    pub agent_configuration: Configuration,
    /// The profile's name.
    pub domain_profile: String,
    /// Its exact version.
    pub domain_profile_version: String,
    /// The core version the evaluation follows.
    pub oasis_core_version: String,
    /// Where it ran.
    pub environment: Environment,
    /// Who evaluated.
    pub evaluator: String,
    /// RFC 3339.
    pub timestamp: String,
    /// Scenarios executed to a status or a score (D24).
    pub scenario_count: ScenarioCount,
    /// ISO 8601.
    pub duration: String,
    /// Selected scenarios of both phases.
    pub configuration_coverage: ConfigurationCoverage,
    /// Whether a runtime provider fault ended the run.
    pub aborted: bool,
    /// Phase, scenario and cause; present if and only if aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_reason: Option<String>,
    /// Members of the host: `x_…`.
    #[serde(flatten)]
    pub extensions: BTreeMap<String, Value>,
}

/// Where an evaluation ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The provider's name.
    pub provider: String,
    /// Its version.
    pub provider_version: String,
    /// The claimed tier.
    pub tier: u8,
    /// Why the claim may be believed.
    pub tier_evidence: String,
    /// How the provider met the profile's contract.
    pub conformance_check: String,
}

/// Scenarios executed to a status or a score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioCount {
    /// With a status.
    pub safety: u64,
    /// With a score.
    pub capability: u64,
}

/// Selected scenarios of both phases, by whether they apply to the agent's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationCoverage {
    /// All of them.
    pub total_scenarios: u64,
    /// That apply.
    pub applicable: u64,
    /// That do not.
    pub not_applicable: u64,
    /// Those that do not, by category; no category with none.
    pub not_applicable_by_category: BTreeMap<String, u64>,
    /// One for each safety category most of which does not apply.
    pub warnings: Vec<String>,
}
