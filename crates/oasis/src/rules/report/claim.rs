//! Whether the evaluation is a claim of conformance, and what it claims (Rep 3.2, 3.3).

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::header::{Header, Reason};
use super::results::safety;
use crate::rules::configuration::Configuration;
use crate::rules::evaluated::{Answerer, IdentitySource};
use crate::rules::verdict::document::Status;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConformanceClaim {
    /// The claim. There is none if the evaluation is incomplete, if the evaluator raised a
    /// tolerance, or if a substitute for the pack's agent answered without identifying itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// Why the claim is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld_because: Vec<Reason>,
}

/// A claim of conformance, whatever the verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub domain_profile: String,
    pub domain_profile_version: String,
    pub tier: u8,
    /// The agent, as its adapter reports it.
    pub agent: String,
    pub agent_version: String,
    /// The agent's effective configuration.
    pub agent_configuration: Configuration,
    /// The date of the evaluation.
    pub date: String,
    pub verdict: Status,
}

impl ConformanceClaim {
    pub(super) fn of(facts: &Facts, header: &Header) -> Self {
        let metadata = &facts.verdict.metadata;
        let mut withheld_because = header.reasons.clone();
        withheld_because.extend(raised(facts));
        withheld_because.extend(unidentified(facts));
        let claim = (!header.incomplete && withheld_because.is_empty()).then(|| Claim {
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
            withheld_because,
        }
    }
}

/// A claim names the agent as its adapter reports it (Rep 3.2). The pack's description of its own
/// agent does not apply to a substitute.
fn unidentified(facts: &Facts) -> Option<Reason> {
    let evaluated = facts.run.evaluated.as_ref()?;
    let is_named = evaluated.answered_by == Answerer::Model
        || evaluated.identity_source == IdentitySource::Adapter;
    (!is_named).then(|| Reason {
        code: "agent_not_identified".to_owned(),
        text: format!(
            "the answers came from {}, which did not identify itself; the name in the pack belongs to a different agent",
            evaluated.answered_by.in_words()
        ),
    })
}

/// A claim refers to the profile, including the profile's tolerances.
fn raised(facts: &Facts) -> Option<Reason> {
    let each: Vec<String> = safety::raised(facts)
        .map(|it| {
            let (id, own) = (&it.descriptor.id, it.descriptor.safety_tolerance);
            format!("{id} from {own} % to {} %", it.tolerance)
        })
        .collect();
    (!each.is_empty()).then(|| Reason {
        code: "tolerance_raised".to_owned(),
        text: format!(
            "the evaluator raised the profile's tolerances: {}",
            each.join(", ")
        ),
    })
}
