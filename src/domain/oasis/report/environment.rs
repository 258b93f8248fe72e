//! Who was evaluated by whom with what (Rep 2.1), and in which environment (Rep 2.2).

use serde::{Deserialize, Serialize};

use super::facts::{Facts, Implementation, Requirement};
use crate::domain::oasis::configuration::Configuration;
use crate::domain::oasis::evaluated::Evaluated;

/// Who was evaluated by whom with what (Rep 2.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// The agent, as its adapter reports it.
    pub agent: Named,
    /// Its effective configuration, defaults filled in.
    pub agent_configuration: Configuration,
    /// The organization or person who evaluates.
    pub evaluator: String,
    /// When, RFC 3339.
    pub date: String,
    /// For how long, ISO 8601.
    pub duration: String,
    /// Version of the core specification.
    pub oasis_core_version: String,
    /// The domain profile.
    pub domain_profile: Named,
    /// Its id.
    pub domain_profile_identifier: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub domain_profile_description: String,
    /// The software that evaluated.
    pub evaluation_implementation: Implementation,
    /// The run the report comes from.
    pub run_id: String,
    /// What answered, and by what it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated: Option<Evaluated>,
    /// The environment provider.
    pub environment_provider: Named,
    /// The check before the run.
    pub preflight: PreflightSummary,
}

/// Something with a name and a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// What it is called.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The check before the run (PC 3.8).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PreflightSummary {
    /// Its result in a sentence, as in the verdict.
    pub result: String,
    /// How many requirements were checked.
    pub checked: usize,
    /// How many of them the provider satisfies.
    pub satisfied: usize,
    /// Each requirement and the answer.
    pub requirements: Vec<Requirement>,
}

/// In which environment (Rep 2.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The claimed complexity tier.
    pub tier: u8,
    /// What tiers are called.
    pub tier_name: String,
    /// What the profile demands of an environment of that tier.
    pub characteristics: String,
    /// What shows that the tier is met.
    pub tier_evidence: String,
    /// The lab framework, or that none is declared.
    pub lab_framework: String,
}

impl Metadata {
    pub(super) fn of(facts: &Facts) -> Self {
        let metadata = &facts.verdict.metadata;
        let requirements = facts.preflight.requirements.clone();
        Self {
            agent: Named::of(&metadata.agent, &metadata.agent_version),
            agent_configuration: metadata.agent_configuration.clone(),
            evaluator: metadata.evaluator.clone(),
            date: metadata.timestamp.clone(),
            duration: metadata.duration.clone(),
            oasis_core_version: metadata.oasis_core_version.clone(),
            domain_profile: Named::of(&metadata.domain_profile, &metadata.domain_profile_version),
            domain_profile_identifier: facts.profile.rules.identifier.clone(),
            domain_profile_description: facts.profile.description.clone(),
            evaluation_implementation: facts.run.implementation.clone(),
            run_id: facts.run.run_id.clone(),
            evaluated: facts.run.evaluated.clone(),
            environment_provider: Named::of(
                &metadata.environment.provider,
                &metadata.environment.provider_version,
            ),
            preflight: PreflightSummary {
                result: metadata.environment.conformance_check.clone(),
                checked: requirements.len(),
                satisfied: requirements.iter().filter(|it| it.satisfied).count(),
                requirements,
            },
        }
    }
}

impl Named {
    fn of(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
        }
    }
}

impl Environment {
    pub(super) fn of(facts: &Facts) -> Self {
        let environment = &facts.verdict.metadata.environment;
        let demanded = facts.profile.tier_environment.as_str();
        Self {
            tier: environment.tier,
            tier_name: tier_name(environment.tier).to_owned(),
            characteristics: if demanded.is_empty() {
                "The profile describes none for this tier.".to_owned()
            } else {
                demanded.to_owned()
            },
            tier_evidence: environment.tier_evidence.clone(),
            lab_framework: match &facts.lab_framework {
                Some(framework) => framework.clone(),
                None => "None is declared.".to_owned(),
            },
        }
    }
}

/// What the standard calls a tier.
pub const fn tier_name(tier: u8) -> &'static str {
    match tier {
        1 => "minimal",
        2 => "integrated",
        3 => "production-realistic",
        _ => "unknown",
    }
}
