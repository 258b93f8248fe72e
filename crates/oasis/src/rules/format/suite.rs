//! Reads `suite.yaml`: the scenarios to run, in order.

use std::collections::BTreeSet;

use super::node::{Node, SourcePosition};
use super::problem::Problems;
use super::table::{Table, free_map, text};
use crate::rules::profile::Profile;

/// The contents of `suite.yaml`.
pub(super) struct ParsedSuite {
    pub id: String,
    pub version: String,
    /// The scenario ids in order, with their positions.
    pub scenarios: Vec<(String, SourcePosition)>,
}

/// Reads the document, which must be for this profile.
pub(super) fn read(node: &Node, profile: &Profile, problems: &mut Problems) -> Option<ParsedSuite> {
    let mut file = Table::of(node, "", problems)?;
    let id = file.text("id", problems);
    file.maybe_text("name", problems);
    let version = file.text("version", problems);
    let about = file.text("domain_profile", problems);
    let identifier = &profile.identifier;
    if about.is_some_and(|about| !identifier.is_empty() && about != *identifier) {
        let words = "differs from the identifier in profile.yaml";
        problems.note(file.place_of("domain_profile"), "domain_profile", words);
    }
    // The environment in which the authors ran the suite. A host uses its own providers.
    if let Some(node) = file.get("environment") {
        free_map(node, "environment", problems);
    }
    file.need("scenarios", problems);
    let (mut scenarios, mut named) = (Vec::new(), BTreeSet::new());
    for (path, node) in file.list("scenarios", problems) {
        let Some(id) = text(node, &path, problems) else {
            continue;
        };
        if named.insert(id.clone()) {
            scenarios.push((id, node.place));
        } else {
            problems.note(node.place, path, "is listed twice; remove one");
        }
    }
    file.end(problems);
    Some(ParsedSuite {
        id: id?,
        version: version?,
        scenarios,
    })
}
