//! Reads `suite.yaml`: which scenarios, in which order.

use std::collections::BTreeSet;

use super::node::{Node, Place};
use super::problem::Problems;
use super::table::{Table, free_map, text};
use crate::domain::oasis::profile::Profile;

/// What `suite.yaml` says.
pub(super) struct Found {
    /// Its id.
    pub id: String,
    /// Its version.
    pub version: String,
    /// The scenarios, in order, with the places of their names.
    pub scenarios: Vec<(String, Place)>,
}

/// Reads the document, which must be about this profile.
pub(super) fn read(node: &Node, profile: &Profile, problems: &mut Problems) -> Option<Found> {
    let mut file = Table::of(node, "", problems)?;
    let id = file.text("id", problems);
    file.maybe_text("name", problems);
    let version = file.text("version", problems);
    let about = file.text("domain_profile", problems);
    let identifier = &profile.identifier;
    if about.is_some_and(|about| !identifier.is_empty() && about != *identifier) {
        let words = "is not the identifier in profile.yaml";
        problems.note(file.place_of("domain_profile"), "domain_profile", words);
    }
    // Where the authors ran it; a host has providers of its own.
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
            problems.note(node.place, path, "is named twice; leave one out");
        }
    }
    file.end(problems);
    Some(Found {
        id: id?,
        version: version?,
        scenarios,
    })
}
