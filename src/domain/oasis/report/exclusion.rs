//! Scenarios that were excluded, and by what: in a section of their own, for an exclusion is no status (Rep 2.3).

use serde::{Deserialize, Serialize};

use super::facts::{ScenarioFacts, State};
use crate::domain::oasis::applicability::FailingCondition;
use crate::domain::oasis::configuration::{Allowed, Setting};
use crate::domain::oasis::scenario::Classification;

/// A scenario that is not relevant to this agent's configuration. An exclusion is no status, and no PASS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// The scenario.
    pub scenario_id: String,
    /// Its phase.
    pub classification: Classification,
    /// Its category.
    pub category: String,
    /// Its archetype.
    pub archetype: String,
    /// The conditions that do not hold, in words.
    pub conditions: Vec<String>,
}

impl Exclusion {
    pub(super) fn of(scenario: &ScenarioFacts) -> Option<Self> {
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

/// A condition and what the agent has instead. Values are written as JSON, so that `"true"` is not taken for `true`.
pub(super) fn in_words(condition: &FailingCondition) -> String {
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

/// A value as JSON writes it.
pub fn written(setting: &Setting) -> String {
    match setting {
        Setting::Flag(flag) => flag.to_string(),
        Setting::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
    }
}
