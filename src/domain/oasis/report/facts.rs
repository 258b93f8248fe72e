//! What a report is made from: the verdict, what was recorded of the run, and what the profile says beside its rules.
//!
//! Whoever fills this in has read the log, the stored evidence and the pack; nothing here is looked up again. Literals of
//! `value_containment` are never part of it: they were dropped when their scenario ended (OASIS section 14).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::domain::oasis::applicability::FailingCondition;
use crate::domain::oasis::evaluated::Evaluated;
use crate::domain::oasis::evidence::MeasuredDeviation;
use crate::domain::oasis::profile::Profile;
use crate::domain::oasis::scenario::Descriptor;
use crate::domain::oasis::verdict::document::{Status, Verdict};

/// Everything a report is made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The verdict.
    pub verdict: Verdict,
    /// Why the evaluation is incomplete, by the names of D27; empty if it is not.
    #[serde(default)]
    pub incomplete: Vec<String>,
    /// The run it comes from.
    pub run: Run,
    /// The profile, with what it says to people.
    pub profile: ProfileFacts,
    /// What the provider answered before the run.
    pub preflight: Preflight,
    /// The lab framework the evaluator declares, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab_framework: Option<String>,
    /// Resources by kind in the baseline of each environment, where it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<BTreeMap<String, usize>>,
    /// Every selected scenario, in the order of the suite. Reserved ones are not among them.
    pub scenarios: Vec<ScenarioFacts>,
    /// What is known of adversarial verification beside the verdict's block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adversarial: Option<AdversarialFacts>,
}

/// The run and the software that made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub run_id: String,
    /// The evaluator's implementation.
    pub implementation: Implementation,
    /// Whether phase 2 was asked for.
    pub capability_requested: bool,
    /// What answered, and by what it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated: Option<Evaluated>,
}

/// A piece of software.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Implementation {
    /// What it is called.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A profile, with what it says to people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileFacts {
    /// Its rules.
    pub rules: Profile,
    /// What it is about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The core category of each safety category; absent for those of the profile's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub core_mapping: BTreeMap<String, String>,
    /// What the claimed tier demands of an environment, in the profile's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tier_environment: String,
}

/// What the provider answered before the run (PC 3.8).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Preflight {
    /// The requirements of the profile, each with the answer.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
}

/// One requirement of the provider contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    /// Its key.
    pub key: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What is expected.
    pub expected: serde_json::Value,
    /// What the provider declared; `null` if nothing.
    #[serde(default)]
    pub answer: serde_json::Value,
    /// Whether that is enough.
    pub satisfied: bool,
    /// The provider's or the check's reason, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A selected scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioFacts {
    /// Its head.
    pub descriptor: Descriptor,
    /// What it is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What it shows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub intent: String,
    /// The tolerance that applied, overrides included, in percent.
    pub tolerance: f64,
    /// What became of it.
    pub state: State,
}

/// What became of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum State {
    /// It was excluded: an exclusion, never a status.
    NotApplicable {
        /// The conditions that did not hold, at least one.
        failing: Vec<FailingCondition>,
    },
    /// The run ended before it.
    NotExecuted,
    /// It was executed.
    Executed(Box<Execution>),
}

/// The execution of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Of a safety scenario, and of one that a provider fault ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The deviation of a safety scenario that was judged, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// The score of a capability scenario that was judged, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The label of the rubric's band.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<String>,
    /// It passed without the agent having done anything (D15).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vacuous: bool,
    /// The runtime provider fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// What is known of the environment before the first stimulus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// What was put to the agent, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stimuli: Vec<Stimulus>,
    /// What the agent did and said.
    #[serde(default)]
    pub agent: Trace,
    /// The observations judged, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observations: Vec<Observation>,
    /// What the observations were held against; absent in older records, and if not all of them were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross_check: Option<CrossCheck>,
    /// What was verified with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// What the soft measure of its deviation gave; absent without one, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredDeviation>,
    /// What went wrong when the environment was torn down; it changes no result (D8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown_problem: Option<String>,
}

/// A runtime provider fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The step it happened in: `provision`, `inject-state`, `observe`…
    pub stage: String,
    /// What broke.
    pub cause: String,
    /// What the provider said of it, in its own words; bounded, without credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_said: Option<String>,
    /// Evidence that was there already shows a violation (D11).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub violation_seen: bool,
}

/// What is known of the environment before the first stimulus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preconditions {
    /// What kind of environment was asked for.
    pub environment_type: String,
    /// The provider's name for it, if it was provisioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<String>,
    /// Resources the scenario puts there.
    #[serde(default)]
    pub resources: usize,
    /// The agent's mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_mode: Option<String>,
    /// The agent's tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_tools: Vec<String>,
    /// `sha256:…` of the baseline snapshot, if one was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_digest: Option<String>,
    /// When it was taken, by the provider's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_at: Option<String>,
}

/// Something put to the agent or into its environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stimulus {
    /// `operator_prompt`, `environmental_state`…
    pub kind: String,
    /// What it concerns, if it is not the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The prompt, or what was changed.
    pub text: String,
}

/// What the agent did and said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Its reasoning, as far as it shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The calls it really made, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Its answer; absent if it gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_answer: Option<String>,
    /// Why there is none: a crash, a timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A call of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// Its parameters.
    pub parameters: serde_json::Value,
    /// What came back, in short.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub result: String,
}

/// An observation of the provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// `audit_log`, `resource_state`, `state_diff`…
    pub observation_type: String,
    /// When, by the provider's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// Where it comes from; absent if the answer did not say, which is a fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_source: Option<EvidenceSource>,
    /// `sha256:…` of its data, as it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// Where an observation comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EvidenceSource {
    /// The reader, in the provider's words.
    #[serde(rename = "type")]
    pub kind: String,
    /// `available`, or a fault.
    pub status: String,
}

impl EvidenceSource {
    /// The evaluating host itself, which captures what agents say and send.
    pub fn captured() -> Self {
        Self {
            kind: "evaluator_capture".to_owned(),
            status: "available".to_owned(),
        }
    }
}

/// What the host held observations against before it judged on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossCheck {
    /// Operations of the agent that the host carried to the environment itself.
    pub operations: usize,
    /// When the scenario began, by the host's clock.
    pub from: String,
    /// When its last observation was taken.
    pub to: String,
    /// How far the provider's clock may be off, in seconds.
    pub clock_tolerance_s: f64,
}

/// A rule that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Which part of the scenario it stands in: `must_not`, `api_audit`…
    pub kind: String,
    /// The rule, as the scenario writes it.
    pub rule: String,
    /// Whether it holds.
    pub held: bool,
    /// What it was checked with; absent for what only captured output decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation_type: Option<String>,
    /// Where that comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_source: Option<EvidenceSource>,
}

/// What is known of adversarial verification beside the verdict's block (section 11).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdversarialFacts {
    /// The probes, as far as they may be shown, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probe>,
    /// The provider fault that ended this phase (D26).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Archetypes that reserved scenarios cover, by category (D25): of those scenarios, no more than this is disclosed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reserved_coverage: BTreeMap<String, BTreeSet<String>>,
}

/// One probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Its id.
    pub id: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The archetype it is attributed to.
    pub primary_archetype: String,
    /// Others it touches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secondary_archetypes: Vec<String>,
    /// Of a safety probe: how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Of a capability probe: its score, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}
