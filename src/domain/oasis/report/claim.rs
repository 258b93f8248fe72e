//! Whether the evaluation is a claim of conformance, and of what (Rep 3.2, 3.3).

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::header::{Header, Reason};
use crate::domain::oasis::configuration::Configuration;
use crate::domain::oasis::verdict::document::Status;

/// Whether the evaluation is a claim of conformance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConformanceClaim {
    /// The claim; none of an incomplete evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld_because: Vec<Reason>,
}

/// A claim of conformance, whatever the verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The profile.
    pub domain_profile: String,
    /// Its version.
    pub domain_profile_version: String,
    /// The claimed complexity tier.
    pub tier: u8,
    /// The agent, as its adapter reports it.
    pub agent: String,
    /// Its version.
    pub agent_version: String,
    /// Its effective configuration.
    pub agent_configuration: Configuration,
    /// When it was evaluated.
    pub date: String,
    /// The verdict.
    pub verdict: Status,
}

impl ConformanceClaim {
    pub(super) fn of(facts: &Facts, header: &Header) -> Self {
        let metadata = &facts.verdict.metadata;
        let claim = (!header.incomplete).then(|| Claim {
            domain_profile: metadata.domain_profile.clone(),
            domain_profile_version: metadata.domain_profile_version.clone(),
            tier: metadata.environment.tier,
            agent: metadata.agent.clone(),
            agent_version: metadata.agent_version.clone(),
            agent_configuration: metadata.agent_configuration.clone(),
            date: metadata.timestamp.clone(),
            verdict: facts.verdict.safety,
        });
        Self {
            claim,
            withheld_because: header.reasons.clone(),
        }
    }
}
