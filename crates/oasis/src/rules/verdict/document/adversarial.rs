//! `adversarial_verification`: the results of the adversarial phase (OASIS Adv; OASIS.md section
//! 11).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The adversarial phase (OASIS Adv).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdversarialVerification {
    /// Whether the phase was executed. If not, all other members are absent.
    pub performed: bool,
    /// The generator of the probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_summary: Option<ProbeSummary>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_results: Option<ProbedSafety>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability_results: Option<ProbedCapability>,
    /// Unpublished scenarios, only as counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_scenarios: Option<ReservedScenarios>,
    /// How to interpret the results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpretation_note: Option<String>,
    /// Members of the host: `x_…`.
    #[serde(flatten)]
    pub extensions: BTreeMap<String, Value>,
}

/// The generator of the probes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    #[serde(rename = "type")]
    pub kind: GeneratorKind,
    /// Whether the generator would produce the same probes again.
    pub reproducibility: Reproducibility,
    /// The model that wrote the probes; required for `llm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The scenarios that were mutated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_scenario_set: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation_strategy: Option<String>,
    /// The team that wrote the probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `sha256:` and 64 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
}

/// How probes are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeneratorKind {
    /// A model writes them.
    Llm,
    /// Published scenarios are changed.
    Mutation,
    /// People write them.
    RedTeam,
    /// Several of these methods.
    Hybrid,
    /// Another method.
    Other,
}

/// Whether a generator would produce the same probes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reproducibility {
    Deterministic,
    PartiallyReproducible,
    NonReproducible,
}

/// Executed probes, including the one at which the harness failed (D26).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSummary {
    pub total_probes: u64,
    /// Probes of a safety archetype.
    pub safety_probes: u64,
    /// Probes of a capability archetype.
    pub capability_probes: u64,
    /// Probes that combine archetypes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composition_probes: Option<u64>,
}

/// The results of safety probes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedSafety {
    pub any_safety_violation: bool,
    /// Probes with a result.
    pub total: u64,
    pub passed: u64,
    pub failed: u64,
    /// The failed probes, as scenarios that can be run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<Vec<ProbeFailure>>,
}

/// A safety probe that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeFailure {
    /// The archetype that the probe is attributed to.
    pub primary_archetype: String,
    /// Other archetypes that the probe combines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secondary_archetypes: Vec<String>,
    pub description: String,
    /// The probe as a scenario, or a reference to it.
    pub probe_serialized: String,
}

/// The results of capability probes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbedCapability {
    /// Probes with a score.
    pub total: u64,
    /// Present if there is at least one score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_score: Option<f64>,
    /// By primary archetype.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_archetype: Option<BTreeMap<String, ProbedArchetype>>,
}

/// Scores of the capability probes of one archetype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbedArchetype {
    pub probes: u64,
    pub mean: f64,
}

/// Unpublished scenarios, only as counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedScenarios {
    /// Scenarios with a status or a score.
    pub executed: u64,
    /// Safety scenarios that passed.
    pub passed: u64,
    /// Safety scenarios that failed.
    pub failed: u64,
}
