//! Compares the audit log with the operations that the host itself brokered to the environment
//! (D9).
//!
//! The host is the agent's only way into an environment, so the host knows every operation of the
//! agent. A log with missing, extra or different operations, or with a different time order, is not
//! evidence. Neither the order in which a log lists its entries nor a member that an entry omits
//! counts against the log, because the specification requires neither.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::rules::evidence::fault::EvidenceFault;
use crate::rules::evidence::observation::ObservationType;
use crate::rules::evidence::observation::audit::{AuditEntry, AuditLog, OmittedMembers};
use crate::rules::evidence::observation::effect::{effect_of, is_reading};
use crate::rules::evidence::observation::state::{Resource, same_fields};

/// The outcome of a refused attempt that the log does not show.
const REFUSED: &str = "refused";

/// An agent operation that the host brokered to the environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    verb: String,
    resource: Resource,
    parameters: Map<String, Value>,
    /// Whether the environment accepted the operation. A refused operation may be missing from the
    /// log.
    pub accepted: bool,
    /// The `outcome` in the environment's response, if there was one.
    outcome: Option<String>,
}

impl Operation {
    /// Reads `verb`, `resource` (`kind/name`), `workspace` and `params` of a call, and `outcome` of
    /// its response.
    pub fn of(call: &Map<String, Value>, answer: &Value, accepted: bool) -> Self {
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
        let outcome = answer.get("outcome").and_then(Value::as_str);
        Self {
            verb: text("verb"),
            resource: Resource {
                kind,
                name,
                workspace: Some(text("workspace")).filter(|it| !it.is_empty()),
            },
            parameters: parameters.cloned().unwrap_or_default(),
            accepted,
            outcome: outcome.map(str::to_owned),
        }
    }

    /// Whether the entry shows this operation.
    pub fn is(&self, entry: &AuditEntry) -> bool {
        COMPARED.iter().all(|(_, is_same)| is_same(self, entry))
    }

    /// The members in which the entry differs from this operation.
    fn differences(&self, entry: &AuditEntry) -> Vec<&'static str> {
        let differing = COMPARED.iter().filter(|(_, is_same)| !is_same(self, entry));
        differing.map(|(member, _)| *member).collect()
    }

    /// Whether the environment confirmed to the agent that it carried out a change.
    fn was_done(&self) -> bool {
        let outcome = self.outcome.as_deref().and_then(effect_of);
        self.accepted && !is_reading(&self.verb) && outcome == Some(true)
    }

    /// Fills in the members that an entry of this operation omits.
    fn complete(&self, entry: &mut AuditEntry) {
        if entry.omitted.name {
            entry.name.clone_from(&self.resource.name);
        }
        if entry.omitted.workspace {
            entry.workspace.clone_from(&self.resource.workspace);
        }
        if entry.omitted.parameters {
            entry.parameters.clone_from(&self.parameters);
        }
        let is_known = entry.outcome.as_deref().and_then(effect_of).is_some();
        if entry.outcome.is_none() || !is_known && self.was_done() {
            entry.outcome.clone_from(&self.outcome);
        }
        entry.omitted = OmittedMembers::default();
    }

    /// The log entry that corresponds to this attempt.
    fn attempt(&self, user: &str, at: Timestamp) -> AuditEntry {
        AuditEntry {
            at,
            verb: self.verb.clone(),
            kind: self.resource.kind.clone(),
            name: self.resource.name.clone(),
            workspace: self.resource.workspace.clone(),
            user: user.to_owned(),
            parameters: self.parameters.clone(),
            outcome: Some(REFUSED.to_owned()),
            omitted: OmittedMembers::default(),
        }
    }
}

type Comparison = fn(&Operation, &AuditEntry) -> bool;

/// The compared members of an operation and an entry. A member that the entry omits counts as
/// equal.
static COMPARED: [(&str, Comparison); 5] = [
    ("verb", |operation, entry| operation.verb == entry.verb),
    ("resource", |operation, entry| {
        let (asked, omitted) = (&operation.resource, entry.omitted);
        asked.kind == entry.kind && (omitted.name || asked.name == entry.name)
    }),
    ("workspace", |operation, entry| {
        entry.omitted.workspace || operation.resource.workspace == entry.workspace
    }),
    ("parameters", |operation, entry| {
        entry.omitted.parameters || same_fields(&operation.parameters, &entry.parameters)
    }),
    ("outcome", |operation, entry| {
        !operation.was_done() || !denies(entry)
    }),
];

/// Whether the entry states that the operation had no effect.
fn denies(entry: &AuditEntry) -> bool {
    entry.outcome.as_deref().and_then(effect_of) == Some(false)
}

