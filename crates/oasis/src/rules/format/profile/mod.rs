//! Reads `profile.yaml` (OASIS Prof 2): the parts that verdicts depend on, and the parts that only
//! a report needs.

mod about;
mod categories;
mod dimensions;
mod tiers;

use std::collections::BTreeSet;

pub use self::about::{About, CategoryNote, Term};
use super::node::{Content, Node, SourcePosition};
use super::problem::Problems;
use super::table::Table;
use crate::rules::configuration::ConfigurationSchema;
use crate::rules::profile::{CapabilityScoring, Profile};
use crate::rules::scenario::Classification;
use crate::rules::version_range::VersionRange;

/// The contents of `profile.yaml`.
pub(super) struct ParsedProfile {
    pub profile: Profile,
    pub about: About,
    /// The file with the provider contract.
    pub contract: Option<String>,
    /// The measures that scenarios may name.
    pub measures: BTreeSet<String>,
    /// The classifications whose scenarios need an intent.
    pub intent_required: BTreeSet<Classification>,
}

/// Reads the document and reports its problems; `None` if they prevent a result.
pub(super) fn read(node: &Node, problems: &mut Problems) -> Option<ParsedProfile> {
    let mut file = Table::of(node, "", problems)?;
    let mut about = About::default();
    let metadata = file
        .table("metadata", problems)
        .map(|table| read_metadata(table, &mut about, problems));
    about::read(&mut file, &mut about, problems);
    let dimensions = dimensions::read(&mut file, problems);
    let intent_required = read_validation(&mut file, problems);
    let safety_categories = categories::read_safety(&mut file, &mut about, problems);
    let subcategories = categories::read_subcategories(&mut file, &safety_categories, problems);
    let categories = categories::read_capability(&mut file, problems);
    let known = (safety_categories.as_slice(), categories.as_slice());
    let minimum_coverage = tiers::read(&mut file, known, &mut about, problems);
    let measures = read_measures(&mut file, problems);
    file.end(problems);
    // A missing field is noted and rejects the profile. Reading continues, so that all problems are
    // reported at once.
    let metadata = metadata.unwrap_or_default();
    Some(ParsedProfile {
        profile: Profile {
            identifier: metadata.identifier,
            name: metadata.name,
            version: metadata.version,
            oasis_core_dependency: metadata.dependency,
            agent_configuration_schema: ConfigurationSchema { dimensions },
            safety_categories,
            subcategories,
            capability_scoring: CapabilityScoring { categories },
            minimum_coverage,
        },
        about,
        contract: metadata.contract,
        measures,
        intent_required,
    })
}

#[derive(Default)]
struct Metadata {
    identifier: String,
    name: String,
    version: String,
    dependency: Option<String>,
    contract: Option<String>,
}

fn read_metadata(mut table: Table<'_>, about: &mut About, problems: &mut Problems) -> Metadata {
    let name = table.text("name", problems);
    let identifier = table.text("identifier", problems);
    let version = table.text("version", problems);
    if version
        .as_deref()
        .is_some_and(|version| semver::Version::parse(version).is_err())
    {
        let words = "is not a semantic version; write `1.2.3` or `1.2.3-rc1.4`";
        problems.note(table.place_of("version"), table.path("version"), words);
    }
    let dependency = table.maybe_text("oasis_core_dependency", problems);
    if dependency
        .as_deref()
        .is_some_and(|range| VersionRange::parse(range).is_err())
    {
        let field = "oasis_core_dependency";
        let words = "is not a version range; write `>=` and a semantic version";
        problems.note(table.place_of(field), table.path(field), words);
    }
    about.description = table
        .maybe_text("description", problems)
        .unwrap_or_default();
    about.external_systems = table.texts("external_systems", problems);
    let contract = table.maybe_text("conformance_contract", problems);
    about.custom_scenarios = table
        .maybe_flag("custom_scenarios", problems)
        .unwrap_or_default();
    let path = table.path("reserved_scenarios");
    about.reserved_scenarios = table
        .get("reserved_scenarios")
        .and_then(|node| count(node, &path, problems))
        .unwrap_or_default();
    table.end(problems);
    Metadata {
        identifier: identifier.unwrap_or_default(),
        name: name.unwrap_or_default(),
        version: version.unwrap_or_default(),
        dependency,
        contract,
    }
}

/// Reads a non-negative integer.
fn count(node: &Node, path: &str, problems: &mut Problems) -> Option<u32> {
    let number = match &node.content {
        Content::Number(number) => number.as_u64(),
        _ => None,
    };
    let count = number.and_then(|number| u32::try_from(number).ok());
    if count.is_none() {
        problems.note(node.place, path, "must be an integer, 0 or more");
    }
    count
}

fn read_validation(file: &mut Table<'_>, problems: &mut Problems) -> BTreeSet<Classification> {
    let mut required = BTreeSet::new();
    let Some(mut table) = file.maybe_table("profile_validation", problems) else {
        return required;
    };
    if let Some(mut intent) = table.maybe_table("intent", problems) {
        for name in intent.texts("required_for", problems) {
            match name.as_str() {
                "safety" => required.insert(Classification::Safety),
                "capability" => required.insert(Classification::Capability),
                _ => {
                    let path = intent.path("required_for");
                    let words = "may only contain `safety` and `capability`";
                    problems.note(intent.place_of("required_for"), path, words);
                    false
                }
            };
        }
        intent.texts("recommended_for", problems);
        intent.end(problems);
    }
    table.end(problems);
    required
}

/// Reads the names of the measures; their definitions are built in.
fn read_measures(file: &mut Table<'_>, problems: &mut Problems) -> BTreeSet<String> {
    let Some(table) = file.maybe_table("deviation_measures", problems) else {
        return BTreeSet::new();
    };
    table.others().map(|entry| entry.key.clone()).collect()
}

/// Ids that must be unique.
#[derive(Default)]
struct Unique(BTreeSet<String>);

impl Unique {
    fn take(&mut self, id: &str, (place, path): (SourcePosition, String), problems: &mut Problems) {
        if !self.0.insert(id.to_owned()) {
            let words = format!("`{id}` is used twice; rename one");
            problems.note(place, path, words);
        }
    }
}
