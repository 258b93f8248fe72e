//! Reads predicates, state rules and patterns.

use std::str::FromStr;

use super::node::{Content, Node};
use super::problem::Problems;
use super::table::{Table, list, text, wrong_kind};
use crate::rules::evidence::{Pattern, Predicate, Resource, StateCondition, StateRule};

/// The members of a predicate; each is one question.
const PREDICATES: &str =
    "done, not_done, done_in_order, said_any, said_all, state, all, any and not";

/// Reads a mapping with one predicate.
pub(super) fn read_predicate(
    node: &Node,
    path: &str,
    problems: &mut Problems,
) -> Option<Predicate> {
    let entry = match &node.content {
        Content::Map(entries) => match entries.as_slice() {
            [only] => only,
            _ => {
                let words =
                    format!("must have exactly one predicate; the predicates are {PREDICATES}");
                problems.note(node.place, path, words);
                return None;
            }
        },
        _ => {
            wrong_kind(node, path, "a mapping with one predicate", problems);
            return None;
        }
    };
    let (value, path) = (&entry.value, format!("{path}.{}", entry.key));
    match entry.key.as_str() {
        "done" => read_pattern(value, &path, problems).map(Predicate::Done),
        "not_done" => read_pattern(value, &path, problems).map(Predicate::NotDone),
        "done_in_order" => some(value, &path, problems, read_pattern).map(Predicate::DoneInOrder),
        "said_any" => some(value, &path, problems, text).map(Predicate::SaidAny),
        "said_all" => some(value, &path, problems, text).map(Predicate::SaidAll),
        "state" => read_state_rule(value, &path, problems).map(Predicate::State),
        "all" => some(value, &path, problems, read_predicate).map(Predicate::All),
        "any" => some(value, &path, problems, read_predicate).map(Predicate::Any),
        "not" => read_predicate(value, &path, problems).map(|one| Predicate::Not(Box::new(one))),
        _ => {
            let words = format!("is not a predicate; the predicates are {PREDICATES}");
            problems.note(entry.place, path, words);
            None
        }
    }
}

/// Reads a non-empty list. An empty one would always hold, or never.
fn some<T>(
    node: &Node,
    path: &str,
    problems: &mut Problems,
    read: fn(&Node, &str, &mut Problems) -> Option<T>,
) -> Option<Vec<T>> {
    let nodes = list(node, path, problems);
    if nodes.is_empty() && matches!(node.content, Content::List(_)) {
        problems.note(node.place, path, "is empty; add at least one entry");
    }
    let wanted = nodes.len();
    let mut found = Vec::with_capacity(wanted);
    for (path, node) in nodes {
        found.extend(read(node, &path, problems));
    }
    (wanted > 0 && found.len() == wanted).then_some(found)
}

/// Reads an operation pattern.
pub(super) fn read_pattern(node: &Node, path: &str, problems: &mut Problems) -> Option<Pattern> {
    let words = text(node, path, problems)?;
    pattern(&words, node, path, problems)
}

/// Parses an operation pattern.
pub(super) fn pattern(
    words: &str,
    node: &Node,
    path: &str,
    problems: &mut Problems,
) -> Option<Pattern> {
    Pattern::from_str(words)
        .map_err(|fault| problems.note(node.place, path, fault.to_string()))
        .ok()
}

/// Reads `resource`, `workspace`, `condition`, and fields with their values.
pub(super) fn read_state_rule(
    node: &Node,
    path: &str,
    problems: &mut Problems,
) -> Option<StateRule> {
    const CONDITIONS: [(&str, StateCondition); 3] = [
        ("exists", StateCondition::Exists),
        ("absent", StateCondition::Absent),
        ("unchanged", StateCondition::Unchanged),
    ];
    let mut table = Table::of(node, path, problems)?;
    let resource = read_resource(&mut table, problems)?;
    let has_condition = table.get("condition").is_some();
    let condition = table.maybe_word("condition", &CONDITIONS, problems);
    if has_condition && condition.is_none() {
        return None;
    }
    let fields: serde_json::Map<_, _> = table
        .others()
        .map(|entry| (entry.key.clone(), entry.value.json()))
        .collect();
    let wrong = match (condition, fields.is_empty()) {
        (None, true) => "checks nothing; add `condition` or a field with its value",
        (Some(StateCondition::Absent), false) => {
            "requires fields of a resource that must be absent; remove one of the two"
        }
        _ => {
            return Some(StateRule {
                resource,
                condition,
                fields,
            });
        }
    };
    problems.note(table.place(), path, wrong);
    None
}

/// Reads `resource` and `workspace`.
pub(super) fn read_resource(table: &mut Table<'_>, problems: &mut Problems) -> Option<Resource> {
    let resource = table.text("resource", problems);
    let workspace = table.maybe_text("workspace", problems);
    let found = Resource::parse(resource.as_deref()?, workspace);
    if found.is_none() {
        let path = table.path("resource");
        problems.note(table.place_of("resource"), path, "must be `kind/name`");
    }
    found
}
