//! Reads the provider contract (OASIS PC 3): the declarations that a provider must make before
//! anything runs.

use serde_json::Value;

use super::node::{Content, Node};
use super::problem::Problems;
use super::table::{Table, wrong_kind};
use crate::rules::preflight::{Requirement, RequirementKind, Requirements};
use crate::rules::profile::Profile;

/// How answers are compared, by name.
const KINDS: [(&str, RequirementKind); 5] = [
    ("string", RequirementKind::String),
    ("boolean", RequirementKind::Boolean),
    ("integer", RequirementKind::Integer),
    ("array", RequirementKind::Array),
    ("semver_list", RequirementKind::SemverList),
];

/// Reads the document, which must be for this profile.
pub(super) fn read(node: &Node, profile: &Profile, problems: &mut Problems) -> Requirements {
    let mut requirements = Requirements::new();
    let Some(mut file) = Table::of(node, "", problems) else {
        return requirements;
    };
    let dependency = file.maybe_text("oasis_core_dependency", problems);
    let told = [
        ("profile", Some(&profile.identifier)),
        ("profile_version", Some(&profile.version)),
    ];
    for (field, expected) in told {
        let found = file.text(field, problems);
        // Fields missing from profile.yaml are reported there.
        if expected.is_some_and(|expected| !expected.is_empty()) {
            agree(&file, field, (found.as_ref(), expected), problems);
        }
    }
    if dependency.is_some() && !profile.identifier.is_empty() {
        let both = (dependency.as_ref(), profile.oasis_core_dependency.as_ref());
        agree(&file, "oasis_core_dependency", both, problems);
    }
    let entries = file.table("requirements", problems);
    for entry in entries.iter().flat_map(|table| table.others()) {
        let path = format!("requirements.{}", entry.key);
        let table = Table::of(&entry.value, path, problems);
        let requirement = table.and_then(|table| read_one(table, problems));
        requirements.extend(requirement.map(|one| (entry.key.clone(), one)));
    }
    file.end(problems);
    requirements
}

fn agree(
    file: &Table<'_>,
    field: &str,
    (found, expected): (Option<&String>, Option<&String>),
    problems: &mut Problems,
) {
    if found.is_some() && found != expected {
        let words = "differs from profile.yaml; make both the same";
        problems.note(file.place_of(field), field, words);
    }
}

fn read_one(mut table: Table<'_>, problems: &mut Problems) -> Option<Requirement> {
    let kind = table.word("type", &KINDS, problems);
    let required = table.maybe_flag("required", problems).unwrap_or_default();
    let description = table.maybe_text("description", problems);
    let path = table.path("expected");
    let expected = table.get("expected");
    if let (Some(kind), Some(node)) = (kind, expected) {
        check_expected(kind, node, &path, problems);
    }
    table.end(problems);
    Some(Requirement {
        kind: kind?,
        required,
        expected: expected.map_or(Value::Null, Node::json),
        description: description.unwrap_or_default(),
    })
}

/// Checks `expected`, whose form depends on the type.
fn check_expected(kind: RequirementKind, node: &Node, path: &str, problems: &mut Problems) {
    let wanted = match (kind, &node.content) {
        (RequirementKind::String, Content::Text(_))
        | (RequirementKind::Boolean, Content::Flag(_))
        | (RequirementKind::Array, Content::List(_)) => return,
        (RequirementKind::SemverList, Content::Text(range)) => {
            let version = range.trim().strip_prefix(">=").map(str::trim);
            if version.is_none_or(|version| semver::Version::parse(version).is_err()) {
                problems.note(node.place, path, "must be `>=` and a semantic version");
            }
            return;
        }
        (RequirementKind::Integer, Content::Number(number)) if number.is_i64() => return,
        (RequirementKind::Integer, Content::Map(_)) => {
            return check_comparison(node, path, problems);
        }
        (RequirementKind::String, _) => "a string",
        (RequirementKind::Boolean, _) => "`true` or `false`",
        (RequirementKind::Array, _) => "a list",
        (RequirementKind::SemverList, _) => "a string, `>=` and a semantic version",
        (RequirementKind::Integer, _) => "an integer or a comparison",
    };
    wrong_kind(node, path, wanted, problems);
}

/// Checks `{comparison_operator: gte, value: requested}` or a number.
fn check_comparison(node: &Node, path: &str, problems: &mut Problems) {
    let Some(mut table) = Table::of(node, path, problems) else {
        return;
    };
    table.word("comparison_operator", &[("gte", ())], problems);
    let value = table.need("value", problems).map(|node| &node.content);
    let usable = match value {
        Some(Content::Text(text)) => text == "requested",
        Some(Content::Number(number)) => number.is_i64(),
        Some(_) => false,
        None => true,
    };
    if !usable {
        let words = "must be an integer or `requested`, which is the claimed tier";
        problems.note(table.place_of("value"), table.path("value"), words);
    }
    table.end(problems);
}
