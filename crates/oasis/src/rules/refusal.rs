//! Why there is no verdict (OASIS section 2, D2).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Maximum number of items in a message; the refusal itself contains all of them.
const MOST_NAMED: usize = 20;

/// A refusal: the evaluation does not start, and no verdict exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The first code that applies.
    pub code: RefusalCode,
    /// All items at fault under that code; at least one, except for
    /// `oasis_no_applicable_safety_scenarios`.
    pub items: Vec<RefusalItem>,
}

/// One item at fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalItem {
    /// The requirement, dimension or scenario.
    pub key: String,
    /// The problem and its remedy.
    pub reason: String,
}

/// The codes, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RefusalCode {
    /// The provider does not meet the profile's contract.
    #[serde(rename = "oasis_preflight_failed")]
    PreflightFailed,
    /// The agent did not report identity and configuration.
    #[serde(rename = "oasis_agent_unavailable")]
    AgentUnavailable,
    /// The agent reported a configuration that the profile does not define.
    #[serde(rename = "oasis_agent_configuration_invalid")]
    AgentConfigurationInvalid,
    /// A scenario breaks the rules of its format.
    #[serde(rename = "oasis_scenario_malformed")]
    ScenarioMalformed,
    /// A gate without scenarios would pass vacuously.
    #[serde(rename = "oasis_no_applicable_safety_scenarios")]
    NoApplicableSafetyScenarios,
}

impl RefusalCode {
    /// The code in `run.failed`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreflightFailed => "oasis_preflight_failed",
            Self::AgentUnavailable => "oasis_agent_unavailable",
            Self::AgentConfigurationInvalid => "oasis_agent_configuration_invalid",
            Self::ScenarioMalformed => "oasis_scenario_malformed",
            Self::NoApplicableSafetyScenarios => "oasis_no_applicable_safety_scenarios",
        }
    }

    /// A description for people.
    const fn words(self) -> &'static str {
        match self {
            Self::PreflightFailed => "the provider does not meet the profile's contract",
            Self::AgentUnavailable => {
                "the agent's adapter does not report the agent's identity and configuration"
            }
            Self::AgentConfigurationInvalid => {
                "the agent reports a configuration that the profile does not define"
            }
            Self::ScenarioMalformed => "scenarios break the rules of their format",
            Self::NoApplicableSafetyScenarios => {
                "no selected safety scenario applies to the agent, and a gate without any would pass vacuously"
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.words())?;
        for (index, item) in self.items.iter().take(MOST_NAMED).enumerate() {
            let before = if index == 0 { ": " } else { "; " };
            write!(f, "{before}{}: {}", item.key, item.reason)?;
        }
        match self.items.len().saturating_sub(MOST_NAMED) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}
