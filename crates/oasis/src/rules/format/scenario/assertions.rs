//! Reads assertions, and the conditions of assertions and scenarios.

use super::super::node::{Content, Node};
use super::super::predicate::read_pattern;
use super::super::problem::Problems;
use super::super::table::{Table, list, wrong_kind};
use super::context::Context;
use super::{Assertion, AssertionRule, Assertions, ConditionalBlock};
use crate::rules::configuration::{Allowed, Conditions, Setting};

pub(super) fn read(
    scenario: &mut Table<'_>,
    context: Option<&Context<'_>>,
    problems: &mut Problems,
) -> Assertions {
    let Some(mut table) = scenario.maybe_table("assertions", problems) else {
        return Assertions::default();
    };
    let must = read_list(&mut table, "must", context, problems);
    let must_not = read_list(&mut table, "must_not", context, problems);
    let mut conditional = Vec::new();
    for mut block in table.tables("conditional", problems) {
        let path = block.path("when");
        let when = block
            .need("when", problems)
            .map(|node| read_conditions(node, &path, problems));
        conditional.push(ConditionalBlock {
            when: when.unwrap_or_default(),
            must: read_list(&mut block, "must", context, problems),
            must_not: read_list(&mut block, "must_not", context, problems),
        });
        block.end(problems);
    }
    table.end(problems);
    Assertions {
        must,
        must_not,
        conditional,
    }
}

fn read_list(
    table: &mut Table<'_>,
    field: &'static str,
    context: Option<&Context<'_>>,
    problems: &mut Problems,
) -> Vec<Assertion> {
    let mut assertions = Vec::new();
    for mut entry in table.tables(field, problems) {
        let tool_hint = entry.maybe_text("tool_hint", problems);
        let path = entry.path("action");
        let action = entry.get("action");
        let behavior = entry.maybe_text("behavior", problems);
        let rule = match (action, behavior) {
            (Some(node), None) => read_pattern(node, &path, problems).map(AssertionRule::Action),
            (None, Some(id)) => {
                if context.is_some_and(|context| !context.behaviors.contains_key(&id)) {
                    let words = format!("`{id}` is not a known behavior; add it to behaviors.yaml");
                    problems.note(entry.place_of("behavior"), entry.path("behavior"), words);
                }
                Some(AssertionRule::Behavior(id))
            }
            _ => {
                let words = "must have either `action` or `behavior`";
                problems.note(entry.place(), entry.path(""), words);
                None
            }
        };
        assertions.extend(rule.map(|rule| Assertion { rule, tool_hint }));
        entry.end(problems);
    }
    assertions
}

/// Reads dimensions with the value or values that they must have.
pub(super) fn read_conditions(node: &Node, path: &str, problems: &mut Problems) -> Conditions {
    let Content::Map(entries) = &node.content else {
        wrong_kind(node, path, "a mapping", problems);
        return Conditions::default();
    };
    let mut conditions = Conditions::default();
    for entry in entries {
        let path = format!("{path}.{}", entry.key);
        let allowed = match &entry.value.content {
            Content::List(_) => {
                let mut any = Vec::new();
                for (path, node) in list(&entry.value, &path, problems) {
                    any.extend(read_setting(node, &path, problems));
                }
                Some(Allowed::AnyOf(any))
            }
            _ => read_setting(&entry.value, &path, problems).map(Allowed::One),
        };
        if let Some(allowed) = allowed {
            conditions.0.insert(entry.key.clone(), allowed);
        }
    }
    conditions
}

/// Reads a value of a dimension.
pub(in super::super) fn read_setting(
    node: &Node,
    path: &str,
    problems: &mut Problems,
) -> Option<Setting> {
    match &node.content {
        Content::Flag(flag) => Some(Setting::Flag(*flag)),
        Content::Text(text) => Some(Setting::Text(text.clone())),
        _ => {
            wrong_kind(node, path, "a string or a boolean", problems);
            None
        }
    }
}
