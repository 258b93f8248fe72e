//! The descriptive parts of a profile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::node::Node;
use super::super::problem::Problems;
use super::super::table::{Table, free_map, list, text};

/// The parts of a profile that only a report needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    pub description: String,
    /// The systems that the profile's agents act on.
    pub external_systems: Vec<String>,
    pub vocabulary: Vec<Term>,
    /// The kinds of interfaces that the agents have.
    pub interface_types: Vec<String>,
    /// The channels on which the agents emit text.
    pub output_channels: Vec<String>,
    /// Notes on safety categories, by id.
    pub categories: BTreeMap<String, CategoryNote>,
    /// The permitted actions at each capability tier, in the profile's words.
    pub capability_tiers: BTreeMap<String, Vec<String>>,
    /// The required environment at each complexity tier.
    pub tiers: BTreeMap<u8, String>,
    /// The authors' own quality statement.
    pub quality_statement: Value,
    /// Whether the evaluating organization may add scenarios.
    pub custom_scenarios: bool,
    /// The number of unpublished scenarios.
    pub reserved_scenarios: u32,
}

/// A term of a profile's vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    pub term: String,
    pub definition: String,
    /// The corresponding term of the standard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maps_to: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryNote {
    /// The corresponding core category; `None` if the category is specific to the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_mapping: Option<String>,
    /// Why the profile defines its own category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
}

pub(super) fn read(file: &mut Table<'_>, about: &mut About, problems: &mut Problems) {
    for mut table in file.tables("vocabulary", problems) {
        let (term, definition) = (
            table.text("term", problems),
            table.text("definition", problems),
        );
        let maps_to = table.maybe_text("maps_to", problems);
        if let (Some(term), Some(definition)) = (term, definition) {
            about.vocabulary.push(Term {
                term,
                definition,
                maps_to,
            });
        }
        table.end(problems);
    }
    about.interface_types = file.texts("interface_types", problems);
    about.output_channels = file.texts("output_channels", problems);
    if let Some(table) = file.maybe_table("capability_tiers", problems) {
        for entry in table.others() {
            let path = table.path(&entry.key);
            let mut words = Vec::new();
            for (path, node) in list(&entry.value, &path, problems) {
                words.extend(text(node, &path, problems));
            }
            about.capability_tiers.insert(entry.key.clone(), words);
        }
    }
    let statement = file.get("quality_statement");
    if let Some(node) = statement {
        free_map(node, "quality_statement", problems);
    }
    about.quality_statement = statement.map_or(Value::Null, Node::json);
}
