//! Whether the evaluation is a claim of conformance, and of what (Rep 3.2, 3.3).

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::header::{Header, Reason};
use super::safety;
use crate::domain::oasis::configuration::Configuration;
use crate::domain::oasis::evaluated::{Answerer, IdentitySource};
use crate::domain::oasis::verdict::document::Status;

/// Whether the evaluation is a claim of conformance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConformanceClaim {
    /// The claim; none of an incomplete evaluation, where the evaluator raised a tolerance, and where a substitute for the pack's
    /// agent answered that did not say who it is.
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

/// A claim names the agent as its adapter reports it (Rep 3.2). What the pack says of its own agent says nothing of a substitute.
fn unidentified(facts: &Facts) -> Option<Reason> {
    let evaluated = facts.run.evaluated.as_ref()?;
    let is_named = evaluated.answered_by == Answerer::Model
        || evaluated.identity_source == IdentitySource::Adapter;
    (!is_named).then(|| Reason {
        code: "agent_not_identified".to_owned(),
        text: format!(
            "what answered was {}, and it did not say which agent it is; the pack's name is that of another agent",
            evaluated.answered_by.in_words()
        ),
    })
}

/// A claim is one by the profile, and the profile's tolerances are a part of it.
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
