//! Reads categories, archetypes and subcategories, and how capability is scored.

use std::collections::BTreeMap;

use super::super::node::{Content, Node};
use super::super::problem::Problems;
use super::super::table::{Table, number, wrong_kind};
use super::Unique;
use super::about::{About, CategoryNote};
use crate::rules::profile::{
    Aggregation, CapabilityCategory, CoreDimension, SafetyCategory, Subcategory, is_weight,
};

const DIMENSIONS: [(&str, CoreDimension); 4] = [
    ("task_completion", CoreDimension::TaskCompletion),
    ("reliability", CoreDimension::Reliability),
    ("reasoning", CoreDimension::Reasoning),
    ("auditability", CoreDimension::Auditability),
];

#[derive(Clone, Copy)]
enum Method {
    WeightedAverage,
    Minimum,
}

pub(super) fn read_safety(
    file: &mut Table<'_>,
    about: &mut About,
    problems: &mut Problems,
) -> Vec<SafetyCategory> {
    let mut categories = Vec::new();
    let Some(mut table) = file.table("safety_scoring", problems) else {
        return categories;
    };
    let path = table.path("safety_tolerance");
    let tolerance = table.get("safety_tolerance");
    if tolerance.is_some_and(|node| number(node, &path, problems).is_some_and(|it| it != 0.0)) {
        let words = "must be 0; set a tolerance in the scenarios that need one";
        problems.note(table.place_of("safety_tolerance"), path, words);
    }
    let mut ids = (Unique::default(), Unique::default());
    for mut entry in table.tables("categories", problems) {
        let id = read_id(&mut entry, &mut ids.0, problems);
        let note = CategoryNote {
            core_mapping: entry.maybe_text("core_mapping", problems),
            justification: entry.maybe_text("justification", problems),
        };
        let archetypes = read_archetypes(&mut entry, &mut ids.1, problems);
        entry.end(problems);
        if let Some(id) = id {
            about.categories.insert(id.clone(), note);
            categories.push(SafetyCategory { id, archetypes });
        }
    }
    table.end(problems);
    categories
}

fn read_id(table: &mut Table<'_>, ids: &mut Unique, problems: &mut Problems) -> Option<String> {
    let id = table.text("id", problems)?;
    ids.take(&id, (table.place_of("id"), table.path("id")), problems);
    Some(id)
}

fn read_archetypes(
    table: &mut Table<'_>,
    ids: &mut Unique,
    problems: &mut Problems,
) -> Vec<String> {
    table.need("archetypes", problems);
    let archetypes = table.texts("archetypes", problems);
    for id in &archetypes {
        let at = (table.place_of("archetypes"), table.path("archetypes"));
        ids.take(id, at, problems);
    }
    archetypes
}

pub(super) fn read_subcategories(
    file: &mut Table<'_>,
    categories: &[SafetyCategory],
    problems: &mut Problems,
) -> Vec<Subcategory> {
    let mut subcategories = Vec::new();
    let mut ids = Unique::default();
    for mut table in file.tables("subcategories", problems) {
        let identifier = table.text("identifier", problems);
        let parents = table.texts("parents", problems);
        let description = table.maybe_text("description", problems);
        let (place, path) = (table.place_of("parents"), table.path("parents"));
        if parents.is_empty() {
            problems.note(place, &path, "has no category; add at least one");
        }
        for parent in &parents {
            if !categories.iter().any(|category| category.id == *parent) {
                let words = format!("`{parent}` is not a safety category of the profile");
                problems.note(place, &path, words);
            }
        }
        if let Some(identifier) = identifier {
            let at = (table.place_of("identifier"), table.path("identifier"));
            ids.take(&identifier, at, problems);
            subcategories.push(Subcategory {
                identifier,
                parents,
                description: description.unwrap_or_default(),
            });
        }
        table.end(problems);
    }
    subcategories
}

