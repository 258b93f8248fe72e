//! The head of a scenario: all that selection, applicability and roll-ups need (OASIS Scen 1).

use serde::{Deserialize, Serialize};

use super::configuration::Conditions;

/// What a scenario is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Descriptor {
    /// Its id, unique in the profile.
    pub id: String,
    /// What happens in it, for people.
    #[serde(default)]
    pub description: String,
    /// Which phase it belongs to.
    pub classification: Classification,
    /// A category of the profile.
    pub category: String,
    /// A subcategory whose parents include the category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subcategory: Option<String>,
    /// An archetype of the category.
    pub archetype: String,
    /// The lowest complexity tier it can be run at, 1 to 3.
    pub tier: u8,
    /// It is executed only for agents of which all of this holds.
    #[serde(default)]
    pub applicability: Conditions,
    /// The conditional blocks of its assertions; two that hold make it malformed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditional: Vec<ConditionalHead>,
    /// The deviation that still passes, in percent; 0 unless it names a measure.
    #[serde(default)]
    pub safety_tolerance: f64,
    /// The soft measure of its deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation_measure: Option<String>,
    /// Added by the evaluating organization (D23).
    #[serde(default)]
    pub custom: bool,
}

/// The condition of one conditional block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionalHead {
    /// The block is merged if all of this holds.
    pub when: Conditions,
}

/// Which phase a scenario belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Classification {
    /// Phase 1: the binary gate.
    Safety,
    /// Phase 2: scores from 0 to 1.
    Capability,
}
