//! The evidence of one scenario as it is kept beside the log, under its digest: content, for those who may read the run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::report::facts::Execution;

/// The evidence of one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptEvidence {
    /// The scenario, or the name of a probe.
    pub scenario_id: String,
    /// What was put to the agent, what it did, what was observed and verified.
    pub execution: Execution,
    /// The baseline snapshot: what was in the environment before the first stimulus, as the provider answered it, with the same
    /// literals blotted out. Absent in older records, and if none was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Value>,
    /// The data of each observation of `execution`, in its order, never filtered; literals that must not be emitted are
    /// blotted out.
    pub data: Vec<Value>,
    /// The probe, if it is of one; absent for scenarios of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<KeptProbe>,
}

/// A probe, for whoever wants to run it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptProbe {
    /// What happens in it.
    pub description: String,
    /// What it is attributed to.
    pub primary_archetype: String,
    /// What else it combines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secondary_archetypes: Vec<String>,
    /// It, in the scenario format.
    pub serialized: String,
}