pub(super) fn read_capability(
    file: &mut Table<'_>,
    problems: &mut Problems,
) -> Vec<CapabilityCategory> {
    let mut categories = Vec::new();
    let Some(mut table) = file.table("capability_scoring", problems) else {
        return categories;
    };
    read_dimensions(&mut table, "core_dimensions", problems);
    let mut ids = (Unique::default(), Unique::default());
    for mut entry in table.tables("categories", problems) {
        let id = read_id(&mut entry, &mut ids.0, problems);
        let archetypes = read_archetypes(&mut entry, &mut ids.1, problems);
        let maps_to_dimensions = read_dimensions(&mut entry, "maps_to_dimensions", problems);
        let dimension_weights = read_weights(&mut entry, "dimension_weights", problems)
            .into_iter()
            .filter_map(|(name, weight)| {
                let known = DIMENSIONS.iter().find(|(known, _)| *known == name);
                if known.is_none() {
                    let words = format!("`{name}` is not a core dimension");
                    let path = entry.path("dimension_weights");
                    problems.note(entry.place_of("dimension_weights"), path, words);
                }
                known.map(|(_, dimension)| (*dimension, weight))
            })
            .collect();
        let aggregation = read_aggregation(&mut entry, &archetypes, problems);
        entry.end(problems);
        if let (Some(id), Some(aggregation)) = (id, aggregation) {
            categories.push(CapabilityCategory {
                id,
                archetypes,
                maps_to_dimensions,
                dimension_weights,
                aggregation,
            });
        }
    }
    table.end(problems);
    categories
}

fn read_dimensions(
    table: &mut Table<'_>,
    field: &'static str,
    problems: &mut Problems,
) -> Vec<CoreDimension> {
    let mut found = Vec::new();
    for name in table.texts(field, problems) {
        match DIMENSIONS.iter().find(|(known, _)| *known == name) {
            Some((_, dimension)) => found.push(*dimension),
            None => {
                let words = format!("`{name}` is not a core dimension");
                problems.note(table.place_of(field), table.path(field), words);
            }
        }
    }
    found
}

/// Non-negative numbers by name.
fn read_weights(
    table: &mut Table<'_>,
    field: &'static str,
    problems: &mut Problems,
) -> BTreeMap<String, f64> {
    let path = table.path(field);
    match table.get(field) {
        None => BTreeMap::new(),
        Some(node) => weights(node, &path, problems),
    }
}

fn weights(node: &Node, path: &str, problems: &mut Problems) -> BTreeMap<String, f64> {
    let Content::Map(entries) = &node.content else {
        wrong_kind(node, path, "a mapping", problems);
        return BTreeMap::new();
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = format!("{path}.{}", entry.key);
        if let Some(weight) = number(&entry.value, &path, problems) {
            if !is_weight(weight) {
                problems.note(entry.value.place, &path, "must be from 0 to 1000000");
            }
            found.insert(entry.key.clone(), weight);
        }
    }
    found
}

fn read_aggregation(
    category: &mut Table<'_>,
    archetypes: &[String],
    problems: &mut Problems,
) -> Option<Aggregation> {
    let mut table = category.table("aggregation", problems)?;
    let methods = [
        ("weighted_average", Method::WeightedAverage),
        ("minimum", Method::Minimum),
    ];
    let method = table.word("method", &methods, problems);
    let aggregation = match method? {
        Method::Minimum => Aggregation::Minimum,
        Method::WeightedAverage => {
            let archetype_weights = read_weights(&mut table, "archetype_weights", problems);
            for name in archetype_weights.keys() {
                if !archetypes.contains(name) {
                    let words = format!("`{name}` is not an archetype of the category");
                    let path = table.path("archetype_weights");
                    problems.note(table.place_of("archetype_weights"), path, words);
                }
            }
            Aggregation::WeightedAverage { archetype_weights }
        }
    };
    table.end(problems);
    Some(aggregation)
}
