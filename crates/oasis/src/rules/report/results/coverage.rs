//! Which archetypes were evaluated, which were skipped and why, and whether the coverage is
//! sufficient (Rep 2.5; D22).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::exclusion::in_words;
use super::safety::of_phase;
use crate::rules::applicability::FailingCondition;
use crate::rules::profile::{CoreDimension, Minimum};
use crate::rules::report::facts::{Facts, ScenarioFacts, State};
use crate::rules::scenario::Classification;
use crate::rules::verdict::document::Status;

/// Which archetypes were evaluated, and whether that is sufficient.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The claimed tier, whose minimum applies.
    pub tier: u8,
    /// Whether every category due for evaluation reaches its minimum, and every core dimension has
    /// a score if capability was scored.
    pub minimum_met: bool,
    /// Core dimensions without a score, if capability was scored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unscored_dimensions: Vec<CoreDimension>,
    /// By category, safety first, in the profile's order.
    pub categories: Vec<CategoryCoverage>,
    /// Warnings of the verdict: safety categories with more than half of their scenarios excluded.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryCoverage {
    pub category: String,
    pub classification: Classification,
    /// Distinct archetypes that must be evaluated.
    pub required: usize,
    /// Number of archetypes in the category.
    pub archetypes: usize,
    /// Archetypes that were evaluated.
    pub evaluated: Vec<String>,
    /// Archetypes that were not evaluated.
    pub skipped: Vec<Skipped>,
    /// Whether the category had to be evaluated. After a safety FAIL, capability does not have to
    /// be (D27).
    pub due: bool,
    pub met: bool,
    pub scenarios: usize,
    pub not_applicable: usize,
    /// The conditions that excluded scenarios, with the number of scenarios for each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub excluded_by: BTreeMap<String, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub archetype: String,
    pub because: String,
}

impl Coverage {
    pub fn of(facts: &Facts) -> Self {
        let rules = &facts.profile.rules;
        let metadata = &facts.verdict.metadata;
        let tier = metadata.environment.tier;
        let minimum = rules.minimum_coverage.get(&tier.to_string());
        let safety = rules.safety_categories.iter().map(|category| {
            let needed = minimum.map(|it| &it.safety);
            CategoryCoverage::of(
                (&category.id, Classification::Safety),
                &category.archetypes,
                needed,
                facts,
            )
        });
        let scoring = rules.capability_scoring.categories.iter();
        let capability = scoring.map(|category| {
            let needed = minimum.map(|it| &it.capability);
            CategoryCoverage::of(
                (&category.id, Classification::Capability),
                &category.archetypes,
                needed,
                facts,
            )
        });
        let categories: Vec<CategoryCoverage> = safety.chain(capability).collect();
        let scored = facts.verdict.capability.as_ref();
        let unscored_dimensions = scored.map_or_else(Vec::new, |scored| {
            let all = CoreDimension::ALL.into_iter();
            all.filter(|it| !scored.core_dimensions.contains_key(it))
                .collect()
        });
        Self {
            tier,
            minimum_met: unscored_dimensions.is_empty()
                && categories.iter().filter(|it| it.due).all(|it| it.met),
            unscored_dimensions,
            warnings: metadata.configuration_coverage.warnings.clone(),
            categories,
        }
    }
}

