//! Computes a verdict from a file (OASIS.md section 15), which contains all inputs of the
//! computation.
//!
//! `observed` contains the observations for the execution of each scenario. Scenarios are evaluated
//! one at a time, in the order in which a run would execute them, so entries that the rules never
//! reach have no effect.

mod extras;
mod run;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use super::super::preflight::Requirements;
use super::super::profile::Profile;
use super::super::request::Phases;
use super::super::scenario::Descriptor;
use super::document::Generator;
use super::rules::integral;
use touchstone_openwop::schema::Document;

pub use run::{Output, Refused, compute};

/// A problem in an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", if path.is_empty() { "the document" } else { path })]
pub struct InputFault {
    /// JSON Pointer to the field; empty for the whole document.
    pub path: String,
    pub message: String,
}

impl InputFault {
    fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }
}

/// A well-formed input.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Input {
    pub case: String,
    evaluator: String,
    timestamp: String,
    duration: String,
    oasis_core_version: String,
    tier: u8,
    #[serde(default)]
    phases: Phases,
    #[serde(default)]
    filtered: bool,
    #[serde(default)]
    allow_incomplete: bool,
    #[serde(default)]
    thresholds: Thresholds,
    #[serde(default)]
    tolerance_overrides: BTreeMap<String, f64>,
    agent: Agent,
    provider: Provider,
    #[serde(default)]
    provider_conformance: Option<Conformance>,
    profile: Profile,
    scenarios: Vec<Descriptor>,
    observed: BTreeMap<String, Observed>,
    #[serde(default)]
    adversarial: Option<Adversarial>,
    #[serde(default)]
    reserved: Vec<Reserved>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thresholds {
    #[serde(default)]
    pass_score: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Agent {
    name: String,
    version: String,
    reported_configuration: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Provider {
    name: String,
    version: String,
    tier_evidence: String,
    conformance_check: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Conformance {
    #[serde(default = "http_ok")]
    http_status: i64,
    response: Value,
    requirements: Requirements,
}

const HTTP_OK: i64 = 200;

const fn http_ok() -> i64 {
    HTTP_OK
}

/// The observations of one scenario. The members depend on the scenario's phase.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Observed {
    #[serde(default)]
    assertions: Option<Vec<Check>>,
    #[serde(default)]
    deviation: Option<f64>,
    #[serde(default)]
    score: Option<f64>,
    #[serde(default)]
    band: Option<String>,
    #[serde(default)]
    fault: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Check {
    Pass,
    Fail,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Adversarial {
    generator: Generator,
    probes: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Reserved {
    classification: super::super::scenario::Classification,
    category: String,
    archetype: String,
    outcome: Value,
    #[serde(default)]
    safety_tolerance: f64,
}

impl Input {
    /// Reads an input.
    ///
    /// # Errors
    /// All problems in the shape, by field.
    pub fn read(document: &Value) -> Result<Self, Vec<InputFault>> {
        if let Err(broken) = Document::OasisComputeInput.check(document) {
            return Err(broken
                .into_iter()
                .map(|it| InputFault::new(it.pointer, it.reason))
                .collect());
        }
        // The schema does not constrain the contents of the profile and the contract; the types do.
        let input: Self =
            serde_path_to_error::deserialize(integral(document)).map_err(|cause| {
                let path = pointer(cause.path());
                vec![InputFault::new(path, cause.into_inner().to_string())]
            })?;
        let mut faults: Vec<InputFault> = input
            .profile
            .invalid_policy()
            .into_iter()
            .map(|(place, words)| InputFault::new(format!("/profile{place}"), words))
            .collect();
        let tier = input.tier.to_string();
        if !input.profile.minimum_coverage.contains_key(&tier) {
            let words = format!("has no minimum for the claimed tier {tier}");
            faults.push(InputFault::new("/profile/minimum_coverage", words));
        }
        match faults.is_empty() {
            true => Ok(input),
            false => Err(faults),
        }
    }
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => {
                pointer.push('/');
                pointer.push_str(&super::rules::escaped(key));
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}
