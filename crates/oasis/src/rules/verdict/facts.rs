//! The circumstances of an evaluation, for the verdict's metadata. Identities come from the
//! adapters, never from manual input.

use serde::{Deserialize, Serialize};

/// The parts of a verdict that are not computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The agent's name, from its adapter.
    pub agent: String,
    /// The agent's semantic version, from its adapter.
    pub agent_version: String,
    /// The provider's name.
    pub provider: String,
    /// The provider's semantic version.
    pub provider_version: String,
    /// The evidence for the claimed tier.
    pub tier_evidence: String,
    /// How the provider met the profile's contract.
    pub conformance_check: String,
    /// The core version that the evaluation follows.
    pub oasis_core_version: String,
    pub evaluator: String,
    /// RFC 3339.
    pub timestamp: String,
    /// ISO 8601.
    pub duration: String,
}