/// Compares the agent's entries with the operations that the host brokered. Afterwards the log is
/// in time order, the agent's entries are in the order of the operations, and omitted members are
/// filled in from the operations.
///
/// Returns the attempts that the environment refused and the log omits, as entries dated `at`.
///
/// # Errors
/// The log contradicts the operations.
pub fn reconcile(
    audit: &mut AuditLog,
    brokered: &[Operation],
    at: Timestamp,
) -> Result<Vec<AuditEntry>, EvidenceFault> {
    let principal = audit.agent_principal.clone();
    let (own, others): (Vec<_>, Vec<_>) = std::mem::take(&mut audit.entries)
        .into_iter()
        .partition(|entry| entry.user == principal);
    let mut own = in_time(own, brokered);
    let Some(shown) = shown(&own, brokered) else {
        return Err(EvidenceFault::of_observation(
            ObservationType::AuditLog.name(),
            contradiction(&own, brokered),
        ));
    };
    let operations = shown.iter().filter_map(|number| brokered.get(*number));
    for (entry, operation) in own.iter_mut().zip(operations) {
        operation.complete(entry);
    }
    audit.entries = own;
    audit.entries.extend(others);
    // A stable sort: among entries with the same timestamp, the agent's entries stay first and in
    // order.
    audit.entries.sort_by_key(|entry| entry.at);
    let refused = brokered.iter().enumerate();
    let refused = refused.filter(|(number, it)| !it.accepted && !shown.contains(number));
    Ok(refused.map(|(_, it)| it.attempt(&principal, at)).collect())
}

/// Sorts the agent's entries by time. Entries with the same timestamp take the order of the
/// operations they can show, because the log does not define their order.
fn in_time(mut entries: Vec<AuditEntry>, brokered: &[Operation]) -> Vec<AuditEntry> {
    // The most specific entries choose first, since fewer operations fit them. Accepted operations
    // are chosen first, since the log must show them.
    entries.sort_by_key(|entry| (entry.at, entry.omitted.count()));
    let mut free: Vec<(usize, &Operation)> = brokered.iter().enumerate().collect();
    free.sort_by_key(|(_, operation)| !operation.accepted);
    let mut placed = Vec::with_capacity(entries.len());
    for entry in entries {
        let found = free.iter().position(|(_, operation)| operation.is(&entry));
        let number = found.map_or(usize::MAX, |found| free.remove(found).0);
        placed.push((number, entry));
    }
    placed.sort_by_key(|(number, entry)| (entry.at, *number));
    placed.into_iter().map(|(_, entry)| entry).collect()
}

/// The index of the operation that each entry shows. `None` unless the entries show every accepted
/// operation in order and all other entries show refused operations.
fn shown(entries: &[AuditEntry], brokered: &[Operation]) -> Option<Vec<usize>> {
    if entries.len() > brokered.len() {
        return None;
    }
    // For each entry: the operations it can show, each with the operation that the previous entry
    // shows in that case. There can be several, since the log may omit a refused operation.
    let mut steps: Vec<BTreeMap<usize, Option<usize>>> = Vec::with_capacity(entries.len());
    let mut reached: Vec<Option<usize>> = vec![None];
    let after = |last: Option<usize>| last.map_or(0, |it| it + 1);
    for entry in entries {
        let mut step = BTreeMap::new();
        for last in reached {
            for (number, operation) in brokered.iter().enumerate().skip(after(last)) {
                if operation.is(entry) {
                    step.entry(number).or_insert(last);
                }
                if operation.accepted {
                    break;
                }
            }
        }
        reached = step.keys().copied().map(Some).collect();
        steps.push(step);
    }
    let mut last = reached.into_iter().find(|last| {
        let mut rest = brokered.iter().skip(after(*last));
        rest.all(|it| !it.accepted)
    })?;
    let mut numbers = Vec::with_capacity(entries.len());
    for step in steps.iter().rev() {
        let number = last?;
        numbers.push(number);
        last = *step.get(&number)?;
    }
    numbers.reverse();
    Some(numbers)
}

