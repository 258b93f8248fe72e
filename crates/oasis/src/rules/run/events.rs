//! Payloads of an OASIS evaluation (OASIS.md section 14). They contain ids, labels, numbers and
//! digests, but no prompts, answers, observations or descriptions.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::configuration::Configuration;
use crate::rules::evaluated::Evaluated;
use crate::rules::evidence::MeasuredDeviation;
use crate::rules::outcome::Outcome;
use crate::rules::preflight::RequirementCheck;
use crate::rules::probes::ProbeOrigin;
use crate::rules::refusal::Refusal;
use crate::rules::scenario::Classification;
use touchstone_openwop::events::{Event, ExtensionEvent};

macro_rules! events {
    ($( $(#[$doc:meta])* $variant:ident($payload:ty) = $wire:literal; )*) => {
        /// An event of an OASIS evaluation.
        #[derive(Clone, Debug, PartialEq)]
        pub enum OasisEvent { $( $(#[$doc])* $variant($payload), )* }

        impl OasisEvent {
            /// The type of the event with the verdict.
            pub const VERDICT: &'static str = "touchstone.oasis.verdict";

            /// Every type of event.
            pub const TYPES: &'static [&'static str] = &[$($wire,)*];

            /// Reads an event; `None` for a type that is not listed here.
            ///
            /// # Errors
            /// The payload does not have the shape of its type.
            pub fn read(event: &ExtensionEvent) -> serde_json::Result<Option<Self>> {
                Ok(match event.kind() {
                    $($wire => Some(Self::$variant(event.parse()?)),)*
                    _ => None,
                })
            }

            fn written(&self) -> serde_json::Result<ExtensionEvent> {
                match self { $(Self::$variant(payload) => ExtensionEvent::new($wire, payload),)* }
            }
        }
    };
}

events! {
    /// The checks before anything was provisioned.
    Preflight(OasisPreflight) = "touchstone.oasis.preflight";
    /// A scenario does not apply to the agent.
    Excluded(OasisExcluded) = "touchstone.oasis.excluded";
    /// The provider created an environment.
    Provisioned(OasisProvisioned) = "touchstone.oasis.provisioned";
    /// An observation was requested from the provider.
    Observed(OasisObserved) = "touchstone.oasis.observed";
    /// A scenario was executed.
    Scenario(OasisScenario) = "touchstone.oasis.scenario";
    /// A probe of the adversarial phase was executed.
    Probe(OasisProbe) = "touchstone.oasis.probe";
    Verdict(OasisVerdict) = "touchstone.oasis.verdict";
}

impl From<OasisEvent> for Event {
    #[expect(
        clippy::expect_used,
        reason = "payloads contain only maps whose keys are strings"
    )]
    fn from(event: OasisEvent) -> Self {
        Self::Extension(event.written().expect("a payload is JSON"))
    }
}

/// `touchstone.oasis.preflight`: the checks before anything was provisioned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisPreflight {
    /// The provider's identity, as it reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderIdentity>,
    /// Every requirement of the profile's contract with the provider's answer.
    pub requirements: Vec<RequirementAnswer>,
    /// The agent's identity, as its adapter reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentIdentity>,
    /// The agent's effective configuration.
    #[serde(default)]
    pub configuration: Configuration,
    /// The subject of the evaluation and its reference; absent in older records, and if preflight
    /// fails before this is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated: Option<Box<Evaluated>>,
    /// Why the evaluation does not start; absent if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
}

/// A provider's identity, as it reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderIdentity {
    pub name: String,
    pub version: String,
    /// The core versions that the provider implements.
    pub core_versions: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequirementAnswer {
    pub key: String,
    /// The profile's expectation, as written in the profile.
    pub expected: Value,
    /// The provider's declaration; `null` if absent.
    pub answer: Value,
    /// Whether the answer meets the expectation.
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

/// An agent's identity, as its adapter reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentIdentity {
    pub name: String,
    /// The semantic version.
    pub version: String,
}

/// `touchstone.oasis.excluded`: a scenario that does not apply to this agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisExcluded {
    pub scenario_id: String,
    /// The dimensions whose conditions fail.
    pub dimensions: Vec<String>,
}

/// `touchstone.oasis.provisioned`: the provider created an environment. A restart tears down
/// environments that are still open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisProvisioned {
    /// The scenario or probe that the environment is for.
    pub scenario_id: String,
    /// The provider's id for the environment.
    pub environment_id: String,
}

/// `touchstone.oasis.observed`: an observation or its failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisObserved {
    pub scenario_id: String,
    /// `audit_log`, `resource_state`, `state_diff`.
    pub observation_type: String,
    /// The source that the provider read.
    pub source_type: String,
    /// Only `available` is evidence.
    pub status: String,
    /// `sha256-<base64>` of the data's canonical form.
    pub sha256: String,
}

/// `touchstone.oasis.scenario`: the result of a scenario. The scenario is never executed again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisScenario {
    pub scenario_id: String,
    pub classification: Classification,
    /// The facts from which the verdict is computed.
    pub outcome: Outcome,
    /// `PASS`, `FAIL` or `PROVIDER_FAILURE`; absent for a score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// In percent; only for safety scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_deviation: Option<f64>,
    /// The counts behind the soft measure, if it found a deviation; also absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<OasisDeviation>,
    /// In percent; only for safety scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// The profile's own tolerance, in percent, if the evaluator changed it; also absent in older
    /// records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_tolerance: Option<f64>,
    /// Why the agent gave no answer, as a label. A pass is vacuous in this case (D15).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<String>,
    /// `sha256-<base64>` of the stored evidence; absent if none could be stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// Why the environment could not be torn down; does not change the result (D8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown: Option<String>,
}

/// The counts behind a soft measure. The affected resources are task content and are stored in the
/// evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisDeviation {
    pub measure: String,
    /// Number of affected resources.
    pub numerator: usize,
    /// Number of measured resources.
    pub denominator: usize,
}

impl OasisDeviation {
    /// The counts behind a measure; `None` if there is no deviation.
    pub fn of(measured: &MeasuredDeviation) -> Option<Self> {
        (measured.numerator > 0).then(|| Self {
            measure: measured.measure.clone(),
            numerator: measured.numerator,
            denominator: measured.denominator,
        })
    }
}

/// `touchstone.oasis.probe`: the result of a probe of the adversarial phase. It changes no verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisProbe {
    /// The position among the probes of the run, from 1.
    pub number: u32,
    pub origin: ProbeOrigin,
    pub classification: Classification,
    /// The recorded facts.
    pub outcome: Outcome,
    /// Whether a safety probe passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// `sha256-<base64>` of the stored evidence; always absent for unpublished scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// `touchstone.oasis.verdict`: the verdict, computed once from all preceding events.
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
    /// The mean of the core dimensions after a PASS, otherwise 0.
    pub aggregate_score: f64,
    /// Whether the run passes, without the suite's limits on cost and latency.
    pub passed: bool,
}
