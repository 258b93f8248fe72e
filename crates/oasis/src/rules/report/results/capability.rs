//! Capability: by category with archetypes, and by dimension with contributors (Rep 2.4).

use serde::{Deserialize, Serialize};

use super::safety::of_phase;
use crate::rules::profile::{Aggregation, CapabilityCategory, CoreDimension};
use crate::rules::report::facts::{Facts, ScenarioFacts, State};
use crate::rules::report::rounded;
use crate::rules::report::statement;
use crate::rules::scenario::Classification;
use crate::rules::verdict::document::{Capability, Status};

/// Capability. There are scores only if safety is PASS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapabilitySummary {
    /// The tier that every score belongs to.
    pub tier: u8,
    /// The consequence of the tier for comparisons of scores.
    pub statement: String,
    /// Why scores are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_evaluated_because: Option<String>,
    pub dimensions: Vec<DimensionScore>,
    /// By category, in the profile's order.
    pub categories: Vec<CategoryScore>,
    /// By scenario, in the suite's order.
    pub scenarios: Vec<ScenarioScore>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DimensionScore {
    pub dimension: CoreDimension,
    /// 0 to 1; absent if no scored category has a weight for the dimension.
    pub score: Option<f64>,
    /// The tier that the score belongs to.
    pub tier: u8,
    /// The categories that contribute to the score.
    pub contributors: Vec<Contributor>,
}

/// A category's contribution to a dimension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contributor {
    pub category: String,
    /// The category's score, 0 to 1.
    pub score: f64,
    /// The weight in the profile.
    pub weight: f64,
    /// The weight relative to all scored categories, 0 to 1.
    pub share: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CategoryScore {
    pub category: String,
    /// 0 to 1; absent if no scenario of the category was evaluated.
    pub score: Option<f64>,
    /// The tier that the score belongs to.
    pub tier: u8,
    /// How the archetype scores are combined.
    pub aggregation: String,
    /// The scored archetypes.
    pub archetypes: Vec<ArchetypeScore>,
    /// The dimensions under which the category is reported.
    pub maps_to_dimensions: Vec<CoreDimension>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchetypeScore {
    pub archetype: String,
    /// The mean score of the scenarios, 0 to 1.
    pub score: f64,
    /// The number of scenarios.
    pub scenarios: usize,
    /// The weight in the category; absent if the lowest score counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

/// A scored capability scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioScore {
    pub scenario_id: String,
    pub category: String,
    pub archetype: String,
    /// 0 to 1.
    pub score: f64,
    /// The tier that the score belongs to.
    pub tier: u8,
    /// The label of the rubric band.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<String>,
    /// Added by the evaluating organization. The score is reported, but not part of any aggregate
    /// (D23).
    pub custom: bool,
}

const DIMENSIONS: [CoreDimension; 4] = [
    CoreDimension::TaskCompletion,
    CoreDimension::Reliability,
    CoreDimension::Reasoning,
    CoreDimension::Auditability,
];

impl CapabilitySummary {
    pub fn of(facts: &Facts) -> Self {
        let tier = facts.verdict.metadata.environment.tier;
        let mut summary = Self {
            tier,
            statement: statement::TIER.to_owned(),
            not_evaluated_because: None,
            dimensions: Vec::new(),
            categories: Vec::new(),
            scenarios: Vec::new(),
        };
        match &facts.verdict.capability {
            Some(capability) => {
                let categories = || facts.profile.rules.capability_scoring.categories.iter();
                summary.dimensions = DIMENSIONS
                    .into_iter()
                    .map(|dimension| DimensionScore::of(dimension, categories(), capability, tier))
                    .collect();
                summary.categories = categories()
                    .map(|it| CategoryScore::of(it, capability, facts))
                    .collect();
                summary.scenarios = scored(facts)
                    .map(|(it, score, band)| ScenarioScore {
                        scenario_id: it.descriptor.id.clone(),
                        category: it.descriptor.category.clone(),
                        archetype: it.descriptor.archetype.clone(),
                        score: rounded(score),
                        tier,
                        band: band.map(str::to_owned),
                        custom: it.descriptor.custom,
                    })
                    .collect();
            }
            None => summary.not_evaluated_because = Some(why_not(facts).to_owned()),
        }
        summary
    }
}

fn why_not(facts: &Facts) -> &'static str {
    let verdict = &facts.verdict;
    match verdict.safety {
        Status::Pass => "Phase 2 was not run.",
        Status::Fail => "Capability is scored only after a safety PASS, and safety is FAIL.",
        Status::ProviderFailure => {
            "A runtime provider fault ended the run; capability is scored only after a safety PASS."
        }
    }
}

fn scored(facts: &Facts) -> impl Iterator<Item = (&ScenarioFacts, f64, Option<&str>)> {
    of_phase(facts, Classification::Capability).filter_map(|scenario| match &scenario.state {
        State::Executed(execution) => Some((scenario, execution.score?, execution.band.as_deref())),
        State::NotApplicable { .. } | State::NotExecuted => None,
    })
}

impl DimensionScore {
    fn of<'a>(
        dimension: CoreDimension,
        categories: impl Iterator<Item = &'a CapabilityCategory>,
        capability: &Capability,
        tier: u8,
    ) -> Self {
        let mut contributors: Vec<Contributor> = categories
            .filter_map(|category| {
                let scored = capability.domain_categories.get(&category.id)?;
                Some(Contributor {
                    category: category.id.clone(),
                    score: scored.score,
                    weight: *category.dimension_weights.get(&dimension)?,
                    share: 0.0,
                })
            })
            .collect();
        let all: f64 = contributors.iter().map(|it| it.weight).sum();
        if all > 0.0 {
            for contributor in &mut contributors {
                contributor.share = rounded(contributor.weight / all);
            }
        }
        Self {
            dimension,
            score: capability.core_dimensions.get(&dimension).copied(),
            tier,
            contributors,
        }
    }
}

impl CategoryScore {
    fn of(category: &CapabilityCategory, capability: &Capability, facts: &Facts) -> Self {
        let (aggregation, weights) = match &category.aggregation {
            Aggregation::WeightedAverage { archetype_weights } => {
                ("weighted average of archetypes", Some(archetype_weights))
            }
            Aggregation::Minimum => ("lowest archetype", None),
        };
        let archetype = |archetype: &String| {
            let scores: Vec<f64> = scored(facts)
                .filter(|(it, ..)| {
                    let descriptor = &it.descriptor;
                    !descriptor.custom
                        && descriptor.category == category.id
                        && descriptor.archetype == *archetype
                })
                .map(|(_, score, _)| score)
                .collect();
            (!scores.is_empty()).then(|| ArchetypeScore {
                archetype: archetype.clone(),
                score: rounded(scores.iter().sum::<f64>() / scores.len() as f64),
                scenarios: scores.len(),
                weight: weights.map(|it| it.get(archetype).copied().unwrap_or(1.0)),
            })
        };
        Self {
            category: category.id.clone(),
            score: capability
                .domain_categories
                .get(&category.id)
                .map(|it| it.score),
            tier: capability.tier,
            aggregation: aggregation.to_owned(),
            archetypes: category.archetypes.iter().filter_map(archetype).collect(),
            maps_to_dimensions: category.maps_to_dimensions.clone(),
        }
    }
}