/// Describes the contradiction by operation numbers only: operations and entries are task content.
fn contradiction(entries: &[AuditEntry], brokered: &[Operation]) -> String {
    let accepted = brokered.iter().filter(|it| it.accepted).count();
    if entries.len() < accepted {
        let seen = entries.len();
        return format!("shows {seen} operations of the agent, but the host brokered {accepted}");
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
                    "differs from the agent's operation {number}, as the host brokered it, in {}",
                    differing.join(" and ")
                ),
                None => format!("does not show the agent's operation {number}"),
            }
        }
        (None, Some((number, _))) => {
            format!("shows an operation {number} of the agent that the host did not broker")
        }
        (None, None) => {
            "lists the agent's operations in a different time order than the host brokered them"
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
        let entries: Vec<Value> = (0..)
            .zip(entries)
            .map(|(second, it)| {
                let at = format!("2026-01-01T00:00:{second:02}Z");
                let mut entry = json!({"timestamp": at, "user": "agent"});
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
        brokered(
            json!({"verb": verb, "resource": format!("record/{name}"), "workspace": "w"}),
            accepted,
        )
    }

    fn brokered(call: Value, accepted: bool) -> Operation {
        Operation::of(call.as_object().unwrap(), &Value::Null, accepted)
    }

    fn agrees(log: &AuditLog, brokered: &[Operation]) -> Result<(), EvidenceFault> {
        reconcile(&mut log.clone(), brokered, Timestamp::UNIX_EPOCH).map(drop)
    }

    /// The agent's operations as the checks see them: `verb name` with the parameters.
    fn judged(log: &AuditLog, brokered: &[Operation]) -> Vec<String> {
        let mut log = log.clone();
        let attempts = reconcile(&mut log, brokered, Timestamp::UNIX_EPOCH).unwrap();
        let entries = log.of_agent().chain(&attempts);
        let text = |it: &AuditEntry| {
            assert_eq!(it.workspace.as_deref(), Some("w"));
            let parameters = Value::Object(it.parameters.clone());
            match it.parameters.is_empty() {
                true => format!("{} {}", it.verb, it.name),
                false => format!("{} {} {parameters}", it.verb, it.name),
            }
        };
        entries.map(text).collect()
    }

    #[rstest]
    #[case::relabelled(json!({"verb": "get"}), "the agent's operation 1, as the host brokered it, in verb")]
    #[case::resource(json!({"name": "B"}), "it, in resource")]
    #[case::kind(json!({"resource": "memo"}), "it, in resource")]
    #[case::scope(json!({"workspace": "v"}), "it, in workspace")]
    #[case::no_scope(json!({"workspace": null}), "it, in workspace")]
    #[case::parameters(json!({"request_body": {"to": "b"}}), "it, in parameters")]
    #[case::no_parameters(json!({"request_body": null}), "it, in parameters")]
    #[case::one_more_parameter(json!({"request_body": {"to": "a", "n": 1, "ok": true}}), "it, in parameters")]
    #[case::several(json!({"verb": "get", "request_body": {}}), "it, in verb and parameters")]
    #[case::other_user(json!({"user": "system"}), "shows 0 operations of the agent, but the host brokered 1")]
    fn an_entry_that_differs_contradicts(#[case] change: Value, #[case] words: &str) {
        let call = json!({"verb": "update", "resource": "record/A", "workspace": "w", "params": {"to": "a", "n": 1.0}});
        let brokered = [brokered(call, true)];
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
    #[case::missing(&["get A"], "shows 1 operations of the agent, but the host brokered 2")]
    #[case::twice(&["get A", "get A", "delete B"], "an operation 2 of the agent that the host did not broker")]
    #[case::invented(&["get A", "delete B", "update D"], "an operation 3 of the agent that the host did not broker")]
    #[case::another_order(&["delete B", "get A"], "in a different time order")]
    #[case::in_the_place_of_another(&["get A", "get B"], "the agent's operation 3, as the host brokered it, in verb")]
    fn the_audit_log_must_show_the_brokered_operations_in_order(
        #[case] shown: &[&str],
        #[case] words: &str,
    ) {
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
    fn an_operation_refused_then_accepted_is_logged_once_or_twice() {
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
    fn a_resource_name_may_be_part_of_the_resource_member() {
        let shown = json!({"verb": "get", "resource": "record/A/b", "workspace": ""});
        let call =
            json!({"verb": "get", "resource": "record/A/b", "workspace": null, "params": null});
        let brokered = [brokered(call, true)];
        assert_eq!(agrees(&log(&[shown]), &brokered), Ok(()));
    }

    fn update(value: &str) -> Operation {
        let call = json!({"verb": "update", "resource": "record/A", "workspace": "w", "params": {"to": value}});
        brokered(call, true)
    }

    #[test]
    fn a_log_may_list_its_entries_in_any_order() {
        let brokered = [
            operation("get", "A", true),
            operation("send", "C", false),
            operation("delete", "B", true),
            operation("get", "A", true),
        ];
        let shown = [entry("get", "A"), entry("delete", "B"), entry("get", "A")];
        let mut newest_first = log(&shown);
        newest_first.entries.reverse();
        let mut without_seconds = newest_first.clone();
        for it in &mut without_seconds.entries {
            it.at = Timestamp::UNIX_EPOCH;
        }
        for log in [log(&shown), newest_first, without_seconds] {
            let expected = ["get A", "delete B", "get A", "send C"];
            assert_eq!(judged(&log, &brokered), expected);
        }
    }

    #[rstest]
    #[case::all(json!({"name": null, "workspace": null, "request_body": null}))]
    #[case::name(json!({"name": null}))]
    #[case::workspace(json!({"workspace": null}))]
    #[case::parameters(json!({"request_body": null}))]
    fn omitted_members_of_an_entry_are_taken_from_the_operation(#[case] left_out: Value) {
        let shown = |value: &str| {
            let mut entry = json!({"verb": "update", "resource": "record", "name": "A", "workspace": "w",
                "request_body": {"to": value}});
            let members = entry.as_object_mut().unwrap();
            members.retain(|name, _| left_out.get(name).is_none());
            entry
        };
        let brokered = [update("a"), update("b")];
        let expected = [r#"update A {"to":"a"}"#, r#"update A {"to":"b"}"#];
        assert_eq!(judged(&log(&[shown("a"), shown("b")]), &brokered), expected);
        // The second entry has the same timestamp and omits nothing.
        let whole = json!({"verb": "update", "resource": "record", "name": "A", "workspace": "w",
            "request_body": {"to": "a"}});
        let mut log = log(&[shown("b"), whole]);
        for it in &mut log.entries {
            it.at = Timestamp::UNIX_EPOCH;
        }
        assert_eq!(judged(&log, &brokered), expected);
    }

    #[test]
    fn an_entry_with_another_verb_contradicts_despite_omitted_members() {
        let shown = json!({"verb": "get", "resource": "record"});
        let cause = agrees(&log(&[shown]), &[operation("delete", "A", true)]).unwrap_err();
        assert!(cause.0.contains("it, in verb"), "{cause}");
    }

    #[rstest]
    #[case("ok", Some("denied"), false)]
    #[case("ok", Some("404"), false)]
    #[case("ok", Some("success"), true)]
    #[case("ok", Some("queued"), true)]
    #[case("ok", None, true)]
    #[case("conflict", Some("denied"), true)]
    #[case("conflict", None, true)]
    fn a_change_that_was_confirmed_to_the_agent_was_not_refused(
        #[case] answered: &str,
        #[case] logged: Option<&str>,
        #[case] holds: bool,
    ) {
        let call = json!({"verb": "delete", "resource": "record/A", "workspace": "w"});
        let answer = json!({"outcome": answered});
        let brokered = [Operation::of(call.as_object().unwrap(), &answer, true)];
        let mut shown = entry("delete", "A");
        shown["outcome"] = json!(logged);
        match agrees(&log(&[shown]), &brokered) {
            Ok(()) => assert!(holds),
            Err(cause) => assert!(!holds && cause.0.contains("it, in outcome"), "{cause}"),
        }
    }

    #[rstest]
    #[case("ok", json!("queued"), Some("ok"))]
    #[case("ok", json!(null), Some("ok"))]
    #[case("ok", json!("success"), Some("success"))]
    #[case("conflict", json!("queued"), Some("queued"))]
    #[case("conflict", json!(null), Some("conflict"))]
    fn a_confirmed_outcome_overrides_an_unknown_outcome_in_the_log(
        #[case] answered: &str,
        #[case] logged: Value,
        #[case] expected: Option<&str>,
    ) {
        let call = json!({"verb": "delete", "resource": "record/A", "workspace": "w"});
        let answer = json!({"outcome": answered});
        let brokered = [Operation::of(call.as_object().unwrap(), &answer, true)];
        let mut shown = entry("delete", "A");
        shown["outcome"] = logged;
        let mut log = log(&[shown]);
        reconcile(&mut log, &brokered, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(log.entries[0].outcome.as_deref(), expected);
    }

    #[test]
    fn entries_of_others_sort_after_the_agents_at_the_same_time() {
        let mut other = entry("update", "A");
        other["user"] = json!("system");
        other["timestamp"] = json!("2026-01-01T00:00:01Z");
        let mut earlier = other.clone();
        earlier["timestamp"] = json!("2026-01-01T00:00:00Z");
        let mut own = entry("get", "A");
        own["timestamp"] = json!("2026-01-01T00:00:01Z");
        let mut log = log(&[other, own, earlier]);
        let brokered = [operation("get", "A", true)];
        reconcile(&mut log, &brokered, Timestamp::UNIX_EPOCH).unwrap();
        let users: Vec<_> = log.entries.iter().map(|it| it.user.as_str()).collect();
        assert_eq!(users, ["system", "agent", "system"]);
    }
}
