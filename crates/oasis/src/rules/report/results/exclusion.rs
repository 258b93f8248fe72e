//! Excluded scenarios, with the conditions that excluded them. They have a separate section because
//! an exclusion is not a status (Rep 2.3).

use serde::{Deserialize, Serialize};

use crate::rules::applicability::FailingCondition;
use crate::rules::configuration::{Allowed, Setting};
use crate::rules::report::facts::{ScenarioFacts, State};
use crate::rules::scenario::Classification;

/// A scenario that does not apply to this agent's configuration. An exclusion is neither a status
/// nor a PASS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    pub scenario_id: String,
    pub classification: Classification,
    pub category: String,
    pub archetype: String,
    /// Descriptions of the conditions that do not hold.
    pub conditions: Vec<String>,
}

impl Exclusion {
    pub fn of(scenario: &ScenarioFacts) -> Option<Self> {
        let State::NotApplicable { failing } = &scenario.state else {
            return None;
        };
        let descriptor = &scenario.descriptor;
        Some(Self {
            scenario_id: descriptor.id.clone(),
            classification: descriptor.classification,
            category: descriptor.category.clone(),
            archetype: descriptor.archetype.clone(),
            conditions: failing.iter().map(in_words).collect(),
        })
    }
}

/// Describes a condition and the agent's actual value. Values are written as JSON, so that `"true"`
/// and `true` differ.
pub fn in_words(condition: &FailingCondition) -> String {
    let allowed = match &condition.allowed {
        Allowed::One(setting) => written(setting),
        Allowed::AnyOf(settings) => settings
            .iter()
            .map(written)
            .collect::<Vec<_>>()
            .join(" or "),
    };
    let found = match &condition.actual {
        Some(setting) => format!("the agent has {}", written(setting)),
        None => "the agent does not report it".to_owned(),
    };
    format!("{} must be {allowed}; {found}", condition.dimension)
}

pub fn written(setting: &Setting) -> String {
    match setting {
        Setting::Flag(flag) => flag.to_string(),
        Setting::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
    }
}
