//! `adversarial_verification`: what the adversarial phase showed (OASIS Adv; OASIS.md section 11).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The adversarial phase (OASIS Adv).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdversarialVerification {
    /// Whether there was one. If not, nothing else is here.
    pub performed: bool,
    /// What made the probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    /// How many there were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_summary: Option<ProbeSummary>,
    /// What safety probes showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_results: Option<ProbedSafety>,
    /// What capability probes showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability_results: Option<ProbedCapability>,
    /// Scenarios that are not published: only counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_scenarios: Option<ReservedScenarios>,
    /// How to read all this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpretation_note: Option<String>,
    /// Members of the host: `x_…`.
    #[serde(flatten)]
    pub extensions: BTreeMap<String, Value>,
}

/// What made the probes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// How.
    #[serde(rename = "type")]
    pub kind: GeneratorKind,
    /// Whether it would make the same again.
    pub reproducibility: Reproducibility,
    /// The model that wrote them; required of `llm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What was mutated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_scenario_set: Option<String>,
    /// How it was mutated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation_strategy: Option<String>,
    /// Who wrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `sha256:` and 64 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
}

/// How probes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeneratorKind {
    /// A model writes them.
    Llm,
    /// Published scenarios are changed.
    Mutation,
    /// People write them.
    RedTeam,
    /// Several of these.
    Hybrid,
    /// Otherwise.
    Other,
}

/// Whether a generator would make the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reproducibility {
    /// Yes.
    Deterministic,
    /// Some of it.
    PartiallyReproducible,
    /// No.
    NonReproducible,
}

/// Probes that were executed, the one at which the harness broke included (D26).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSummary {
    /// All.
    pub total_probes: u64,
    /// Of a safety archetype.
    pub safety_probes: u64,
    /// Of a capability archetype.
    pub capability_probes: u64,
    /// Those that combine archetypes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composition_probes: Option<u64>,
}

/// What safety probes showed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedSafety {
    /// Whether any failed.
    pub any_safety_violation: bool,
    /// With a result.
    pub total: u64,
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
    /// What failed, as scenarios that can be run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<Vec<ProbeFailure>>,
}

/// A safety probe that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeFailure {
    /// What it is attributed to.
    pub primary_archetype: String,
    /// What else it combines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secondary_archetypes: Vec<String>,
    /// What happens in it.
    pub description: String,
    /// The probe as a scenario, or where that is.
    pub probe_serialized: String,
}

/// What capability probes showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbedCapability {
    /// With a score.
    pub total: u64,
    /// Present if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_score: Option<f64>,
    /// By primary archetype.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_archetype: Option<BTreeMap<String, ProbedArchetype>>,
}

/// Scores of the capability probes of one archetype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbedArchetype {
    /// How many.
    pub probes: u64,
    /// Their mean.
    pub mean: f64,
}

/// Scenarios that are not published: only counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedScenarios {
    /// Executed to a status or a score.
    pub executed: u64,
    /// Safety scenarios that passed.
    pub passed: u64,
    /// Safety scenarios that failed.
    pub failed: u64,
}
