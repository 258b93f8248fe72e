//! The input of a report: the verdict, the recorded facts of the run, and the descriptive parts of
//! the profile.
//!
//! The log, the stored evidence and the pack have been read by the time these facts exist; the
//! report reads nothing else. Literals of `value_containment` are never included: they were removed
//! when their scenario ended (OASIS section 14).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::rules::applicability::FailingCondition;
use crate::rules::evaluated::Evaluated;
use crate::rules::evidence::MeasuredDeviation;
use crate::rules::profile::Profile;
use crate::rules::scenario::Descriptor;
use crate::rules::verdict::document::{Status, Verdict};

/// The complete input of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub verdict: Verdict,
    /// Why the evaluation is incomplete, by the names of D27; empty if it is complete.
    #[serde(default)]
    pub incomplete: Vec<String>,
    pub run: Run,
    /// The profile, with its descriptive parts.
    pub profile: ProfileFacts,
    /// The provider's answers before the run.
    pub preflight: Preflight,
    /// The lab framework that the evaluator declares, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab_framework: Option<String>,
    /// Resources by kind in the baseline of each environment, where the baseline was stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<BTreeMap<String, usize>>,
    /// Every selected scenario in suite order, without the reserved ones.
    pub scenarios: Vec<ScenarioFacts>,
    /// Facts about adversarial verification beyond the verdict's block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adversarial: Option<AdversarialFacts>,
}

/// The run and the software that executed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub run_id: String,
    /// The evaluator's implementation.
    pub implementation: Implementation,
    /// Whether phase 2 was requested.
    pub capability_requested: bool,
    /// The subject of the evaluation and its reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated: Option<Evaluated>,
}

/// A software product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Implementation {
    pub name: String,
    pub version: String,
}

/// A profile with its descriptive parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileFacts {
    /// The parts that verdicts depend on.
    pub rules: Profile,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The core category of each safety category; categories specific to the profile are absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub core_mapping: BTreeMap<String, String>,
    /// The profile's description of the environment that the claimed tier requires.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tier_environment: String,
}

/// The provider's answers before the run (PC 3.8).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Preflight {
    /// The requirements of the profile, each with the answer.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
}

/// One requirement of the provider contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    pub key: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub expected: serde_json::Value,
    /// The provider's declaration; `null` if absent.
    #[serde(default)]
    pub answer: serde_json::Value,
    /// Whether the answer meets the expectation.
    pub satisfied: bool,
    /// The reason given by the provider or the check, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A selected scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioFacts {
    pub descriptor: Descriptor,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The purpose of the scenario.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub intent: String,
    /// The tolerance that applied, including overrides, in percent.
    pub tolerance: f64,
    pub state: State,
}

/// The result of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum State {
    /// The scenario was excluded, which is not a status.
    NotApplicable {
        /// The conditions that did not hold, at least one.
        failing: Vec<FailingCondition>,
    },
    /// The run ended before the scenario.
    NotExecuted,
    Executed(Box<Execution>),
}

/// The execution of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// The status of a safety scenario, or of a scenario that a provider fault ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The deviation of a judged safety scenario, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// The score of a judged capability scenario, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The label of the rubric band.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<String>,
    /// Whether the scenario passed although the agent did nothing (D15).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vacuous: bool,
    /// The runtime provider fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// The environment before the first stimulus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// The stimuli for the agent, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stimuli: Vec<Stimulus>,
    /// The agent's actions and output.
    #[serde(default)]
    pub agent: Trace,
    /// The judged observations, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observations: Vec<Observation>,
    /// The host's data that the observations were compared with; absent in older records, and if
    /// some observations were not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross_check: Option<CrossCheck>,
    /// The checks on the observations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// The soft deviation measure; absent if the scenario has none, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredDeviation>,
    /// The problem during teardown, if any; it does not change the result (D8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown_problem: Option<String>,
}

/// A runtime provider fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The step that failed: `provision`, `inject-state`, `observe`…
    pub stage: String,
    pub cause: String,
    /// The provider's own error message, truncated and without credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_said: Option<String>,
    /// Whether the existing evidence already shows a violation (D11).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub violation_seen: bool,
}

/// The environment before the first stimulus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preconditions {
    /// The requested kind of environment.
    pub environment_type: String,
    /// The provider's id for the environment, if it was provisioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<String>,
    /// Number of resources that the scenario provisions.
    #[serde(default)]
    pub resources: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_mode: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_tools: Vec<String>,
    /// `sha256:…` of the baseline snapshot, if one was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_digest: Option<String>,
    /// The time of the snapshot, by the provider's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_at: Option<String>,
}

/// An input to the agent or a change of its environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stimulus {
    /// `operator_prompt`, `environmental_state`…
    pub kind: String,
    /// The subject of the stimulus, if it is not the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The prompt, or a description of the change.
    pub text: String,
}

/// The agent's actions and output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The reasoning that the agent exposes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The calls that the agent actually made, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// The answer, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_answer: Option<String>,
    /// Why there is no answer: a crash, a timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A call of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub tool: String,
    pub parameters: serde_json::Value,
    /// The result, shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub result: String,
}

/// An observation of the provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// `audit_log`, `resource_state`, `state_diff`…
    pub observation_type: String,
    /// By the provider's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The source; absent if the response did not state it, which is a fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_source: Option<EvidenceSource>,
    /// `sha256:…` of the data as stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EvidenceSource {
    /// The kind of reader, in the provider's words.
    #[serde(rename = "type")]
    pub kind: String,
    /// `available`, or a fault.
    pub status: String,
}

impl EvidenceSource {
    /// The evaluating host itself, which captures the agent's output.
    pub fn captured() -> Self {
        Self {
            kind: "evaluator_capture".to_owned(),
            status: "available".to_owned(),
        }
    }
}

/// The host's data that observations were compared with before they were judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossCheck {
    /// Operations of the agent that the host brokered to the environment itself.
    pub operations: usize,
    /// The start of the scenario, by the host's clock.
    pub from: String,
    /// The time of the last observation.
    pub to: String,
    /// Maximum difference between the provider's and the host's clock, in seconds.
    pub clock_tolerance_s: f64,
}

/// A checked rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The part of the scenario that contains the rule: `must_not`, `api_audit`…
    pub kind: String,
    /// The rule, as the scenario states it.
    pub rule: String,
    pub held: bool,
    /// The observation that decided the check; absent if captured output decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation_type: Option<String>,
    /// The source of the observation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_source: Option<EvidenceSource>,
}

/// Facts about adversarial verification beyond the verdict's block (section 11).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdversarialFacts {
    /// The probes that may be disclosed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probe>,
    /// The provider fault that ended this phase (D26).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Archetypes that reserved scenarios cover, by category (D25). Nothing else about those
    /// scenarios is disclosed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reserved_coverage: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    pub id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The archetype that the probe is attributed to.
    pub primary_archetype: String,
    /// Other archetypes that the probe combines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secondary_archetypes: Vec<String>,
    /// The status of a safety probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The score of a capability probe, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}
