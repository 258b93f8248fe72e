//! Shared parts of the runtime's tests: a recording sink, a counting meter, an agent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use touchstone_agents::budget::Estimate;
use touchstone_agents::model::ModelCatalog;
use touchstone_agents::model::endpoint::Access;
use touchstone_agents::model::scripted::ScriptedModel;
use touchstone_agents::model::scripted::script::Script;
use touchstone_agents::ports::agent::*;
use touchstone_agents::ports::live_tools::*;
use touchstone_agents::ports::model::*;
use touchstone_agents::rules::RetryPolicy;
use touchstone_agents::rules::prices::ModelPrice;
use touchstone_agents::rules::worker_labels::NO_LABELS;
use touchstone_agents::runtime::Runtime;
use touchstone_host::net::address::AddressScope;
use touchstone_host::ports::clock::*;
use touchstone_kit::ids::{AgentId, EventId, RunId, TaskId, TenantId};
use touchstone_openwop::events::Event;
use touchstone_openwop::schema::compile_untrusted;
use touchstone_openwop::suite::{Fixtures, ModelClass};

use crate::support::asyncapi;

pub const PROMPT: &str = "canary-prompt: answer";

pub fn info() -> ModelInfo {
    ModelInfo {
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        price: Some(ModelPrice::configured(1.0, 2.0)),
        max_concurrency: 8,
        timeout: std::time::Duration::from_secs(30),
        retry: RetryPolicy {
            attempts: 3,
            base: std::time::Duration::from_millis(1),
            ..RetryPolicy::default()
        },
    }
}

/// A clock that stands still.
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        "1994-11-06T08:49:00Z".parse().unwrap()
    }

    fn uptime(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

/// Access settings for the endpoint at a URL.
pub fn access(url: &str, key: &str, info: ModelInfo) -> Access {
    Access {
        url: url.parse().unwrap(),
        key: Some(key.to_owned().into()),
        info,
        clock: Arc::new(Still),
        reach: AddressScope::Private,
    }
}

/// A catalogue with this model only.
pub fn bound(model: impl Model + 'static) -> ModelBinding {
    ModelCatalog::of(Arc::new(model))
        .resolve(ModelClass::General)
        .unwrap()
}

pub fn agent(tools: &[&str], schema: Option<Value>) -> AgentDefinition {
    AgentDefinition {
        agent_id: AgentId::from("vendor.acme.pack.default"),
        model_class: ModelClass::General,
        prompt: PROMPT.into(),
        tool_allowlist: tools.iter().map(|t| (*t).to_owned()).collect(),
        return_schema: schema.map(|schema| {
            let compiled = compile_untrusted(&schema).unwrap();
            (schema.into(), compiled)
        }),
    }
}

#[derive(Default)]
pub struct Recorder {
    pub events: Mutex<Vec<(Event, Option<EventId>)>>,
}

#[async_trait]
impl EventSink for Recorder {
    fn emit(&self, event: Event, cause: Option<&EventId>) -> EventId {
        asyncapi::check_payload(event.kind(), &json!(event));
        let mut events = self.events.lock().unwrap();
        events.push((event, cause.cloned()));
        EventId::from(format!("evt_{}", events.len()))
    }

    async fn kept(&self) -> Result<(), Unrecorded> {
        Ok(())
    }

    async fn may_call(&self) -> Result<(), Unrecorded> {
        Ok(())
    }
}

impl Recorder {
    pub fn kinds(&self) -> Vec<String> {
        self.events
            .lock()
            .unwrap()
            .iter()
            .map(|(event, _)| event.kind().to_owned())
            .collect()
    }

    pub fn payloads(&self, kind: &str) -> Vec<Value> {
        let events = self.events.lock().unwrap();
        let of_kind = events.iter().filter(|(event, _)| event.kind() == kind);
        of_kind
            .map(|(event, _)| serde_json::to_value(event).unwrap())
            .collect()
    }
}

/// Grants up to a number of calls and records usage.
pub struct Ledger {
    pub calls: usize,
    pub reserved: AtomicUsize,
    pub settled: Mutex<Vec<(Estimate, Estimate)>>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            calls: usize::MAX,
            reserved: AtomicUsize::new(0),
            settled: Mutex::default(),
        }
    }
}

