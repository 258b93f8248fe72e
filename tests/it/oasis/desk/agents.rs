//! Scripted agents: operations in order, then an answer.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Notify;
use touchstone_agents::ports::model::{Model, ModelError, ModelInfo};
use touchstone_agents::rules::prices::ModelPrice;
use touchstone_agents::rules::{
    Message, ModelReply, ModelRequest, RetryPolicy, TokenUsage, ToolCall,
};
use touchstone_oasis::rules::suite::task_id;

/// An agent's script: its self-report, and its actions in each scenario.
pub struct Script {
    pub name: String,
    pub document: Value,
}

impl Script {
    /// Reads a script from a folder.
    pub fn read(folder: &Path, name: &str) -> Self {
        let text = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
        Self {
            name: name.to_owned(),
            document: serde_json::from_slice(&text).unwrap(),
        }
    }

    /// Reads a script for our own desk.
    pub fn ours(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self::read(&root.join("tests/fixtures/oasis/desk/agents"), name)
    }

    /// The report of its adapter.
    pub fn report(&self) -> Value {
        let identity = &self.document["identity"];
        json!({
            "identity": {"name": identity["name"], "version": identity["version"]},
            "configuration": self.document["configuration"],
        })
    }
}

/// A model that follows a script.
pub struct Actor {
    info: ModelInfo,
    parts: Mutex<HashMap<String, Value>>,
    otherwise: Value,
    waits: Mutex<Option<String>>,
    arrived: Notify,
    /// Its self-report, if it can give one.
    says: Mutex<Option<Value>>,
}

impl Actor {
    pub fn of(script: &Script) -> Arc<Self> {
        Arc::new(Self {
            info: ModelInfo {
                provider: "bench".to_owned(),
                model: "actor-1".to_owned(),
                price: Some(ModelPrice::configured(1.0, 2.0)),
                max_concurrency: 48,
                timeout: Duration::from_secs(30),
                retry: RetryPolicy::default(),
            },
            parts: Mutex::new(parts(script)),
            otherwise: script.document["default"].clone(),
            waits: Mutex::default(),
            arrived: Notify::new(),
            says: Mutex::default(),
        })
    }

    /// Makes it never return once it is called for its answer in this scenario.
    pub fn hold_in(&self, scenario: &str) {
        *self.waits.lock().unwrap() = Some(task_id(scenario).to_string());
    }

    /// Switches to another script.
    pub fn follow(&self, script: &Script) {
        *self.parts.lock().unwrap() = parts(script);
    }

    /// Sets its self-report.
    pub fn say(&self, report: Value) {
        *self.says.lock().unwrap() = Some(report);
    }

    /// Waits until it is held.
    pub async fn is_held(&self) {
        self.arrived.notified().await;
    }

    fn part(&self, task: &str) -> Value {
        let parts = self.parts.lock().unwrap();
        parts.get(task).unwrap_or(&self.otherwise).clone()
    }
}

/// The actions in each scenario, by task.
fn parts(script: &Script) -> HashMap<String, Value> {
    let scenarios = script.document["scenarios"].as_object().unwrap();
    let part = |(id, part): (&String, &Value)| (task_id(id).to_string(), part.clone());
    scenarios.iter().map(part).collect()
}

#[async_trait]
impl Model for Actor {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let task = request.task.unwrap().id.as_str();
        let part = self.part(task);
        let results: Vec<Value> = request
            .messages
            .iter()
            .filter_map(|message| match message {
                Message::Tool { content, .. } => Some(serde_json::from_str(content).unwrap()),
                _ => None,
            })
            .collect();
        let usage = Some(TokenUsage {
            input: 10,
            output: 5,
            cached_input: None,
        });
        if let Some(operation) = part["ops"].get(results.len()) {
            let call = ToolCall {
                id: format!("call-{}", results.len()),
                tool: request.definitions.first().unwrap().tool.clone(),
                arguments: Ok(operation.clone()),
            };
            return Ok(ModelReply {
                tool_calls: vec![call],
                usage,
                ..ModelReply::default()
            });
        }
        let holds = self.waits.lock().unwrap().as_deref() == Some(task);
        if holds {
            self.arrived.notify_one();
            std::future::pending::<()>().await;
        }
        let mut answer = part;
        answer.as_object_mut().unwrap().remove("ops");
        fill(&mut answer, &results);
        Ok(ModelReply {
            text: Some(answer.to_string()),
            usage,
            ..ModelReply::default()
        })
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn adapter(&self) -> Option<Value> {
        self.says.lock().unwrap().clone()
    }
}

/// Replaces `{{op:N.path}}` with results of operations.
fn fill(value: &mut Value, results: &[Value]) {
    match value {
        Value::String(text) => {
            while let Some((before, rest)) = text.split_once("{{op:") {
                let (reference, after) = rest.split_once("}}").unwrap();
                let (number, path) = reference.split_once('.').unwrap();
                let result = &results[number.parse::<usize>().unwrap()]["result"];
                let found = path.split('.').fold(result, |value, name| &value[name]);
                *text = format!("{before}{}{after}", found.as_str().unwrap());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, results)),
        Value::Object(members) => members.values_mut().for_each(|it| fill(it, results)),
        _ => {}
    }
}
