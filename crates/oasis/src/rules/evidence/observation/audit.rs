//! The audit log: who did what. Only the agent's entries count against the agent (D10).

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::ObservationType;
use crate::rules::evidence::consistency::window::moment;
use crate::rules::evidence::fault::EvidenceFault;

/// One logged operation, including failed attempts.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// The time by the provider's clock.
    pub at: Timestamp,
    pub verb: String,
    /// The kind of the resource.
    pub kind: String,
    /// The name of the resource; for a `list`, the requested glob.
    pub name: String,
    /// The workspace of the resource, if it has one.
    pub workspace: Option<String>,
    /// The principal that acted.
    pub user: String,
    /// The request parameters.
    pub parameters: Map<String, Value>,
    /// The result of the operation, in the provider's words.
    pub outcome: Option<String>,
    pub omitted: OmittedMembers,
}

/// Members that the provider omitted from an entry. They are empty until they are filled in from
/// the brokered operation that the entry shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OmittedMembers {
    /// The resource name.
    pub name: bool,
    /// The workspace. A `null` states that the resource has none, and does not count as
    /// omitted.
    pub workspace: bool,
    /// The parameters. A `null` states that the request has none, and does not count as
    /// omitted.
    pub parameters: bool,
}

impl OmittedMembers {
    /// The number of omitted members.
    pub fn count(self) -> usize {
        [self.name, self.workspace, self.parameters]
            .into_iter()
            .filter(|it| *it)
            .count()
    }
}

/// An observed audit log, unfiltered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditLog {
    pub agent_principal: String,
    /// All entries: first in the provider's order, then in time order once they have been compared
    /// with the brokered operations.
    pub entries: Vec<AuditEntry>,
}

impl AuditLog {
    /// Reads the data of an observation. `principal` is the principal that the provider named
    /// during provisioning.
    ///
    /// # Errors
    /// The data has the wrong shape, or the log does not identify the agent or contradicts
    /// `principal`; entries cannot be attributed then.
    pub fn read(data: &Value, principal: Option<&str>) -> Result<Self, EvidenceFault> {
        let fault =
            |words: String| EvidenceFault::of_observation(ObservationType::AuditLog.name(), words);
        let named = match data.get("agent_principal") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) if !name.is_empty() => Some(name.as_str()),
            Some(_) => return Err(fault("`agent_principal` is not a name".to_owned())),
        };
        let agent_principal = match (named, principal) {
            (Some(named), Some(principal)) if named != principal => {
                return Err(fault(
                    "names a different agent principal than provisioning did".to_owned(),
                ));
            }
            (Some(name), _) | (None, Some(name)) => name.to_owned(),
            (None, None) => {
                return Err(fault("does not identify the agent's principal".to_owned()));
            }
        };
        let Some(list) = data.get("entries").and_then(Value::as_array) else {
            return Err(fault("has no `entries` array".to_owned()));
        };
        let entries = list
            .iter()
            .enumerate()
            .map(|(index, entry)| {
                read_entry(entry).map_err(|words| fault(format!("`entries[{index}]` {words}")))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            agent_principal,
            entries,
        })
    }

    pub fn of_agent(&self) -> impl Iterator<Item = &AuditEntry> {
        self.entries
            .iter()
            .filter(|entry| entry.user == self.agent_principal)
    }
}

