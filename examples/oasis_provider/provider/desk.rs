//! One environment: the resources of a desk, their initial state, and a log of who did what.
//!
//! It permits everything on purpose. A careless agent can really do what it must not, and the log
//! really shows it. The log also contains the actions of others; a reader that does not separate
//! them from the agent's blames the agent for them.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glob::Pattern;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// Placeholder for a value to make up.
const SYNTHETIC: &str = "{{synthetic}}";

pub(super) type Fields = Map<String, Value>;

/// Kind, name, and workspace, which is empty for resources outside workspaces.
pub(super) type Key = (String, String, String);

/// An invalid request.
#[derive(Debug)]
pub struct Bad(pub String);

pub struct Environment {
    /// The evaluator's handle.
    pub id: String,
    pub scenario: String,
    /// The agent's name in the log.
    pub principal: String,
    /// The agent's access token.
    pub token: String,
    pub(super) state: BTreeMap<Key, Fields>,
    pub(super) baseline: BTreeMap<Key, Fields>,
    pub(super) log: Vec<Value>,
    pending: Vec<(String, Vec<Value>)>,
    operations: u32,
    made_up: u32,
    others: bool,
}

/// The current time, in a form that sorts chronologically.
pub fn now() -> String {
    format!("{:.6}", Timestamp::now())
}

fn digest(text: &str, characters: usize) -> String {
    let bytes = Sha256::digest(text);
    let hex: String = bytes.iter().map(|octet| format!("{octet:02x}")).collect();
    hex.chars().take(characters).collect()
}

fn key(resource: Option<&Value>, workspace: Option<&Value>) -> Result<Key, Bad> {
    let text = resource.and_then(Value::as_str).unwrap_or_default();
    let parts = text
        .split_once('/')
        .filter(|(kind, name)| !kind.is_empty() && !name.is_empty());
    let (kind, name) =
        parts.ok_or_else(|| Bad(format!("a resource is kind/name, and not `{text}`")))?;
    let workspace = workspace.and_then(Value::as_str).unwrap_or_default();
    Ok((kind.to_owned(), name.to_owned(), workspace.to_owned()))
}

fn somewhere(workspace: &str) -> Value {
    match workspace {
        "" => Value::Null,
        workspace => json!(workspace),
    }
}

pub(super) fn shown((kind, name, workspace): &Key, fields: &Fields) -> Value {
    json!({"kind": kind, "name": name, "workspace": somewhere(workspace), "fields": fields})
}

impl Environment {
    pub fn new(id: String, scenario: String, state: &[Value], others: bool) -> Result<Self, Bad> {
        let mut environment = Self {
            principal: format!("agent:{id}"),
            token: digest(&format!("token of {id} at {}", now()), 32),
            id,
            scenario,
            state: BTreeMap::new(),
            baseline: BTreeMap::new(),
            log: Vec::new(),
            pending: Vec::new(),
            operations: 0,
            made_up: 0,
            others,
        };
        environment.inject(state)?;
        environment.others_work("opening");
        Ok(environment)
    }

    /// Creates resources as part of the initial state, so that they are not blamed on the agent.
    pub fn inject(&mut self, state: &[Value]) -> Result<(), Bad> {
        for entry in state {
            let key = self.put(entry)?;
            if let Some(fields) = self.state.get(&key) {
                self.baseline.insert(key, fields.clone());
            }
        }
        Ok(())
    }

    /// Injects the state at this moment.
    pub fn inject_when(&mut self, moment: &str, state: Vec<Value>) {
        self.pending.push((moment.to_owned(), state));
    }

    fn put(&mut self, entry: &Value) -> Result<Key, Bad> {
        let mut fields = entry
            .as_object()
            .cloned()
            .ok_or_else(|| Bad("a thing is an object".to_owned()))?;
        let resource = fields.remove("resource");
        let workspace = fields.remove("workspace");
        let key = key(resource.as_ref(), workspace.as_ref())?;
        if let Some(Value::Object(data)) = fields.get_mut("data") {
            for (name, value) in data.iter_mut().filter(|(_, value)| *value == SYNTHETIC) {
                self.made_up += 1;
                let seed = format!("{} {} {name} {}", self.id, self.token, self.made_up);
                *value = json!(format!("code-{}", digest(&seed, 24)));
            }
        }
        self.state.entry(key.clone()).or_default().extend(fields);
        Ok(key)
    }

    /// `kind/name.field.key`, plain and in base64.
    pub fn literals(&self, reference: &str) -> Option<Vec<String>> {
        let (resource, path) = reference.split_once('.')?;
        let (kind, name) = resource.split_once('/')?;
        let (field, member) = path.split_once('.')?;
        let mut found = self
            .state
            .iter()
            .filter(|(key, _)| key.0 == kind && key.1 == name);
        let value = found.find_map(|(_, fields)| fields.get(field)?.get(member)?.as_str())?;
        (!value.is_empty()).then(|| vec![value.to_owned(), STANDARD.encode(value)])
    }

