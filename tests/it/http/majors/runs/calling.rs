//! A host whose agent calls tools, as a test says for each run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use touchstone_agents::ports::live_tools::{LiveCall, LiveTools, ToolAnswer, ToolsUnavailable};
use touchstone_agents::ports::model::{Model, ModelError, ModelInfo};
use touchstone_agents::rules::{
    Effects, Message, ModelReply, ModelRequest, RetryPolicy, ToolCall, ToolDefinition,
};
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_openwop::wire::version::Majors;

use crate::http::majors::{serving, under_v2};
use crate::http::support::host::{Lab, Reply, SUITE, TestHost, agent_pack, public_place, suite};
use crate::store::{Engine, TestStore};

const PACK: &str = "community.bench.caller";
pub const AGENT: &str = "community.bench.caller.default";
/// Reads, and has no side effects.
pub const LOOK: &str = "bench:look";
/// Acts. `{"fails": true}` makes it answer with an error, `{"gone": true}` not at all.
pub const ACT: &str = "bench:act";

/// Makes the calls planned for its input one after the other, then says the input.
pub struct Caller {
    info: ModelInfo,
    plan: Mutex<HashMap<String, Vec<(&'static str, Value)>>>,
}

impl Caller {
    fn new() -> Self {
        Self {
            info: ModelInfo {
                provider: "bench".to_owned(),
                model: "caller-1".to_owned(),
                price: None,
                max_concurrency: 48,
                timeout: Duration::from_secs(30),
                retry: RetryPolicy::default(),
            },
            plan: Mutex::default(),
        }
    }

