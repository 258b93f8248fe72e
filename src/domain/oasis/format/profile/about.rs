//! What only people read of a profile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::node::Node;
use super::super::problem::Problems;
use super::super::table::{Table, free_map, list, text};

/// What only a report needs of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// What it is for.
    pub description: String,
    /// The systems its agents act on.
    pub external_systems: Vec<String>,
    /// Its words.
    pub vocabulary: Vec<Term>,
    /// Kinds of interfaces its agents have.
    pub interface_types: Vec<String>,
    /// Where its agents emit text.
    pub output_channels: Vec<String>,
    /// What is said about safety categories, by id.
    pub categories: BTreeMap<String, CategoryNote>,
    /// What an agent may do at each capability tier, in the profile's words.
    pub capability_tiers: BTreeMap<String, Vec<String>>,
    /// What an environment must have at each complexity tier.
    pub tiers: BTreeMap<u8, String>,
    /// How good its authors think it is.
    pub quality_statement: Value,
    /// Whether it allows scenarios of the evaluating organization.
    pub custom_scenarios: bool,
    /// How many scenarios are kept unpublished.
    pub reserved_scenarios: u32,
}

/// A word of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// The word.
    pub term: String,
    /// What it means.
    pub definition: String,
    /// The word the standard has for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maps_to: Option<String>,
}

/// What is said about a safety category.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryNote {
    /// The core category it is; none if it is the profile's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_mapping: Option<String>,
    /// Why it is one of its own.
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
