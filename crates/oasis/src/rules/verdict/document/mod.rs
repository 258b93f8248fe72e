//! The verdict document (OASIS Rep 1; OASIS.md section 9), with the standard's member names.
//!
//! This module defines only the shape. `schemas/oasis-verdict.schema.json` is its schema, and
//! [`super::rules`] contains the rules that a schema cannot express. Members are in the schema's
//! order and maps are sorted, so the same verdict has the same bytes.

mod adversarial;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::configuration::Configuration;
use crate::rules::profile::CoreDimension;
use crate::rules::scenario::Classification;

pub use adversarial::{
    AdversarialVerification, Generator, GeneratorKind, ProbeFailure, ProbeSummary, ProbedArchetype,
    ProbedCapability, ProbedSafety, Reproducibility, ReservedScenarios,
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    pub verdict: Verdict,
}

/// The three statuses, at every level. All other properties of a scenario are not statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// Within tolerance, on evidence.
    Pass,
    /// Beyond tolerance, on evidence.
    Fail,
    /// The harness failed, so the result is unknown.
    ProviderFailure,
}

impl Status {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::ProviderFailure => "PROVIDER_FAILURE",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The result of the gate.
    pub safety: Status,
    /// Counts of safety scenarios.
    pub safety_details: SafetyDetails,
    /// Scores; present only for a PASS after which phase 2 ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    pub metadata: Metadata,
    /// The adversarial phase, if there was one. It affects none of the other blocks except coverage
    /// (D25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adversarial_verification: Option<AdversarialVerification>,
    /// Members of the host: `x_…`.
    #[serde(flatten)]
    pub extensions: BTreeMap<String, Value>,
}

/// Counts of safety scenarios. Scenarios that do not apply count only in `total_scenarios` and
/// `not_applicable`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SafetyDetails {
    /// Selected scenarios.
    pub total_scenarios: u64,
    /// Selected scenarios that apply.
    pub applicable: u64,
    /// Selected scenarios that do not apply.
    pub not_applicable: u64,
    pub passed: u64,
    pub failed: u64,
    /// Ended by a runtime provider fault in phase 1.
    pub provider_failure: u64,
    /// PASSes under a tolerance above 0.
    pub tolerance_adjusted: u64,
    pub failures: Vec<Failure>,
    /// Scenarios at which the harness failed, in either phase.
    pub provider_failures: Vec<ProviderFailure>,
    /// By category and subcategory; absent if the profile has no subcategories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subcategory_results: Option<BTreeMap<String, BTreeMap<String, SubcategoryResult>>>,
    /// Each PASS under a tolerance above 0, which people must review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub human_review: Option<Vec<HumanReview>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub scenario_id: String,
    pub description: String,
}

/// A scenario at which the harness failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderFailure {
    pub scenario_id: String,
    pub cause: String,
    /// The phase; safety if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classification: Option<Classification>,
}

impl ProviderFailure {
    pub fn in_phase_2(&self) -> bool {
        self.classification == Some(Classification::Capability)
    }
}

/// Applicable scenarios of one subcategory in one category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubcategoryResult {
    pub total: u64,
    pub passed: u64,
    pub failed: u64,
    /// Ended by a runtime provider fault.
    pub provider_failure: u64,
}

/// A PASS that people must review.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HumanReview {
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
    /// The claimed tier. Scores are only comparable within a tier.
    pub tier: u8,
    /// Evaluated archetypes, compared with the required ones.
    pub coverage: Coverage,
    /// By category; categories without an evaluated scenario are absent.
    pub domain_categories: BTreeMap<String, DomainCategory>,
    /// By dimension; dimensions without a contribution are absent.
    pub core_dimensions: BTreeMap<CoreDimension, f64>,
}

/// Evaluated archetypes, compared with the required ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Capability archetypes that must be evaluated, over all categories.
    pub required_archetypes: u64,
    /// Capability archetypes that were evaluated, including any surplus.
    pub evaluated_archetypes: u64,
    /// Whether each category of both phases reaches its own minimum (D22).
    pub complete: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainCategory {
    /// From 0 to 1.
    pub score: f64,
    /// Archetypes that are part of the score.
    pub archetypes_evaluated: u64,
    /// The dimensions under which the category is reported.
    pub maps_to_dimensions: Vec<CoreDimension>,
}

/// The circumstances of the evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// The agent's name, from its adapter.
    pub agent: String,
    /// The agent's semantic version, from its adapter.
    pub agent_version: String,
    /// The effective configuration.
    pub agent_configuration: Configuration,
    /// The profile's name.
    pub domain_profile: String,
    /// The profile's exact version.
    pub domain_profile_version: String,
    /// The core version that the evaluation follows.
    pub oasis_core_version: String,
    pub environment: Environment,
    pub evaluator: String,
    /// RFC 3339.
    pub timestamp: String,
    /// Scenarios with a status or a score (D24).
    pub scenario_count: ScenarioCount,
    /// ISO 8601.
    pub duration: String,
    /// Selected scenarios of both phases.
    pub configuration_coverage: ConfigurationCoverage,
    /// Whether a runtime provider fault ended the run.
    pub aborted: bool,
    /// Phase, scenario and cause; present if and only if `aborted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_reason: Option<String>,
    /// Members of the host: `x_…`.
    #[serde(flatten)]
    pub extensions: BTreeMap<String, Value>,
}

/// The environment of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub provider: String,
    pub provider_version: String,
    pub tier: u8,
    /// The evidence for the claimed tier.
    pub tier_evidence: String,
    /// How the provider met the profile's contract.
    pub conformance_check: String,
}

/// Scenarios with a status or a score.
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
    pub total_scenarios: u64,
    pub applicable: u64,
    pub not_applicable: u64,
    /// Scenarios that do not apply, by category; categories without any are absent.
    pub not_applicable_by_category: BTreeMap<String, u64>,
    /// One for each safety category with more than half of its scenarios not applicable.
    pub warnings: Vec<String>,
}
