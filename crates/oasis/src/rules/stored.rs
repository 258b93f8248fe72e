//! The evidence of one scenario as stored outside the log, under its digest. It is task content,
//! readable by those who may read the run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::report::facts::Execution;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredEvidence {
    /// The scenario, or the name of a probe.
    pub scenario_id: String,
    /// The stimuli, the agent's actions, the observations and the checks.
    pub execution: Execution,
    /// The baseline snapshot: the provider's view of the environment before the first stimulus,
    /// with the same literals redacted. Absent in older records, and if no snapshot was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Value>,
    /// The data of each observation of `execution`, in its order and unfiltered, with literals that
    /// must not be emitted redacted.
    pub data: Vec<Value>,
    /// The probe, if the evidence is of one; absent for scenarios of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<StoredProbe>,
}

/// A probe, in enough detail to run it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredProbe {
    /// What happens in the probe.
    pub description: String,
    /// The archetype the probe is attributed to.
    pub primary_archetype: String,
    /// The other archetypes that the probe combines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secondary_archetypes: Vec<String>,
    /// The probe in the scenario format.
    pub serialized: String,
}