#[async_trait]
impl Meter for Ledger {
    async fn reserve(&self, _: Estimate) -> Result<(), Exhausted> {
        if self.reserved.load(Ordering::SeqCst) >= self.calls {
            return Err(Exhausted);
        }
        self.reserved.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn settle(&self, estimate: Estimate, used: Estimate) {
        self.settled.lock().unwrap().push((estimate, used));
    }

    async fn call_tool(&self) -> Result<(), Exhausted> {
        Ok(())
    }

    async fn retry(&self) -> Result<(), Exhausted> {
        Ok(())
    }
}

/// One invocation and its recorded effects.
pub struct Trial {
    pub agent: AgentDefinition,
    pub input: Value,
    pub fixtures: Fixtures,
    pub live: Option<std::sync::Arc<dyn LiveTools>>,
    pub recorder: Recorder,
    pub ledger: Ledger,
    pub runtime: Runtime,
    pub max_tokens: Option<u64>,
}

impl Trial {
    pub fn new(agent: AgentDefinition) -> Self {
        Self {
            agent,
            input: json!({"q": "canary-input"}),
            fixtures: Fixtures::default(),
            live: None,
            recorder: Recorder::default(),
            ledger: Ledger::default(),
            runtime: Runtime::default(),
            max_tokens: Some(50),
        }
    }

    pub fn with_fixtures(mut self, fixtures: Value) -> Self {
        self.fixtures = serde_json::from_value(fixtures).unwrap();
        self
    }

    pub async fn run(&self, binding: &ModelBinding) -> InvocationResult {
        self.invoke(binding, None).await
    }

    /// Runs the task with these files and turns of its user.
    pub async fn converse(
        &self,
        binding: &ModelBinding,
        dialogue: Dialogue<'_>,
    ) -> InvocationResult {
        self.invoke(binding, Some(dialogue)).await
    }

    async fn invoke(
        &self,
        binding: &ModelBinding,
        dialogue: Option<Dialogue<'_>>,
    ) -> InvocationResult {
        let task = TaskId::from("task-1");
        let (tenant, run) = (TenantId::from("acme"), RunId::from("run_1"));
        let invocation = Invocation {
            tenant: &tenant,
            run: &run,
            invocation_id: "inv_1".to_owned(),
            agent: &self.agent,
            agent_version: "1.0.0",
            agent_channel: None,
            model: binding,
            input: &self.input,
            dialogue,
            fixtures: Some(&self.fixtures),
            recorded: None,
            live: self.live.as_deref(),
            temperature: Some(0.0),
            max_tokens: self.max_tokens,
            max_loop_iterations: None,
            timeout: None,
            node_id: &task,
            worker_labels: &NO_LABELS,
        };
        self.runtime
            .invoke(invocation, &self.ledger, &self.recorder)
            .await
    }

    pub async fn run_script(&self, script: Value) -> InvocationResult {
        let script = Script::parse(script.to_string().as_bytes()).unwrap();
        let catalog = ModelCatalog::of(std::sync::Arc::new(ScriptedModel::new(script, info())));
        self.run(&catalog.resolve(ModelClass::General).unwrap())
            .await
    }
}

/// Number of permits available without waiting.
pub fn free(binding: &ModelBinding) -> usize {
    let taken: Vec<_> =
        std::iter::from_fn(|| binding.permits.acquire().now_or_never()?.ok()).collect();
    taken.len()
}

pub fn decided(result: &InvocationResult) -> &Value {
    match &result.end {
        InvocationEnd::Decided { output } => output,
        other => panic!("not a decision: {other:?}"),
    }
}

pub fn failed(result: &InvocationResult) -> &str {
    match &result.end {
        InvocationEnd::Failed { reason } => reason,
        other => panic!("not an agent failure: {other:?}"),
    }
}

pub fn unjudged(result: &InvocationResult) -> &str {
    match &result.end {
        InvocationEnd::Unjudged { reason } => reason,
        other => panic!("judged: {other:?}"),
    }
}
