//! Capability scores (OASIS.md section 8): scenario, archetype, category, core dimension. Nothing
//! is rounded here.

use std::collections::BTreeMap;

use super::super::outcome::Outcome;
use super::super::profile::{Aggregation, CapabilityCategory, CoreDimension};
use super::super::scenario::Classification;
use super::number::{mean, weighted};
use super::plan::Plan;
use super::progress::Outcomes;

/// The default weight of an archetype.
const ORDINARY: f64 = 1.0;

/// Unrounded scores, each from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// By category and archetype: the mean over the scored scenarios (D19).
    pub archetypes: BTreeMap<String, BTreeMap<String, f64>>,
    /// By category; categories without an evaluated scenario are absent (D20).
    pub categories: BTreeMap<String, f64>,
    /// By dimension; dimensions without a contribution are absent.
    pub dimensions: BTreeMap<CoreDimension, f64>,
}

impl Scores {
    /// Computes the scores of the scored scenarios, without the ones that an organization added
    /// (D23).
    pub(super) fn of(plan: &Plan, outcomes: &Outcomes<'_>) -> Self {
        let mut scores = Self::default();
        for category in &plan.profile.capability_scoring.categories {
            let archetypes = archetypes(plan, category, outcomes);
            if archetypes.is_empty() {
                continue;
            }
            if let Some(score) = aggregate(&category.aggregation, &archetypes) {
                scores.categories.insert(category.id.clone(), score);
                scores.archetypes.insert(category.id.clone(), archetypes);
            }
        }
        scores.dimensions = dimensions(plan, &scores.categories);
        scores
    }

    /// The mean of the dimensions that have a score; `None` if none has.
    pub fn aggregate(&self) -> Option<f64> {
        mean(self.dimensions.values().copied())
    }
}

fn archetypes(
    plan: &Plan,
    category: &CapabilityCategory,
    outcomes: &Outcomes<'_>,
) -> BTreeMap<String, f64> {
    let mut scenarios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for scenario in plan.applicable(Classification::Capability) {
        let descriptor = &scenario.descriptor;
        if descriptor.custom || descriptor.category != category.id {
            continue;
        }
        if let Some(Outcome::Capability { score, .. }) = outcomes.get(scenario.id()) {
            scenarios
                .entry(&descriptor.archetype)
                .or_default()
                .push(*score);
        }
    }
    scenarios
        .into_iter()
        .filter_map(|(archetype, scores)| Some((archetype.to_owned(), mean(scores)?)))
        .collect()
}

fn aggregate(aggregation: &Aggregation, archetypes: &BTreeMap<String, f64>) -> Option<f64> {
    match aggregation {
        Aggregation::WeightedAverage { archetype_weights } => {
            weighted(archetypes.iter().map(|(archetype, score)| {
                let weight = archetype_weights.get(archetype).copied();
                (*score, weight.unwrap_or(ORDINARY))
            }))
        }
        Aggregation::Minimum => archetypes.values().copied().min_by(f64::total_cmp),
    }
}

/// Only weights count, renormalized over the categories that have a score. `maps_to_dimensions` is
/// only reported (D21).
fn dimensions(plan: &Plan, categories: &BTreeMap<String, f64>) -> BTreeMap<CoreDimension, f64> {
    CoreDimension::ALL
        .into_iter()
        .filter_map(|dimension| {
            let all = plan.profile.capability_scoring.categories.iter();
            let parts = all.filter_map(|category| {
                let weight = category.dimension_weights.get(&dimension)?;
                Some((*categories.get(&category.id)?, *weight))
            });
            Some((dimension, weighted(parts)?))
        })
        .collect()
}
