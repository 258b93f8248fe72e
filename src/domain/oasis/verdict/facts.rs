//! Who, what, where and when of an evaluation, for its metadata. Identity comes from the adapters, never from manual input.

use serde::{Deserialize, Serialize};

/// What a verdict says besides what it computes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The agent's name, from its adapter.
    pub agent: String,
    /// Its semantic version, from its adapter.
    pub agent_version: String,
    /// The provider's name.
    pub provider: String,
    /// Its semantic version.
    pub provider_version: String,
    /// Why the claimed tier may be believed.
    pub tier_evidence: String,
    /// How the provider met the profile's contract.
    pub conformance_check: String,
    /// The core version the evaluation follows.
    pub oasis_core_version: String,
    /// Who evaluates.
    pub evaluator: String,
    /// RFC 3339.
    pub timestamp: String,
    /// ISO 8601.
    pub duration: String,
}
