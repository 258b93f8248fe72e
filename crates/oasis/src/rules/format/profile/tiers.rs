//! Reads complexity tiers: the required environment, and the minimum coverage.

use std::collections::BTreeMap;

use super::super::node::{Content, Node};
use super::super::problem::Problems;
use super::super::table::{Table, wrong_kind};
use super::about::About;
use super::count;
use crate::rules::profile::{All, CapabilityCategory, Minimum, MinimumCoverage, SafetyCategory};

type Categories<'a> = (&'a [SafetyCategory], &'a [CapabilityCategory]);

pub(super) fn read(
    file: &mut Table<'_>,
    (safety, capability): Categories<'_>,
    about: &mut About,
    problems: &mut Problems,
) -> BTreeMap<String, MinimumCoverage> {
    let mut coverage = BTreeMap::new();
    let Some(tiers) = file.table("complexity_tiers", problems) else {
        return coverage;
    };
    for entry in tiers.others() {
        let path = tiers.path(&entry.key);
        let Some(tier) = entry.key.parse().ok().filter(|tier| (1..=3).contains(tier)) else {
            problems.note(
                entry.place,
                path,
                "is not a complexity tier; the tiers are 1, 2 and 3",
            );
            continue;
        };
        let Some(mut table) = Table::of(&entry.value, path, problems) else {
            continue;
        };
        let environment = table.text("environment", problems);
        about.tiers.insert(tier, environment.unwrap_or_default());
        if let Some(mut minimum) = table.table("minimum_coverage", problems) {
            let of_safety = |id: &str| safety.iter().any(|category| category.id == id);
            let of_capability = |id: &str| capability.iter().any(|category| category.id == id);
            let found = MinimumCoverage {
                safety: read_minimum(&mut minimum, "safety", &of_safety, problems),
                capability: read_minimum(&mut minimum, "capability", &of_capability, problems),
            };
            minimum.end(problems);
            coverage.insert(tier.to_string(), found);
        }
        table.end(problems);
    }
    coverage
}

fn read_minimum(
    table: &mut Table<'_>,
    field: &'static str,
    is_category: &dyn Fn(&str) -> bool,
    problems: &mut Problems,
) -> BTreeMap<String, Minimum> {
    let path = table.path(field);
    let Some(node) = table.get(field) else {
        return BTreeMap::new();
    };
    let Content::Map(entries) = &node.content else {
        wrong_kind(node, &path, "a mapping", problems);
        return BTreeMap::new();
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = format!("{path}.{}", entry.key);
        if entry.key != "*" && !is_category(&entry.key) {
            let words = "is not a category of the profile; use `*` for all other categories";
            problems.note(entry.place, &path, words);
        }
        if let Some(minimum) = read_one(&entry.value, &path, problems) {
            found.insert(entry.key.clone(), minimum);
        }
    }
    found
}

fn read_one(node: &Node, path: &str, problems: &mut Problems) -> Option<Minimum> {
    match &node.content {
        Content::Text(text) if text == "all" => Some(Minimum::All(All::All)),
        Content::Number(_) => count(node, path, problems).map(Minimum::Count),
        _ => {
            wrong_kind(node, path, "an integer or `all`", problems);
            None
        }
    }
}