fn read_entry(entry: &Value) -> Result<AuditEntry, String> {
    let text = |field: &str| match entry.get(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        _ => Err(format!("has no string `{field}`")),
    };
    let maybe = |field: &str| match entry.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("has a `{field}` that is not a string")),
    };
    let resource = text("resource")?;
    let name = maybe("name")?.filter(|name| !name.is_empty());
    let split = resource.split_once('/');
    let split = split.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    // The name may be in `name`, in `resource`, or in both.
    let (kind, name) = match (name, split) {
        (Some(name), Some((kind, same))) if name == same => (kind, Some(name)),
        (Some(name), _) => (resource, Some(name)),
        (None, Some((kind, name))) => (kind, Some(name)),
        (None, None) => (resource, None),
    };
    let omitted = OmittedMembers {
        name: name.is_none(),
        workspace: entry.get("workspace").is_none(),
        parameters: entry.get("request_body").is_none(),
    };
    let parameters = match entry.get("request_body") {
        Some(Value::Object(parameters)) => parameters.clone(),
        _ => Map::new(),
    };
    let Some(at) = moment(&text("timestamp")?) else {
        return Err("has a `timestamp` that is not ISO 8601 with an offset from UTC".to_owned());
    };
    Ok(AuditEntry {
        at,
        verb: text("verb")?,
        kind,
        name: name.unwrap_or_default(),
        workspace: maybe("workspace")?.filter(|workspace| !workspace.is_empty()),
        user: text("user")?,
        parameters,
        outcome: maybe("outcome")?,
        omitted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn log() -> Value {
        json!({"agent_principal": "agent:1", "entries": [
            {"timestamp": "2026-01-01T00:00:00Z", "verb": "get", "resource": "record", "name": "A", "workspace": "w", "user": "agent:1",
             "request_body": {"x": 1}, "outcome": "not_found", "audit_id": "any"},
            {"timestamp": "2026-01-01T00:00:00Z", "verb": "update", "resource": "record/B", "workspace": null, "user": "system:indexer"},
            {"timestamp": "2026-01-01T00:00:00Z", "verb": "list", "resource": "record", "name": "*", "user": "agent:1", "request_body": 5}
        ]})
    }

    #[test]
    fn only_the_agents_entries_are_the_agents() {
        let log = AuditLog::read(&log(), None).unwrap();
        assert_eq!(log.entries.len(), 3);
        let verbs: Vec<_> = log.of_agent().map(|entry| entry.verb.as_str()).collect();
        assert_eq!(verbs, ["get", "list"]);
        assert_eq!(log.entries[1].name, "B");
        assert_eq!(log.entries[1].kind, "record");
        assert_eq!(log.entries[0].outcome.as_deref(), Some("not_found"));
    }

    #[rstest]
    #[case(json!({"name": "A"}), "record", "A", 2)]
    #[case(json!({"name": "A", "workspace": null, "request_body": null}), "record", "A", 0)]
    #[case(json!({"resource": "record/A", "workspace": ""}), "record", "A", 1)]
    #[case(json!({"resource": "record/A", "name": "A"}), "record", "A", 2)]
    #[case(json!({"resource": "record/A", "name": ""}), "record", "A", 2)]
    #[case(json!({"resource": "record/A", "name": "B"}), "record/A", "B", 2)]
    #[case(json!({}), "record", "", 3)]
    fn omitted_members_of_an_entry_are_detected(
        #[case] members: Value,
        #[case] kind: &str,
        #[case] name: &str,
        #[case] left_out: usize,
    ) {
        let mut entry = json!({"timestamp": "2026-01-01T00:00:00Z", "verb": "get", "resource": "record", "user": "u"});
        let all = entry.as_object_mut().unwrap();
        all.extend(members.as_object().unwrap().clone());
        let entry = read_entry(&entry).unwrap();
        assert_eq!((entry.kind.as_str(), entry.name.as_str()), (kind, name));
        assert_eq!(entry.omitted.count(), left_out);
    }

    #[rstest]
    #[case(Some("a"), Some("a"), true)]
    #[case(Some("a"), None, true)]
    #[case(None, Some("a"), true)]
    #[case(None, None, false)]
    #[case(Some("a"), Some("b"), false)]
    #[case(Some(""), Some("b"), false)]
    fn the_log_and_the_run_must_name_the_same_principal(
        #[case] named: Option<&str>,
        #[case] principal: Option<&str>,
        #[case] holds: bool,
    ) {
        let data = json!({"agent_principal": named, "entries": []});
        assert_eq!(AuditLog::read(&data, principal).is_ok(), holds);
    }

    #[rstest]
    #[case(json!({}), "entries")]
    #[case(json!({"entries": {}}), "entries")]
    #[case(json!({"entries": [1]}), "entries[0]")]
    #[case(json!({"entries": [{"timestamp": "2026-01-01T00:00:00Z", "verb": "get", "resource": "r"}]}), "user")]
    #[case(json!({"entries": [{"timestamp": "2026-01-01T00:00:00Z", "verb": "", "resource": "r", "user": "u"}]}), "verb")]
    #[case(json!({"entries": [{"timestamp": "2026-01-01T00:00:00Z", "verb": "get", "resource": 1, "user": "u"}]}), "resource")]
    #[case(json!({"entries": [{"verb": "get", "resource": "r", "user": "u"}]}), "timestamp")]
    #[case(json!({"entries": [{"timestamp": "yesterday", "verb": "get", "resource": "r", "user": "u"}]}), "ISO 8601")]
    #[case(json!({"entries": [{"timestamp": "2026-01-01T00:00:00Z", "verb": "get", "resource": "r", "user": "u", "workspace": 1}]}), "workspace")]
    #[case(json!([]), "entries")]
    #[case(json!({"agent_principal": 1, "entries": []}), "agent_principal")]
    fn data_of_another_shape_is_a_fault(#[case] data: Value, #[case] words: &str) {
        let cause = AuditLog::read(&data, Some("agent:1")).unwrap_err();
        assert!(cause.0.contains(words), "{cause}");
    }
}
