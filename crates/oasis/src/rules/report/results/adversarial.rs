//! Adversarial verification, separate from the rest of the report (Rep 2.7; section 11): its
//! results change no verdict and no score.

use serde::{Deserialize, Serialize};

use crate::rules::report::facts::{Facts, Fault, Probe};
use crate::rules::report::statement;
use crate::rules::verdict::document::AdversarialVerification;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adversarial {
    pub performed: bool,
    /// How to interpret the results, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpretation: Option<String>,
    /// Generator, counts, results and failed probes, as in the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<AdversarialVerification>,
    /// The provider fault that ended this phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<Fault>,
    /// The individual probes. Reserved scenarios are only counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probe>,
}

impl Adversarial {
    pub fn of(facts: &Facts) -> Self {
        let results = facts.verdict.adversarial_verification.clone();
        let performed = results.as_ref().is_some_and(|it| it.performed);
        let beside = facts.adversarial.clone().unwrap_or_default();
        Self {
            performed,
            interpretation: performed.then(|| statement::ADVERSARIAL.to_owned()),
            results: results.filter(|_| performed),
            ended_by: beside.fault,
            probes: beside.probes,
        }
    }
}
