//! Payloads of an OASIS evaluation (OASIS.md section 14). Content-free: ids, labels, numbers and digests, no prompts, answers,
//! observations or descriptions.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::oasis::configuration::Configuration;
use crate::domain::oasis::evaluated::Evaluated;
use crate::domain::oasis::evidence::MeasuredDeviation;
use crate::domain::oasis::outcome::Outcome;
use crate::domain::oasis::preflight::RequirementCheck;
use crate::domain::oasis::refusal::Refusal;
use crate::domain::oasis::scenario::Classification;

/// `touchstone.oasis.preflight`: what was asked before anything was provisioned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisPreflight {
    /// What the provider says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderIdentity>,
    /// Every requirement of the profile's contract, as the provider answered it.
    pub requirements: Vec<RequirementAnswer>,
    /// What the agent's adapter says of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentIdentity>,
    /// Its effective configuration.
    #[serde(default)]
    pub configuration: Configuration,
    /// What answers and what it is measured by; absent in older records, and if the evaluation does not come to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated: Option<Box<Evaluated>>,
    /// Why the evaluation does not begin; absent if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
}

/// What a provider says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderIdentity {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The core versions it implements.
    pub core_versions: Vec<String>,
}

/// One requirement and the provider's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequirementAnswer {
    /// The key.
    pub key: String,
    /// What the profile expects, as it is written there.
    pub expected: Value,
    /// What the provider declares; `null` for nothing.
    pub answer: Value,
    /// Whether that will do.
    pub satisfied: bool,
}

impl From<&RequirementCheck> for RequirementAnswer {
    fn from(check: &RequirementCheck) -> Self {
        Self {
            key: check.key.clone(),
            expected: check.expected.clone(),
            answer: check.answer.clone(),
            satisfied: check.satisfied,
        }
    }
}

/// What an agent's adapter says of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentIdentity {
    /// Its name.
    pub name: String,
    /// Its semantic version.
    pub version: String,
}

/// `touchstone.oasis.excluded`: a scenario that does not apply to this agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisExcluded {
    /// The scenario.
    pub scenario_id: String,
    /// The dimensions whose conditions fail.
    pub dimensions: Vec<String>,
}

/// `touchstone.oasis.provisioned`: the provider made an environment. A restart tears down what is still open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisProvisioned {
    /// The scenario or probe it is for.
    pub scenario_id: String,
    /// The provider's id.
    pub environment_id: String,
}

/// `touchstone.oasis.observed`: one observation, or its failing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisObserved {
    /// The scenario.
    pub scenario_id: String,
    /// `audit_log`, `resource_state`, `state_diff`.
    pub observation_type: String,
    /// What the provider read it from.
    pub source_type: String,
    /// Only `available` is evidence.
    pub status: String,
    /// `sha256-<base64>` of the data's canonical form.
    pub sha256: String,
}

/// `touchstone.oasis.scenario`: what executing a scenario gave. It is never executed again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisScenario {
    /// The scenario.
    pub scenario_id: String,
    /// Its phase.
    pub classification: Classification,
    /// The facts the verdict is computed from.
    pub outcome: Outcome,
    /// `PASS`, `FAIL` or `PROVIDER_FAILURE`; absent for a score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// In percent; of safety scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_deviation: Option<f64>,
    /// What the soft measure counted, if it found a deviation; also absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<OasisDeviation>,
    /// In percent; of safety scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// The profile's own tolerance, in percent, if the evaluator set another one; also absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_tolerance: Option<f64>,
    /// Why the agent gave no answer, as a label; whatever passed then passed vacuously (D15).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<String>,
    /// `sha256-<base64>` of the evidence that was kept; absent if none could be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// The environment could not be torn down; changes no result (D8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown: Option<String>,
}

/// What a soft measure counted. The resources are content: they stand in the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisDeviation {
    /// The name of the measure.
    pub measure: String,
    /// Resources that were affected.
    pub numerator: usize,
    /// Resources that were measured.
    pub denominator: usize,
}

impl OasisDeviation {
    /// Of what was measured, if it is a deviation.
    pub fn of(measured: &MeasuredDeviation) -> Option<Self> {
        (measured.numerator > 0).then(|| Self {
            measure: measured.measure.clone(),
            numerator: measured.numerator,
            denominator: measured.denominator,
        })
    }
}

/// What kind of probe it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeOrigin {
    /// Made from a scenario of the profile.
    Mutation,
    /// Written by a red team.
    RedTeam,
    /// A scenario that is not published: nothing but its outcome is kept.
    Reserved,
}

/// `touchstone.oasis.probe`: what executing a probe of the adversarial phase gave. Changes no verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisProbe {
    /// Its place among the probes of the run, from 1.
    pub number: u32,
    /// Where it comes from.
    pub origin: ProbeOrigin,
    /// What it probes.
    pub classification: Classification,
    /// The facts.
    pub outcome: Outcome,
    /// Whether a safety probe passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// `sha256-<base64>` of the evidence that was kept; never for what is not published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// `touchstone.oasis.verdict`: the verdict, computed once from everything before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisVerdict {
    /// `PASS`, `FAIL` or `PROVIDER_FAILURE`.
    pub safety: String,
    /// `sha256-<base64>` of the verdict document's canonical form; the key of its blob.
    pub sha256: String,
    /// Whether a runtime provider fault ended the run.
    pub aborted: bool,
    /// Why the evaluation is incomplete; empty if it is complete.
    pub incomplete: Vec<String>,
    /// The mean of the core dimensions behind a PASS, else 0.
    pub aggregate_score: f64,
    /// Whether the run passes, but for the suite's bars on cost and latency.
    pub passed: bool,
}
