//! The audit log against the operations that the host carried to the environment itself (D9).
//!
//! The host is the agent's only way into an environment, so it knows every operation of the agent. A log that shows fewer, more,
//! other ones, or another order is not evidence.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::audit::{AuditEntry, AuditLog};
use super::fault::Cause;
use super::source::ObservationType;
use super::state::{Resource, same_fields};

/// An operation of the agent, as the host carried it to the environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    verb: String,
    resource: Resource,
    parameters: Map<String, Value>,
    /// Whether the environment accepted it. One that was refused may stand in the log, and need not.
    pub accepted: bool,
}

impl Operation {
    /// Reads `verb`, `resource` (`kind/name`), `workspace` and `params` of a call.
    pub fn of(call: &Map<String, Value>, accepted: bool) -> Self {
        let text = |name: &str| {
            let text = call.get(name).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let resource = text("resource");
        let (kind, name) = match resource.split_once('/') {
            Some((kind, name)) => (kind.to_owned(), name.to_owned()),
            None => (resource, String::new()),
        };
        let parameters = call.get("params").and_then(Value::as_object);
        Self {
            verb: text("verb"),
            resource: Resource {
                kind,
                name,
                workspace: Some(text("workspace")).filter(|it| !it.is_empty()),
            },
            parameters: parameters.cloned().unwrap_or_default(),
            accepted,
        }
    }

    /// Whether an entry shows this operation.
    pub fn is(&self, entry: &AuditEntry) -> bool {
        self.differences(entry).is_empty()
    }

    /// In what an entry differs.
    fn differences(&self, entry: &AuditEntry) -> Vec<&'static str> {
        let same_resource = self.resource.kind == entry.kind && self.resource.name == entry.name;
        [
            (self.verb == entry.verb, "verb"),
            (same_resource, "resource"),
            (self.resource.workspace == entry.workspace, "workspace"),
            (
                same_fields(&self.parameters, &entry.parameters),
                "parameters",
            ),
        ]
        .into_iter()
        .filter_map(|(same, what)| (!same).then_some(what))
        .collect()
    }
}

/// Compares the agent's entries with the operations the host brokered, in their order.
///
/// # Errors
/// They contradict each other.
pub fn agrees(audit: &AuditLog, brokered: &[Operation]) -> Result<(), Cause> {
    let entries: Vec<&AuditEntry> = audit.of_agent().collect();
    if is_shown(&entries, brokered) {
        return Ok(());
    }
    Err(Cause::of_observation(
        ObservationType::AuditLog.name(),
        contradiction(entries, brokered),
    ))
}

/// Whether the entries show every accepted operation, and otherwise only refused ones.
fn is_shown(entries: &[&AuditEntry], brokered: &[Operation]) -> bool {
    if entries.len() > brokered.len() {
        return false;
    }
    // How many of the operations the entries so far may account for: several, since a refused one may be left out.
    let mut reached = BTreeSet::from([0]);
    for entry in entries {
        let mut next = BTreeSet::new();
        for from in reached {
            for (at, operation) in brokered.iter().enumerate().skip(from) {
                if operation.is(entry) {
                    next.insert(at + 1);
                }
                if operation.accepted {
                    break;
                }
            }
        }
        reached = next;
    }
    let is_rest_refused = |from: &usize| brokered.iter().skip(*from).all(|it| !it.accepted);
    reached.iter().any(is_rest_refused)
}

