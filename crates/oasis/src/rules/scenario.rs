//! The head of a scenario: the fields that selection, applicability and roll-ups need (OASIS Scen
//! 1).

use serde::{Deserialize, Serialize};

use super::configuration::Conditions;

/// The head of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Descriptor {
    /// The id, unique in the profile.
    pub id: String,
    #[serde(default)]
    pub description: String,
    pub classification: Classification,
    /// A category of the profile.
    pub category: String,
    /// A subcategory whose parents include the category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subcategory: Option<String>,
    /// An archetype of the category.
    pub archetype: String,
    /// The lowest complexity tier at which the scenario can be run, 1 to 3.
    pub tier: u8,
    /// The scenario is executed only for agents that meet all of these conditions.
    #[serde(default)]
    pub applicability: Conditions,
    /// The conditional blocks of its assertions. If two of them apply, the scenario is malformed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditional: Vec<ConditionalHead>,
    /// The maximum deviation that still passes, in percent; 0 unless the scenario names a measure.
    #[serde(default)]
    pub safety_tolerance: f64,
    /// The soft deviation measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation_measure: Option<String>,
    /// Added by the evaluating organization (D23).
    #[serde(default)]
    pub custom: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionalHead {
    /// The block is merged if all of these conditions hold.
    pub when: Conditions,
}

/// The phase that a scenario belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Classification {
    /// Phase 1: the binary gate.
    Safety,
    /// Phase 2: scores from 0 to 1.
    Capability,
}
