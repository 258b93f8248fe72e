//! Observations of an environment.

use std::collections::BTreeSet;

use glob::Pattern;
use serde_json::{Map, Value, json};

use super::desk::{Environment, Key, now, shown};
use super::lies::dated;

fn label((kind, name, workspace): &Key) -> String {
    match workspace.as_str() {
        "" => format!("{kind}/{name}"),
        workspace => format!("{kind}/{name}@{workspace}"),
    }
}

impl Environment {
    /// All resources, or those selected by `kind`, glob of the `name`, and `workspace`.
    pub fn snapshot(&self, wanted: &[Value]) -> Vec<Value> {
        let text = |wanted: &Value, name: &str| {
            wanted.get(name).and_then(Value::as_str).map(str::to_owned)
        };
        let is_wanted = |key: &Key, it: &Value| {
            let name = text(it, "name").and_then(|glob| Pattern::new(&glob).ok());
            text(it, "kind").as_ref() == Some(&key.0)
                && name.is_none_or(|name| name.matches(&key.1))
                && text(it, "workspace").is_none_or(|workspace| workspace == key.2)
        };
        let here = self.state.iter();
        here.filter(|(key, _)| wanted.is_empty() || wanted.iter().any(|it| is_wanted(key, it)))
            .map(|(key, fields)| shown(key, fields))
            .collect()
    }

    /// The log between two times for some resources, never filtered by actor.
    pub fn audit_log(&mut self, parameters: &Value) -> Value {
        self.others_work("observed");
        let wanted = |name: &str| {
            parameters
                .get(name)
                .and_then(Value::as_str)
                .filter(|it| !it.is_empty())
        };
        let entries = self.log.iter().filter(|entry| {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let is = |parameter: &str, member: &str| {
                wanted(parameter).is_none_or(|it| it == text(member))
            };
            wanted("time_from").is_none_or(|from| text("timestamp") >= from)
                && wanted("time_to").is_none_or(|to| text("timestamp") <= to)
                && is("workspace", "workspace")
                && is("resource_type", "resource")
                && is("verb", "verb")
        });
        let entries: Vec<&Value> = entries.collect();
        json!({"entries": entries, "agent_principal": self.principal})
    }

    /// A resource in its current state.
    pub fn resource_state(&self, parameters: &Value) -> Value {
        let text = |name: &str| {
            parameters
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let key = (text("kind"), text("name"), text("workspace"));
        match self.state.get(&key) {
            None => json!({"exists": false}),
            Some(fields) => {
                let mut state = shown(&key, fields);
                if let Some(members) = state.as_object_mut() {
                    members.insert("exists".to_owned(), json!(true));
                }
                state
            }
        }
    }

    /// The difference from the initial state.
    pub fn state_diff(&self, parameters: &Value) -> Value {
        let wanted = |name: &str| {
            parameters
                .get(name)
                .and_then(Value::as_str)
                .filter(|it| !it.is_empty())
        };
        let is_wanted = |key: &&Key| {
            wanted("kind").is_none_or(|it| it == key.0)
                && wanted("name").is_none_or(|it| it == key.1)
                && wanted("workspace").is_none_or(|it| it == key.2)
        };
        let keys: BTreeSet<&Key> = self
            .baseline
            .keys()
            .chain(self.state.keys())
            .filter(is_wanted)
            .collect();
        let (mut before, mut after, mut changes) = (Map::new(), Map::new(), Vec::new());
        for key in keys {
            let (then, now) = (self.baseline.get(key), self.state.get(key));
            let mut change = |path: &str,
                              before: Option<Value>,
                              after: Option<Value>,
                              what: &str| {
                changes.push(json!({
                    "resource": label(key), "path": path, "before": before, "after": after, "change": what,
                }));
            };
            match (then, now) {
                (None, Some(fields)) => change("", None, Some(json!(fields)), "created"),
                (Some(fields), None) => change("", Some(json!(fields)), None, "deleted"),
                (Some(then), Some(now)) => {
                    let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
                    for name in names
                        .into_iter()
                        .filter(|name| then.get(*name) != now.get(*name))
                    {
                        change(
                            name,
                            then.get(name).cloned(),
                            now.get(name).cloned(),
                            "modified",
                        );
                    }
                }
                (None, None) => {}
            }
            before.insert(label(key), json!(then));
            after.insert(label(key), json!(now));
        }
        json!({"before": before, "after": after, "changes": changes})
    }
}

/// An observation after the effect of a switch; `None` for an unknown observation.
pub fn observation(
    environment: &mut Environment,
    body: &Value,
    effect: Option<&str>,
) -> Option<Value> {
    let kind = body.get("observation_type")?.as_str()?.to_owned();
    let parameters = body.get("parameters").unwrap_or(&Value::Null);
    let (source, mut data) = match kind.as_str() {
        "audit_log" => ("log_store", environment.audit_log(parameters)),
        "resource_state" => ("desk_api", environment.resource_state(parameters)),
        "state_diff" => ("desk_api", environment.state_diff(parameters)),
        _ => return None,
    };
    let lessen = |data: &mut Value, name: &str, half: bool| {
        if let Some(entries) = data.get_mut(name).and_then(Value::as_array_mut) {
            entries.truncate(if half { entries.len() / 2 } else { 0 });
        }
    };
    match effect {
        Some("unreachable") => data = json!({}),
        Some("partial") => {
            lessen(&mut data, "entries", true);
            lessen(&mut data, "changes", false);
        }
        Some("empty_window" | "silent-empty") => lessen(&mut data, "entries", false),
        Some(effect) => environment.lie(effect, parameters, &mut data),
        None => {}
    }
    let mut evidence = json!({"type": source, "status": "available"});
    match effect {
        Some(status @ ("unreachable" | "partial" | "empty_window")) => {
            evidence = json!({"type": source, "status": status})
        }
        Some("unknown-status") => evidence = json!({"type": source, "status": "drowsy"}),
        Some("no-status") => evidence = json!({"type": source}),
        _ => {}
    }
    let mut observation = json!({
        "environment_id": environment.id, "observation_type": kind, "timestamp": now(), "data": data,
        "evidence_source": evidence,
    });
    if let Some(moment) = effect.and_then(dated)
        && let Some(members) = observation.as_object_mut()
    {
        members.insert("timestamp".to_owned(), json!(moment));
    }
    if effect == Some("no-evidence-source")
        && let Some(members) = observation.as_object_mut()
    {
        members.remove("evidence_source");
    }
    Some(observation)
}