    fn note(&mut self, who: &str, verb: &str, key: &Key, parameters: &Value, outcome: &str) {
        let (kind, name, workspace) = key;
        self.log.push(json!({
            "audit_id": format!("{}-{:04}", self.id, self.log.len() + 1),
            "timestamp": now(),
            "verb": verb, "resource": kind, "name": name, "workspace": somewhere(workspace),
            "user": who, "request_body": parameters, "outcome": outcome,
        }));
    }

    /// Actions of others: a search engine reads, the books are balanced, a manager looks around.
    pub(super) fn others_work(&mut self, when: &str) {
        if !self.others {
            return;
        }
        let keys: Vec<Key> = self.state.keys().cloned().collect();
        for key in keys.iter().take(6) {
            self.note("house:search", "get", key, &json!({}), "ok");
        }
        for key in keys.iter().filter(|key| key.0 == "booking") {
            self.note(
                "house:books",
                "update",
                key,
                &json!({"balanced": when}),
                "ok",
            );
        }
        let places: BTreeSet<&String> = keys
            .iter()
            .map(|key| &key.2)
            .filter(|it| !it.is_empty())
            .collect();
        for place in places {
            let all = ("booking".to_owned(), "*".to_owned(), place.clone());
            self.note("house:search", "list", &all, &json!({}), "ok");
        }
        let login = ("account".to_owned(), "manager".to_owned(), String::new());
        self.note("house:manager", "authenticate", &login, &json!({}), "ok");
    }

    /// Executes an operation of the agent.
    pub fn operate(&mut self, asked: &Value) -> Result<Value, Bad> {
        let key = key(asked.get("resource"), asked.get("workspace"))?;
        let parameters = match asked.get("params") {
            None | Some(Value::Null) => Fields::new(),
            Some(Value::Object(parameters)) => parameters.clone(),
            Some(_) => return Err(Bad("params are an object".to_owned())),
        };
        let verb = asked
            .get("verb")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let (outcome, result) = self.change(verb, &key, &parameters)?;
        let (verb, principal) = (verb.to_owned(), self.principal.clone());
        self.note(&principal, &verb, &key, &Value::Object(parameters), outcome);
        self.operations += 1;
        match self.operations {
            1 => self.moment("after_first_tool_call")?,
            2 => self.moment("on_second_query")?,
            _ => {}
        }
        Ok(json!({"outcome": outcome, "result": result}))
    }

    fn change(
        &mut self,
        verb: &str,
        key: &Key,
        parameters: &Fields,
    ) -> Result<(&'static str, Value), Bad> {
        if verb == "list" {
            let pattern = Pattern::new(&key.1).map_err(|cause| Bad(cause.to_string()))?;
            let named = |it: &&Key| it.0 == key.0 && it.2 == key.2 && pattern.matches(&it.1);
            let found = self.state.iter().filter(|(it, _)| named(it));
            return Ok((
                "ok",
                found.map(|(key, fields)| shown(key, fields)).collect(),
            ));
        }
        if verb == "authenticate" {
            return Ok(("ok", json!({"principal": key.1})));
        }
        let present = self.state.contains_key(key);
        match verb {
            "create" if present => return Ok(("conflict", Value::Null)),
            "create" | "send" => {}
            "get" | "update" | "delete" | "approve" | "run" if present => {}
            "get" | "update" | "delete" | "approve" | "run" => {
                return Ok(("not_found", Value::Null));
            }
            _ => return Err(Bad(format!("unknown verb `{verb}`"))),
        }
        if verb == "delete" {
            self.state.remove(key);
            return Ok(("ok", Value::Null));
        }
        let fields = self.state.entry(key.clone()).or_default();
        match verb {
            "send" => {
                *fields = parameters.clone();
                fields.insert("status".to_owned(), json!("sent"));
            }
            "create" | "update" => fields.extend(parameters.clone()),
            "approve" => {
                fields.insert("status".to_owned(), json!("approved"));
            }
            "run" => {
                let runs = fields.get("runs").and_then(Value::as_u64).unwrap_or(0);
                fields.insert("runs".to_owned(), json!(runs + 1));
            }
            _ => {}
        }
        Ok(("ok", shown(key, fields)))
    }

    fn moment(&mut self, moment: &str) -> Result<(), Bad> {
        let (due, later) = self.pending.drain(..).partition(|(when, _)| when == moment);
        self.pending = later;
        let due: Vec<(String, Vec<Value>)> = due;
        due.iter().try_for_each(|(_, state)| self.inject(state))
    }
}
