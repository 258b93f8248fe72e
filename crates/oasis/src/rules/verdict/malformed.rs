//! The format rules that concern the head of a scenario (OASIS.md sections 4, 6 and 14). Each
//! scenario at fault is reported once.
//!
//! A suite is validated as a whole, including scenarios above the claimed tier. Only the check for
//! conflicting conditional blocks is limited to selected scenarios, because the others are never
//! combined with a configuration.

use std::collections::BTreeMap;

use super::super::configuration::Configuration;
use super::super::profile::Profile;
use super::super::refusal::RefusalItem;
use super::super::scenario::{Classification, Descriptor};
use super::plan::{Terms, task_id, tolerance};

/// All items at fault, in suite order.
pub(super) fn items(
    profile: &Profile,
    scenarios: &[Descriptor],
    terms: &Terms,
    configuration: &Configuration,
) -> Vec<RefusalItem> {
    let mut tasks: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for scenario in scenarios {
        tasks
            .entry(task_id(&scenario.id))
            .or_default()
            .push(&scenario.id);
    }
    let mut items: Vec<RefusalItem> = Vec::new();
    for scenario in scenarios {
        let mut reasons = of_one(profile, scenario, terms);
        if scenario.tier <= terms.tier {
            reasons.extend(ambiguous(scenario, configuration));
        }
        let task = task_id(&scenario.id);
        let same = tasks.get(&task).map(Vec::as_slice).unwrap_or_default();
        if same.iter().filter(|id| **id == scenario.id).count() > 1 {
            reasons.push("its id occurs in the suite more than once".to_owned());
        }
        if let Some(other) = same.iter().find(|id| **id != scenario.id) {
            reasons.push(format!("its `taskId` `{task}` is also used by {other}"));
        }
        if !reasons.is_empty() && items.iter().all(|it| it.key != scenario.id) {
            items.push(RefusalItem {
                key: scenario.id.clone(),
                reason: reasons.join("; "),
            });
        }
    }
    items
}

fn of_one(profile: &Profile, scenario: &Descriptor, terms: &Terms) -> Vec<String> {
    let mut reasons = Vec::new();
    if !is_id(&scenario.id) {
        reasons.push(
            "its id contains characters other than letters, digits, `.`, `_` and `-`".to_owned(),
        );
    }
    if !(1..=3).contains(&scenario.tier) {
        reasons.push("its tier is not 1, 2 or 3".to_owned());
    }
    let allowed = [scenario.safety_tolerance, tolerance(scenario, terms)];
    if !allowed.iter().all(|it| (0.0..=100.0).contains(it)) {
        reasons.push("its tolerance is not between 0 and 100 percent".to_owned());
    } else if allowed.iter().any(|it| *it > 0.0) && scenario.deviation_measure.is_none() {
        reasons.push("a tolerance above 0 needs a `deviation_measure`".to_owned());
    }
    // Scenarios that an organization adds may be outside the categories of the profile: they
    // neither count towards coverage nor are they aggregated (D23).
    if !scenario.custom {
        reasons.extend(misplaced(profile, scenario));
    }
    reasons
}

fn misplaced(profile: &Profile, scenario: &Descriptor) -> Option<String> {
    let category = &scenario.category;
    let Some(archetypes) = archetypes(profile, scenario.classification, category) else {
        return Some(format!("the profile has no such category: {category}"));
    };
    if !archetypes.contains(&scenario.archetype) {
        return Some(format!(
            "{category} has no such archetype: {}",
            scenario.archetype
        ));
    }
    let subcategory = scenario.subcategory.as_ref()?;
    let stands_there = profile
        .subcategories
        .iter()
        .any(|it| it.identifier == *subcategory && it.parents.contains(category));
    (!stands_there).then(|| format!("{category} has no such subcategory: {subcategory}"))
}

/// The archetypes of a category of the profile.
pub(super) fn archetypes<'a>(
    profile: &'a Profile,
    phase: Classification,
    category: &str,
) -> Option<&'a [String]> {
    match phase {
        Classification::Safety => {
            let found = profile
                .safety_categories
                .iter()
                .find(|it| it.id == category)?;
            Some(&found.archetypes)
        }
        Classification::Capability => {
            let all = &profile.capability_scoring.categories;
            let found = all.iter().find(|it| it.id == category)?;
            Some(&found.archetypes)
        }
    }
}

/// Two matching blocks would both be merged, and their precedence is undefined.
fn ambiguous(scenario: &Descriptor, configuration: &Configuration) -> Option<String> {
    let holding = scenario
        .conditional
        .iter()
        .filter(|it| it.when.hold(configuration))
        .count();
    (holding > 1)
        .then(|| format!("{holding} of its conditional blocks hold for this configuration"))
}

/// Whether a verdict can contain the id.
fn is_id(id: &str) -> bool {
    id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || b"._-".contains(&it))
}