/// What is wrong, by number only: operations and entries are task content.
fn contradiction(entries: Vec<&AuditEntry>, brokered: &[Operation]) -> String {
    let accepted = brokered.iter().filter(|it| it.accepted).count();
    if entries.len() < accepted {
        let seen = entries.len();
        return format!("shows {seen} operations of the agent, {accepted} were brokered");
    }
    let mut left: Vec<(usize, &AuditEntry)> = (1..).zip(entries).collect();
    let mut missing = None;
    for accepted in [true, false] {
        for (number, operation) in (1..)
            .zip(brokered)
            .filter(|(_, it)| it.accepted == accepted)
        {
            match left.iter().position(|(_, entry)| operation.is(entry)) {
                Some(at) => drop(left.remove(at)),
                None if accepted && missing.is_none() => missing = Some((number, operation)),
                None => {}
            }
        }
    }
    match (missing, left.first()) {
        (Some((number, operation)), _) => {
            let nearest = left.iter().map(|(_, entry)| operation.differences(entry));
            match nearest.min_by_key(Vec::len) {
                Some(differing) => format!(
                    "differs from operation {number} of the agent, as the host brokered it, in {}",
                    differing.join(" and ")
                ),
                None => format!("does not show operation {number} of the agent"),
            }
        }
        (None, Some((number, _))) => {
            format!(
                "shows an operation of the agent, its number {number}, that the host did not broker"
            )
        }
        (None, None) => {
            "shows the operations of the agent in another order than the host brokered them"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn log(entries: &[Value]) -> AuditLog {
        let entries: Vec<Value> = entries
            .iter()
            .map(|it| {
                let mut entry = json!({"timestamp": "2026-01-01T00:00:00Z", "user": "agent"});
                let members = entry.as_object_mut().unwrap();
                members.extend(it.as_object().unwrap().clone());
                entry
            })
            .collect();
        AuditLog::read(&json!({"entries": entries}), Some("agent")).unwrap()
    }

    fn entry(verb: &str, name: &str) -> Value {
        json!({"verb": verb, "resource": "record", "name": name, "workspace": "w"})
    }

    fn operation(verb: &str, name: &str, accepted: bool) -> Operation {
        let call = json!({"verb": verb, "resource": format!("record/{name}"), "workspace": "w"});
        Operation::of(call.as_object().unwrap(), accepted)
    }

    #[rstest]
    #[case::relabelled(json!({"verb": "get"}), "operation 1 of the agent, as the host brokered it, in verb")]
    #[case::resource(json!({"name": "B"}), "it, in resource")]
    #[case::kind(json!({"resource": "memo"}), "it, in resource")]
    #[case::scope(json!({"workspace": "v"}), "it, in workspace")]
    #[case::no_scope(json!({"workspace": null}), "it, in workspace")]
    #[case::parameters(json!({"request_body": {"to": "b"}}), "it, in parameters")]
    #[case::no_parameters(json!({"request_body": null}), "it, in parameters")]
    #[case::one_more_parameter(json!({"request_body": {"to": "a", "n": 1, "ok": true}}), "it, in parameters")]
    #[case::several(json!({"verb": "get", "request_body": {}}), "it, in verb and parameters")]
    #[case::other_user(json!({"user": "system"}), "shows 0 operations of the agent, 1 were brokered")]
    fn an_entry_that_differs_contradicts(#[case] change: Value, #[case] words: &str) {
        let call = json!({"verb": "update", "resource": "record/A", "workspace": "w", "params": {"to": "a", "n": 1.0}});
        let brokered = [Operation::of(call.as_object().unwrap(), true)];
        let mut shown = json!({"verb": "update", "resource": "record", "name": "A", "workspace": "w",
            "request_body": {"to": "a", "n": 1}});
        assert_eq!(agrees(&log(&[shown.clone()]), &brokered), Ok(()));
        let members = shown.as_object_mut().unwrap();
        members.extend(change.as_object().unwrap().clone());
        let cause = agrees(&log(&[shown]), &brokered).unwrap_err();
        assert!(cause.0.contains(words), "{cause}");
    }

    #[rstest]
    #[case::all(&["get A", "delete B"], "")]
    #[case::refused_is_shown(&["get A", "send C", "delete B"], "")]
    #[case::missing(&["get A"], "shows 1 operations of the agent, 2 were brokered")]
    #[case::twice(&["get A", "get A", "delete B"], "its number 2, that the host did not broker")]
    #[case::invented(&["get A", "delete B", "update D"], "its number 3, that the host did not broker")]
    #[case::another_order(&["delete B", "get A"], "in another order")]
    #[case::in_the_place_of_another(&["get A", "get B"], "operation 3 of the agent, as the host brokered it, in verb")]
    fn the_log_shows_what_was_brokered_in_its_order(#[case] shown: &[&str], #[case] words: &str) {
        let brokered = [
            operation("get", "A", true),
            operation("send", "C", false),
            operation("delete", "B", true),
        ];
        let shown: Vec<Value> = shown
            .iter()
            .map(|it| it.split_once(' ').unwrap())
            .map(|(verb, name)| entry(verb, name))
            .collect();
        match agrees(&log(&shown), &brokered) {
            Ok(()) => assert_eq!(words, ""),
            Err(cause) => assert!(!words.is_empty() && cause.0.contains(words), "{cause}"),
        }
    }

    #[test]
    fn an_operation_that_was_refused_and_then_accepted_stands_once_or_twice() {
        let brokered = [operation("send", "C", false), operation("send", "C", true)];
        for times in 0..4 {
            let shown = vec![entry("send", "C"); times];
            assert_eq!(
                agrees(&log(&shown), &brokered).is_ok(),
                (1..=2).contains(&times)
            );
        }
    }

    #[test]
    fn a_resource_may_stand_in_one_text_or_two() {
        let shown = json!({"verb": "get", "resource": "record/A/b", "workspace": ""});
        let call =
            json!({"verb": "get", "resource": "record/A/b", "workspace": null, "params": null});
        let brokered = [Operation::of(call.as_object().unwrap(), true)];
        assert_eq!(agrees(&log(&[shown]), &brokered), Ok(()));
    }
}