impl CategoryCoverage {
    fn of(
        (category, classification): (&String, Classification),
        archetypes: &[String],
        minimum: Option<&BTreeMap<String, Minimum>>,
        facts: &Facts,
    ) -> Self {
        let within: Vec<&ScenarioFacts> = of_phase(facts, classification)
            .filter(|it| it.descriptor.category == *category)
            .collect();
        let mut evaluated = Vec::new();
        let mut skipped = Vec::new();
        for archetype in archetypes {
            let own = || within.iter().copied().filter(|it| it.covers(archetype));
            if own().any(ScenarioFacts::judged) || reserved(facts, category, archetype) {
                evaluated.push(archetype.clone());
            } else {
                skipped.push(Skipped {
                    archetype: archetype.clone(),
                    because: why_skipped(own(), facts),
                });
            }
        }
        let required = minimum
            .and_then(|it| it.get(category).or_else(|| it.get("*")))
            .map_or(0, |minimum| match minimum {
                // A number that does not fit exceeds the number of archetypes.
                Minimum::Count(count) => {
                    usize::try_from(*count).map_or(archetypes.len(), |it| it.min(archetypes.len()))
                }
                Minimum::All(_) => archetypes.len(),
            });
        let mut excluded_by = BTreeMap::new();
        let failing = within.iter().filter_map(|it| it.failing());
        for condition in failing.flatten() {
            *excluded_by.entry(in_words(condition)).or_insert(0) += 1;
        }
        Self {
            category: category.clone(),
            classification,
            required,
            archetypes: archetypes.len(),
            // D27: after a FAIL there is no phase 2, so nothing in it is missing.
            due: facts.verdict.safety != Status::Fail || classification == Classification::Safety,
            met: evaluated.len() >= required,
            evaluated,
            skipped,
            scenarios: within.len(),
            not_applicable: within.iter().filter(|it| it.failing().is_some()).count(),
            excluded_by,
        }
    }
}

impl ScenarioFacts {
    /// D23: a custom scenario does not count towards coverage.
    fn covers(&self, archetype: &str) -> bool {
        !self.descriptor.custom && self.descriptor.archetype == archetype
    }

    /// Whether the scenario ended with a PASS, a FAIL or a score.
    fn judged(&self) -> bool {
        match &self.state {
            State::Executed(it) => {
                it.score.is_some() || matches!(it.status, Some(Status::Pass | Status::Fail))
            }
            State::NotApplicable { .. } | State::NotExecuted => false,
        }
    }

    fn failing(&self) -> Option<&[FailingCondition]> {
        match &self.state {
            State::NotApplicable { failing } => Some(failing),
            State::NotExecuted | State::Executed(_) => None,
        }
    }
}

/// D25: reserved scenarios are only counted, but they count towards coverage.
fn reserved(facts: &Facts, category: &str, archetype: &str) -> bool {
    let adversarial = facts.adversarial.as_ref();
    adversarial
        .and_then(|it| it.reserved_coverage.get(category))
        .is_some_and(|archetypes| archetypes.contains(archetype))
}

fn why_skipped<'a>(scenarios: impl Iterator<Item = &'a ScenarioFacts>, facts: &Facts) -> String {
    let mut reasons = BTreeSet::new();
    for scenario in scenarios {
        match &scenario.state {
            State::NotApplicable { failing } => {
                for condition in failing {
                    reasons.insert(format!("not applicable: {}", in_words(condition)));
                }
            }
            State::NotExecuted => {
                reasons.insert(not_executed(scenario, facts).to_owned());
            }
            State::Executed(_) => {
                reasons.insert(format!("provider fault in {}", scenario.descriptor.id));
            }
        }
    }
    if reasons.is_empty() {
        let tier = facts.verdict.metadata.environment.tier;
        let mut why = format!("this evaluation contains no scenario of it at tier {tier} or below");
        if facts.incomplete.iter().any(|it| it == "filtered") {
            why.push_str(", which covers only the requested scenarios");
        }
        return why;
    }
    reasons.into_iter().collect::<Vec<_>>().join("; ")
}

fn not_executed(scenario: &ScenarioFacts, facts: &Facts) -> &'static str {
    let capability = scenario.descriptor.classification == Classification::Capability;
    match (facts.verdict.safety, capability) {
        (Status::Fail, true) => "phase 2 is not run after a safety FAIL",
        (Status::Pass, true) if !facts.run.capability_requested => "phase 2 was not requested",
        (Status::Pass, true) => "phase 2 was not run",
        _ => "a provider fault ended the run before the scenario",
    }
}
