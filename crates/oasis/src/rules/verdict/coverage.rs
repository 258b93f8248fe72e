//! Which archetypes were evaluated, compared with the profile's minimum (OASIS.md section 8, D22).

use std::collections::{BTreeMap, BTreeSet};

use super::super::outcome::Outcome;
use super::super::profile::{All, Minimum, MinimumCoverage};
use super::super::scenario::Classification;
use super::adversarial::ReservedResult;
use super::document::Status;
use super::gate;
use super::number::count;
use super::plan::Plan;
use super::progress::Outcomes;

/// The key for every category without a separate minimum.
const EVERY: &str = "*";

/// A category and one of its archetypes.
type Place<'a> = (&'a str, &'a str);

/// Coverage of both phases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoverageFound {
    pub safety: BTreeMap<String, CategoryCoverage>,
    pub capability: BTreeMap<String, CategoryCoverage>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CategoryCoverage {
    /// Archetypes that must be evaluated.
    pub required: u64,
    /// Archetypes that were evaluated.
    pub evaluated: u64,
}

impl CategoryCoverage {
    pub const fn is_met(self) -> bool {
        self.evaluated >= self.required
    }
}

impl CoverageFound {
    /// Computes the coverage by these outcomes and by unpublished scenarios (D25).
    pub(super) fn of(plan: &Plan, outcomes: &Outcomes<'_>, reserved: &[ReservedResult]) -> Self {
        let minimum = plan.profile.minimum_coverage.get(&plan.tier.to_string());
        let nothing = MinimumCoverage::default();
        let minimum = minimum.unwrap_or(&nothing);
        let safety = plan.profile.safety_categories.iter();
        let capability = plan.profile.capability_scoring.categories.iter();
        Self {
            safety: by_category(
                safety.map(|it| (it.id.as_str(), it.archetypes.as_slice())),
                &minimum.safety,
                &evaluated(plan, Classification::Safety, outcomes, reserved),
            ),
            capability: by_category(
                capability.map(|it| (it.id.as_str(), it.archetypes.as_slice())),
                &minimum.capability,
                &evaluated(plan, Classification::Capability, outcomes, reserved),
            ),
        }
    }

    /// Whether each safety category reaches its minimum.
    pub fn safety_is_met(&self) -> bool {
        self.safety.values().all(|it| it.is_met())
    }

    /// Whether each category of both phases reaches its minimum. A surplus in one category does not
    /// compensate for another.
    pub fn is_met(&self) -> bool {
        self.safety_is_met() && self.capability.values().all(|it| it.is_met())
    }

    /// Capability archetypes required and evaluated, over all categories.
    pub(super) fn capability_totals(&self) -> CategoryCoverage {
        let mut totals = CategoryCoverage::default();
        for category in self.capability.values() {
            totals.required += category.required;
            totals.evaluated += category.evaluated;
        }
        totals
    }
}

fn by_category<'a>(
    categories: impl Iterator<Item = (&'a str, &'a [String])>,
    minimum: &BTreeMap<String, Minimum>,
    evaluated: &BTreeSet<Place<'_>>,
) -> BTreeMap<String, CategoryCoverage> {
    categories
        .map(|(category, archetypes)| {
            let known: BTreeSet<&str> = archetypes.iter().map(String::as_str).collect();
            let all = count(known.len());
            let required = match minimum.get(category).or_else(|| minimum.get(EVERY)) {
                None => 0,
                Some(Minimum::Count(n)) => u64::from(*n).min(all),
                Some(Minimum::All(All::All)) => all,
            };
            let evaluated = known
                .iter()
                .filter(|it| evaluated.contains(&(category, **it)));
            let evaluated = count(evaluated.count());
            (
                category.to_owned(),
                CategoryCoverage {
                    required,
                    evaluated,
                },
            )
        })
        .collect()
}

/// Archetypes with a result. Scenarios that do not apply and scenarios that an organization added
/// do not count (D23).
fn evaluated<'a>(
    plan: &'a Plan,
    phase: Classification,
    outcomes: &Outcomes<'_>,
    reserved: &'a [ReservedResult],
) -> BTreeSet<Place<'a>> {
    let own = plan
        .applicable(phase)
        .filter(|it| !it.descriptor.custom)
        .filter(|it| match phase {
            Classification::Safety => {
                matches!(
                    gate::status(it, outcomes),
                    Some(Status::Pass | Status::Fail)
                )
            }
            Classification::Capability => {
                matches!(outcomes.get(it.id()), Some(Outcome::Capability { .. }))
            }
        })
        .map(|it| {
            (
                it.descriptor.category.as_str(),
                it.descriptor.archetype.as_str(),
            )
        });
    let unpublished = ReservedResult::executed(reserved)
        .filter(|it| it.classification == phase)
        .map(|it| (it.category.as_str(), it.archetype.as_str()));
    own.chain(unpublished).collect()
}
