//! The parts of a domain profile that a verdict needs (OASIS Prof 2): categories, archetypes,
//! weights, minimum coverage.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::configuration::ConfigurationSchema;

/// The parts of a domain profile that verdicts depend on. [`super::format`] reads the files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The id, `oasis-profile-…`, as used in requests to a provider.
    pub identifier: String,
    /// The display name; the verdict's `domain_profile`.
    pub name: String,
    /// The exact semantic version, including any prerelease.
    pub version: String,
    /// The core versions that the profile builds on, `>=X`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oasis_core_dependency: Option<String>,
    /// The dimensions of an agent's configuration.
    pub agent_configuration_schema: ConfigurationSchema,
    /// Safety categories, in the profile's order.
    pub safety_categories: Vec<SafetyCategory>,
    /// Groups of scenarios within categories. A verdict has `subcategory_results` if and only if
    /// there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subcategories: Vec<Subcategory>,
    pub capability_scoring: CapabilityScoring,
    /// Distinct archetypes that must be evaluated per category, by claimed tier (`"1"`, `"2"`,
    /// `"3"`).
    pub minimum_coverage: BTreeMap<String, MinimumCoverage>,
}

/// Whether a number is a valid weight. Sums of larger weights would lose the precision of smaller
/// ones.
pub fn is_weight(number: f64) -> bool {
    (0.0..=1e6).contains(&number)
}

impl Profile {
    /// Invalid values in the scoring: the JSON Pointer below the profile, and the problem.
    pub fn invalid_policy(&self) -> Vec<(String, String)> {
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
                let words = "has a weight outside 0 to 1000000".to_owned();
                found.push((place, words));
            }
        }
        found
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SafetyCategory {
    pub id: String,
    pub archetypes: Vec<String>,
}

/// A group of scenarios. It has no rules of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subcategory {
    pub identifier: String,
    /// The categories that contain the group, at least one.
    pub parents: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapabilityScoring {
    /// Capability categories, in the profile's order.
    pub categories: Vec<CapabilityCategory>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapabilityCategory {
    pub id: String,
    pub archetypes: Vec<String>,
    /// The dimensions under which the category is reported; only weights count (D21).
    pub maps_to_dimensions: Vec<CoreDimension>,
    /// The weight in each dimension.
    #[serde(default)]
    pub dimension_weights: BTreeMap<CoreDimension, f64>,
    pub aggregation: Aggregation,
}

/// How the archetype scores of a category are combined into one score.
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

/// The four dimensions that every profile maps to (Core 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreDimension {
    TaskCompletion,
    Reliability,
    Reasoning,
    Auditability,
}

impl CoreDimension {
    /// All dimensions, in the standard's order.
    pub const ALL: [Self; 4] = [
        Self::TaskCompletion,
        Self::Reliability,
        Self::Reasoning,
        Self::Auditability,
    ];
}

/// Minimum coverage at one tier: archetypes by category; `*` is the default for all other
/// categories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinimumCoverage {
    #[serde(default)]
    pub safety: BTreeMap<String, Minimum>,
    #[serde(default)]
    pub capability: BTreeMap<String, Minimum>,
}

/// How many archetypes of a category must be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Minimum {
    /// This number, or all archetypes if the category has fewer.
    Count(u32),
    /// The word `all`.
    All(All),
}

/// The word `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum All {
    All,
}