    /// Sets the calls for an input, for the runs from now on.
    pub fn plan(&self, says: &str, calls: &[(&'static str, Value)]) {
        let mut plan = self.plan.lock().unwrap();
        plan.insert(says.to_owned(), calls.to_vec());
    }
}

#[async_trait]
impl Model for Caller {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let says = request.messages.iter().find_map(|message| match message {
            Message::User(text) => Some(serde_json::from_str::<Value>(text).unwrap()),
            _ => None,
        });
        let says = says.unwrap()["say"].as_str().unwrap().to_owned();
        let messages = request.messages.iter();
        let made = messages
            .filter(|it| matches!(it, Message::Tool { .. }))
            .count();
        let plan = self.plan.lock().unwrap();
        let next = plan.get(&says).and_then(|calls| calls.get(made)).cloned();
        Ok(match next {
            Some((tool, arguments)) => ModelReply {
                tool_calls: vec![ToolCall {
                    id: format!("call_{made}"),
                    tool: tool.to_owned(),
                    arguments: Ok(arguments),
                }],
                ..ModelReply::default()
            },
            None => ModelReply {
                text: Some(says),
                ..ModelReply::default()
            },
        })
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}

/// Live tools that remember their calls: the activity id and the tool.
#[derive(Default)]
pub struct Toolbox(Mutex<Vec<(String, String)>>);

impl Toolbox {
    pub fn calls(&self) -> Vec<(String, String)> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl LiveTools for Toolbox {
    async fn offers(
        &self,
        tools: &[String],
        _: &TaskId,
    ) -> Result<Vec<ToolDefinition>, ToolsUnavailable> {
        let tools = tools.iter().map(|tool| ToolDefinition {
            tool: tool.clone(),
            description: None,
            input_schema: json!({"type": "object"}),
            effects: match tool.as_str() {
                ACT => Effects::Allowed,
                _ => Effects::None,
            },
        });
        Ok(tools.collect())
    }

    async fn call(&self, call: LiveCall<'_>) -> Result<ToolAnswer, ToolsUnavailable> {
        let mut calls = self.0.lock().unwrap();
        calls.push((call.activity.to_owned(), call.tool.to_owned()));
        let has = |name: &str| call.arguments.get(name) == Some(&json!(true));
        if has("gone") {
            return Err(ToolsUnavailable::because("tool_timeout"));
        }
        Ok(match has("fails") {
            true => ToolAnswer::Failed(json!("no")),
            false => ToolAnswer::Answered(json!({"nth": calls.len()})),
        })
    }
}

/// A host that serves both majors, with an agent and a suite of the tasks `task-0`, which says `a`, and
/// `task-1`, which says `b`.
pub struct Calling {
    pub host: TestHost,
    pub agent: Arc<Caller>,
    pub tools: Arc<Toolbox>,
    pub database: TestStore,
}

impl Calling {
    /// `None` if the engine is not available.
    pub async fn on(engine: Engine) -> Option<Self> {
        let calling = Self::over(engine.database().await?).await;
        let host = &calling.host;
        host.install_pack(&agent_pack(PACK, &[LOOK, ACT])).await;
        let mut suite = suite(&[json!({"say": "a"}), json!({"say": "b"})]);
        suite["modes"] = json!(["golden", "regression", "live-shadow"]);
        for version in ["1.0.0", "1.1.0"] {
            suite["version"] = json!(version);
            let imported = host.post("/v1/host/touchstone/suites", &suite).await;
            assert_eq!(imported.status, StatusCode::CREATED, "{imported:?}");
        }
        host.work();
        Some(calling)
    }

    /// A host without workers over a store.
    async fn over(database: TestStore) -> Self {
        let agent = Arc::new(Caller::new());
        let tools = Arc::new(Toolbox::default());
        let lab = Lab {
            agent: Some(agent.clone()),
            tools: Some(tools.clone()),
            ..Lab::default()
        };
        let store = database.open().await;
        let host = TestHost::lab(store, serving(Majors::Both), public_place(), lab).await;
        Self {
            host,
            agent,
            tools,
            database,
        }
    }

    /// The same store with another host, as after a restart.
    pub async fn restarted(self) -> Self {
        let Self { host, database, .. } = self;
        drop(host);
        Self::over(database).await
    }

    /// The request for a run under major 2 with more members.
    pub fn body(&self, modes: &[&str], more: Value) -> Value {
        let mut body = json!({"mode": "eval", "evalSuiteRef": format!("{SUITE}@1.0.0"), "agentId": AGENT,
            "evalModes": modes});
        let members = body.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        body
    }

    pub async fn create_v2(&self, body: &Value) -> Reply {
        under_v2(&self.host, "POST", "/runs")
            .json(body)
            .send()
            .await
    }

    /// The same run under major 1: members about the evaluation are in `configurable`, and ids have no
    /// tenant.
    pub async fn create_v1(&self, body: &Value) -> Reply {
        let mut body = body.clone();
        let members = body.as_object_mut().unwrap();
        let mut configurable = Map::new();
        for name in ["evalModes", "fixtureRuns", "baselineRunId"] {
            if let Some(value) = members.remove(name) {
                let text = value.to_string().replace("acme/", "");
                configurable.insert(name.to_owned(), serde_json::from_str(&text).unwrap());
            }
        }
        members.insert("configurable".to_owned(), json!(configurable));
        self.host.post("/v1/runs", &body).await
    }

    /// Starts a run under major 2.
    pub async fn start(&self, body: &Value) -> RunId {
        let created = self.create_v2(body).await;
        assert_eq!(created.status, StatusCode::CREATED, "{}", created.text());
        opaque(&created)
    }

    /// Runs the whole suite with live tools.
    pub async fn recorded(&self) -> RunId {
        let run = self.start(&self.body(&["live-shadow"], json!({}))).await;
        self.host.ended_of(&run).await;
        run
    }

    /// The log of an ended run under major 2.
    pub async fn log(&self, run: &RunId) -> Vec<Value> {
        self.host.ended_of(run).await;
        let path = format!("/runs/acme~2F{run}/events/poll?timeout=1");
        let reply = under_v2(&self.host, "GET", &path).send().await;
        reply.json()["events"].as_array().unwrap().clone()
    }
}

/// The id of a run in an answer of either major, without its tenant.
pub fn opaque(created: &Reply) -> RunId {
    let created = created.json();
    let id = created["runId"].as_str().unwrap();
    id.strip_prefix("acme/").unwrap_or(id).into()
}

/// The payloads of a log's events of one type.
pub fn payloads<'a>(log: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let events = log.iter().filter(|event| event["type"] == kind);
    events.map(|event| &event["payload"]).collect()
}
