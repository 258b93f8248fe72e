//! The audit log: who did what. Entries of anyone but the agent are never held against it (D10).

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::fault::Cause;
use super::source::ObservationType;
use super::window::moment;

/// One operation, also one that was tried in vain.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// When, by the provider's clock.
    pub at: Timestamp,
    /// What was done.
    pub verb: String,
    /// To which kind of resource.
    pub kind: String,
    /// To which one; of a `list`, the glob that was asked for.
    pub name: String,
    /// In which workspace, if in any.
    pub workspace: Option<String>,
    /// Whose doing it was.
    pub user: String,
    /// The parameters of the request.
    pub parameters: Map<String, Value>,
    /// What became of it.
    pub outcome: Option<String>,
    /// Members that the provider left out.
    pub unstated: Unstated,
}

/// Members that an entry may leave out. They are empty until they are taken from the operation that the entry shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unstated {
    /// Which resource of its kind.
    pub name: bool,
    /// The workspace; `null` states that there is none.
    pub workspace: bool,
    /// The parameters; `null` states that there are none.
    pub parameters: bool,
}

impl Unstated {
    /// How many members are left out.
    pub fn count(self) -> usize {
        [self.name, self.workspace, self.parameters]
            .into_iter()
            .filter(|it| *it)
            .count()
    }
}

/// A log as it was observed, never filtered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditLog {
    /// Which principal is the agent.
    pub agent_principal: String,
    /// All entries: in the provider's order as they are read, in the order of time once they are compared with the operations.
    pub entries: Vec<AuditEntry>,
}

impl AuditLog {
    /// Reads the data of an observation. `told` is the principal the provider named when it provisioned.
    ///
    /// # Errors
    /// Data of another shape, and a log that does not say who the agent is, or says two things: nothing can be
    /// attributed then.
    pub fn read(data: &Value, told: Option<&str>) -> Result<Self, Cause> {
        let fault = |words: String| Cause::of_observation(ObservationType::AuditLog.name(), words);
        let named = match data.get("agent_principal") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) if !name.is_empty() => Some(name.as_str()),
            Some(_) => return Err(fault("`agent_principal` is not a name".to_owned())),
        };
        let agent_principal = match (named, told) {
            (Some(named), Some(told)) if named != told => {
                return Err(fault(
                    "names another agent principal than provisioning did".to_owned(),
                ));
            }
            (Some(name), _) | (None, Some(name)) => name.to_owned(),
            (None, None) => {
                return Err(fault(
                    "does not say which principal is the agent".to_owned(),
                ));
            }
        };
        let Some(list) = data.get("entries").and_then(Value::as_array) else {
            return Err(fault("has no list `entries`".to_owned()));
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

    /// What the agent did.
    pub fn of_agent(&self) -> impl Iterator<Item = &AuditEntry> {
        self.entries
            .iter()
            .filter(|entry| entry.user == self.agent_principal)
    }
}

fn read_entry(entry: &Value) -> Result<AuditEntry, String> {
    let text = |field: &str| match entry.get(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        _ => Err(format!("has no text `{field}`")),
    };
    let maybe = |field: &str| match entry.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("has a `{field}` that is no text")),
    };
    let resource = text("resource")?;
    let name = maybe("name")?.filter(|name| !name.is_empty());
    let split = resource.split_once('/');
    let split = split.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    // The name may stand in `name`, in `resource`, or in both.
    let (kind, name) = match (name, split) {
        (Some(name), Some((kind, same))) if name == same => (kind, Some(name)),
        (Some(name), _) => (resource, Some(name)),
        (None, Some((kind, name))) => (kind, Some(name)),
        (None, None) => (resource, None),
    };
    let unstated = Unstated {
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
        unstated,
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
    fn what_is_left_out_is_known(
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
        assert_eq!(entry.unstated.count(), left_out);
    }

    #[rstest]
    #[case(Some("a"), Some("a"), true)]
    #[case(Some("a"), None, true)]
    #[case(None, Some("a"), true)]
    #[case(None, None, false)]
    #[case(Some("a"), Some("b"), false)]
    #[case(Some(""), Some("b"), false)]
    fn one_principal_is_the_agent(
        #[case] named: Option<&str>,
        #[case] told: Option<&str>,
        #[case] holds: bool,
    ) {
        let data = json!({"agent_principal": named, "entries": []});
        assert_eq!(AuditLog::read(&data, told).is_ok(), holds);
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
