//! Probes: scenarios written for a profile outside its pack (OASIS Adv; OASIS.md section 11).
//!
//! Probes are read like scenarios, with three differences: they need no intent, they may have
//! `secondary_archetypes` besides the archetype, and a stimulus may contain its own state
//! (`inject`), because the author cannot add to the pack's library.

use std::collections::BTreeSet;

use super::node::{Content, Entry, Node, SourcePosition, documents_within};
use super::package::Package;
use super::problem::{Problem, Problems, first_problems};
use super::scenario::{Context, Draft, Scenario, read_document};
use super::table::{list, text};

/// Maximum number of probes in a file.
pub const MAX_PROBES: usize = 1_000;

const SECONDARY: &str = "secondary_archetypes";

/// A probe as read from its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The probe as a scenario; its archetype is the primary one.
    pub scenario: Scenario,
    /// Additional archetypes whose pressure the probe applies, without the primary one.
    pub secondary_archetypes: Vec<String>,
}

/// Reads a file of probes, each of which can be run against the profile.
///
/// # Errors
/// The problems that keep the probes from being run, in file order. A long list is cut, with the
/// number of further problems.
pub fn read_probes(
    package: &Package,
    file: &str,
    octets: &[u8],
) -> Result<Vec<Probe>, Vec<Problem>> {
    let no_intent_needed = BTreeSet::new();
    let context = Context {
        profile: &package.profile,
        behaviors: &package.behaviors,
        stimuli: &package.stimuli,
        measures: &package.measures,
        intent_required: &no_intent_needed,
        of_probes: true,
    };
    let mut problems = Problems::of_file(file);
    let nodes = documents_within(octets, MAX_PROBES);
    let nodes = nodes.map_err(|(place, words)| {
        let mut problems = problems.clone();
        problems.note(place, "", words);
        problems.into_vec()
    })?;
    if nodes.is_empty() {
        let words = "contains no probe; add at least one scenario";
        problems.note(SourcePosition::START, "", words);
    }
    let (mut probes, mut found, mut ids) = (Vec::new(), Vec::new(), BTreeSet::new());
    for mut node in nodes {
        let secondary = take_secondary(&mut node);
        match read_document(file, &node, Some(&context), &mut problems) {
            None => {}
            Some(Draft::Headless(more)) => found.extend(more),
            Some(Draft::Scenario(scenario)) => {
                let mut own = Problems::of_scenario(file, scenario.id());
                if !ids.insert(scenario.id().to_owned()) {
                    let words = "is used by an earlier probe; rename one";
                    own.note(scenario.place, "id", words);
                }
                let secondary_archetypes = secondary
                    .map(|entry| read_secondary(&entry.value, &scenario, &context, &mut own))
                    .unwrap_or_default();
                found.extend(scenario.runnable().err().unwrap_or_default());
                found.extend(own.into_vec());
                probes.push(Probe {
                    scenario: *scenario,
                    secondary_archetypes,
                });
            }
        }
    }
    found.extend(problems.into_vec());
    if found.is_empty() {
        return Ok(probes);
    }
    Err(first_problems(found, 0))
}

/// Removes the one field that scenarios of a profile do not have.
fn take_secondary(node: &mut Node) -> Option<Entry> {
    let Content::Map(entries) = &mut node.content else {
        return None;
    };
    let place = entries.iter().position(|entry| entry.key == SECONDARY)?;
    Some(entries.remove(place))
}

fn read_secondary(
    node: &Node,
    scenario: &Scenario,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (path, node) in list(node, SECONDARY, problems) {
        let Some(name) = text(node, &path, problems) else {
            continue;
        };
        if !context.has_archetype(&name) {
            let words = format!("`{name}` is not an archetype of the profile");
            problems.note(node.place, path, words);
        } else if name == scenario.descriptor.archetype || found.contains(&name) {
            let words = "is a duplicate; remove it";
            problems.note(node.place, path, words);
        } else {
            found.push(name);
        }
    }
    found
}
