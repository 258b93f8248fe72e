//! What the verdict needs of a domain profile (OASIS Prof 2): categories, archetypes, weights, minimum coverage.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::configuration::ConfigurationSchema;

/// A domain profile, as far as verdicts depend on it. How its files are read is in [`super::format`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Its id, `oasis-profile-…`: what a provider is asked about.
    pub identifier: String,
    /// Its name, for people; the verdict's `domain_profile`.
    pub name: String,
    /// Its exact semantic version, prerelease included.
    pub version: String,
    /// The core versions it builds on, `>=X`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oasis_core_dependency: Option<String>,
    /// The dimensions of an agent's configuration.
    pub agent_configuration_schema: ConfigurationSchema,
    /// Safety categories, in the profile's order.
    pub safety_categories: Vec<SafetyCategory>,
    /// Groups of scenarios within categories; a verdict has `subcategory_results` if and only if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subcategories: Vec<Subcategory>,
    /// How capability is scored.
    pub capability_scoring: CapabilityScoring,
    /// Distinct archetypes that must be evaluated per category, by claimed tier (`"1"`, `"2"`, `"3"`).
    pub minimum_coverage: BTreeMap<String, MinimumCoverage>,
}

/// Whether a number can be a weight: sums of larger ones lose what the smaller ones say.
pub fn is_weight(number: f64) -> bool {
    (0.0..=1e6).contains(&number)
}

impl Profile {
    /// What makes no sense in its scoring: the place, as a JSON Pointer below the profile, and why.
    pub fn senseless(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let safety = self.safety_categories.iter().map(|it| &it.id);
        let capability = self.capability_scoring.categories.iter();
        let mut seen = BTreeSet::new();
        for id in safety.chain(capability.clone().map(|it| &it.id)) {
            if !seen.insert(id) {
                let words = format!("has two categories `{id}`; rename one");
                found.push((String::new(), words));
            }
        }
        for (index, category) in capability.enumerate() {
            let place = format!("/capability_scoring/categories/{index}");
            let of_archetypes = match &category.aggregation {
                Aggregation::WeightedAverage { archetype_weights } => Some(archetype_weights),
                Aggregation::Minimum => None,
            };
            let mut weights = of_archetypes.into_iter().flat_map(BTreeMap::values);
            let mut dimensions = category.dimension_weights.values();
            if !weights.all(|it| is_weight(*it)) || !dimensions.all(|it| is_weight(*it)) {
                let words = "has a weight that is not from 0 to 1000000".to_owned();
                found.push((place, words));
            }
        }
        found
    }
}

/// A safety category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SafetyCategory {
    /// Its id.
    pub id: String,
    /// Its archetypes.
    pub archetypes: Vec<String>,
}

/// A group of scenarios. It has no rules of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subcategory {
    /// Its id.
    pub identifier: String,
    /// The categories it stands in, at least one.
    pub parents: Vec<String>,
    /// What it means, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// How capability is scored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapabilityScoring {
    /// Capability categories, in the profile's order.
    pub categories: Vec<CapabilityCategory>,
}

/// A capability category.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapabilityCategory {
    /// Its id.
    pub id: String,
    /// Its archetypes.
    pub archetypes: Vec<String>,
    /// Dimensions it is reported under; only weights count (D21).
    pub maps_to_dimensions: Vec<CoreDimension>,
    /// Its weight in each dimension.
    #[serde(default)]
    pub dimension_weights: BTreeMap<CoreDimension, f64>,
    /// How its archetypes become one score.
    pub aggregation: Aggregation,
}

/// How the archetypes of a category become one score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum Aggregation {
    /// `sum(w·a)/sum(w)` over evaluated archetypes.
    WeightedAverage {
        /// Weights other than 1.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        archetype_weights: BTreeMap<String, f64>,
    },
    /// The lowest archetype score.
    Minimum,
}

/// The four dimensions every profile maps to (Core 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreDimension {
    /// The work got done.
    TaskCompletion,
    /// It gets done every time.
    Reliability,
    /// For good reasons.
    Reasoning,
    /// And one can see how.
    Auditability,
}

impl CoreDimension {
    /// All of them, in the standard's order.
    pub const ALL: [Self; 4] = [
        Self::TaskCompletion,
        Self::Reliability,
        Self::Reasoning,
        Self::Auditability,
    ];
}

/// Minimum coverage at one tier: archetypes by category, `*` for every category without an entry of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinimumCoverage {
    /// Of safety categories.
    #[serde(default)]
    pub safety: BTreeMap<String, Minimum>,
    /// Of capability categories.
    #[serde(default)]
    pub capability: BTreeMap<String, Minimum>,
}

/// How many archetypes of a category must be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Minimum {
    /// This many, or all there are if that is less.
    Count(u32),
    /// The word `all`.
    All(All),
}

/// The word `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum All {
    /// Every archetype.
    All,
}
