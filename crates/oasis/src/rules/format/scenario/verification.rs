//! Reads the checks besides the assertions.

use super::super::node::Node;
use super::super::predicate::{pattern, read_pattern, read_resource, read_state_rule};
use super::super::problem::Problems;
use super::super::table::{Table, free_map, text};
use super::context::Given;
use super::{AuditRule, DiffRule, Verification};
use crate::rules::evidence::{Channel, Containment, Pattern, Scope, StateCondition, StateRule};

const CHANNELS: [(&str, Channel); 3] = [
    ("agent_response", Channel::AgentResponse),
    ("tool_call_parameters", Channel::ToolCallParameters),
    ("reasoning_trace", Channel::ReasoningTrace),
];

pub(super) fn read(
    scenario: &mut Table<'_>,
    given: &Given,
    problems: &mut Problems,
) -> Verification {
    let Some(mut table) = scenario.maybe_table("verification", problems) else {
        return Verification::default();
    };
    let mut found = Verification::default();
    for entry in table.tables("api_audit", problems) {
        found.api_audit.extend(read_audit(entry, problems));
    }
    for (path, node) in table.list("state_assertions", problems) {
        let rule = read_state_rule(node, &path, problems);
        if let Some(rule) = &rule {
            check_baseline(rule, given, (node, &path), problems);
        }
        found.state_assertions.extend(rule);
    }
    for (path, node) in table.list("negative_verification", problems) {
        let rule = read_negative(node, &path, problems);
        found.negative_verification.extend(rule);
    }
    if let Some(diff) = table.maybe_table("state_diff", problems) {
        found.state_diff = read_diff(diff, problems);
    }
    for entry in table.tables("value_containment", problems) {
        let rule = read_containment(entry, given, problems);
        found.value_containment.extend(rule);
    }
    table.end(problems);
    found
}

fn read_audit(mut table: Table<'_>, problems: &mut Problems) -> Option<AuditRule> {
    table.maybe_text("description", problems);
    let (forbidden, required) = (table.get("forbidden"), table.get("required"));
    let rule = match (forbidden, required) {
        (Some(node), None) => {
            read_pattern(node, &table.path("forbidden"), problems).map(AuditRule::Forbidden)
        }
        (None, Some(node)) => {
            read_pattern(node, &table.path("required"), problems).map(AuditRule::Required)
        }
        _ => {
            let words = "must have either `forbidden` or `required`";
            problems.note(table.place(), table.path(""), words);
            None
        }
    };
    table.end(problems);
    rule
}

/// Reads `no` and a pattern.
fn read_negative(node: &Node, path: &str, problems: &mut Problems) -> Option<Pattern> {
    let words = text(node, path, problems)?;
    match words.strip_prefix("no ") {
        Some(rest) => pattern(rest, node, path, problems),
        None => {
            problems.note(node.place, path, "must be `no` and an operation pattern");
            None
        }
    }
}

fn read_diff(mut table: Table<'_>, problems: &mut Problems) -> Option<DiffRule> {
    let resource = read_resource(&mut table, problems);
    let mut fields = |field| {
        let path = table.path(field);
        let node = table.get(field);
        node.map(|node| free_map(node, &path, problems))
            .unwrap_or_default()
    };
    let (before, after) = (fields("before"), fields("after"));
    if before.is_empty() && after.is_empty() {
        let words = "checks nothing; add fields under `before` or `after`";
        problems.note(table.place(), table.path(""), words);
        return None;
    }
    table.end(problems);
    Some(DiffRule {
        resource: resource?,
        before,
        after,
    })
}

/// Rejects an `unchanged` check of a resource that never existed, which would always hold.
fn check_baseline(
    rule: &StateRule,
    given: &Given,
    (node, path): (&Node, &str),
    problems: &mut Problems,
) {
    let unchanged = rule.condition == Some(StateCondition::Unchanged);
    if unchanged && !given.resources().any(|resource| *resource == rule.resource) {
        let words = format!(
            "{} must be unchanged, but is not in the preconditions; check its workspace",
            rule.resource
        );
        problems.note(node.place, path, words);
    }
}

fn read_containment(
    mut table: Table<'_>,
    given: &Given,
    problems: &mut Problems,
) -> Option<Containment> {
    table.maybe_text("description", problems);
    let value_ref = table.text("value_ref", problems);
    if value_ref
        .as_deref()
        .is_some_and(|reference| !given.resolves(reference))
    {
        let words = "refers to no value in the preconditions; write `kind/name.field.key`";
        problems.note(table.place_of("value_ref"), table.path("value_ref"), words);
    }
    let scope = table.text("scope", problems).and_then(|words| {
        let scope = Scope::parse(&words);
        if scope.is_none() {
            let words = "must be `absolute`, or `key:value` with a value of the agent's scope";
            problems.note(table.place_of("scope"), table.path("scope"), words);
        }
        scope
    });
    table.need("output_channels", problems);
    let mut channels = Vec::new();
    for (path, node) in table.list("output_channels", problems) {
        let Some(name) = text(node, &path, problems) else {
            continue;
        };
        match CHANNELS.iter().find(|(known, _)| *known == name) {
            Some((_, channel)) => channels.push(*channel),
            None => {
                let all = CHANNELS.map(|(known, _)| known).join(", ");
                problems.note(
                    node.place,
                    path,
                    format!("is not an output channel; the channels are {all}"),
                );
            }
        }
    }
    table.end(problems);
    let (value_ref, scope) = (value_ref?, scope?);
    (!channels.is_empty()).then_some(Containment {
        value_ref,
        scope,
        channels,
    })
}
