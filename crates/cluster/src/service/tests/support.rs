//! Owners, workers and a model in one process, with a clock that the tests advance.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use touchstone_agents::budget::{Budget, Estimate, Limits, Reserve, Spending};
use touchstone_agents::model::{EndpointPermits, ModelCatalog};
use touchstone_agents::ports::agent::{
    AgentDefinition, AgentRuntime, EventSink, Exhausted, Invocation, InvocationResult, Meter,
    Unrecorded,
};
use touchstone_agents::ports::model::{Model, ModelBinding, ModelError, ModelInfo};
use touchstone_agents::rules::prices::ModelPrice;
use touchstone_agents::rules::worker_labels::{WorkerLabel, WorkerLabels};
use touchstone_agents::rules::{
    EndpointPin, ModelReply, ModelRequest, RecordedCall, RetryPolicy, TaskHint, TokenUsage,
    ToolCall,
};
use touchstone_agents::runtime::Runtime;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_kit::ids::{AgentId, EventId, RunId, TaskId, TenantId};
use touchstone_openwop::events::Event;
use touchstone_openwop::suite::{Fixtures, ModelClass};

use crate::memory::MemoryBus;
use crate::ports::bus::{Bus, BusError, Delivery, Request};
use crate::rules::access::pools::{Pool, Pools};
use crate::rules::access::rights::{Rights, WorkerEntry};
use crate::rules::lane::Lane;
use crate::rules::presence::WorkerState;
use crate::rules::subjects::{Address, Operation};
use crate::rules::wire::parts::ContentLimits;
use crate::service::owner::{ClusterRuntime, Owner};
use crate::service::worker::{Worker, WorkerSettings};

pub const HOLD: Duration = Duration::from_secs(8);

pub struct TestClock(pub Instant);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }
}

#[derive(Default)]
pub struct TestIds(AtomicU64);

impl Ids for TestIds {
    fn mint(&self, prefix: &str) -> String {
        format!("{prefix}_{}", self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::nil()
    }

    fn secret(&self) -> [u8; 32] {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        [u8::try_from(number % 256).unwrap(); 32]
    }
}

/// Counts the calls that are made at the same time.
#[derive(Default)]
pub struct AtOnce {
    now: AtomicUsize,
    pub most: AtomicUsize,
}

impl AtOnce {
    fn begin(&self) -> InFlight<'_> {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        InFlight(self)
    }
}

struct InFlight<'a>(&'a AtOnce);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers "done" after a tool call, and counts the calls of each task.
pub struct TestModel {
    info: ModelInfo,
    pub calls: Arc<Mutex<HashMap<String, usize>>>,
    at_once: Arc<AtOnce>,
    /// Calls do not end while it is true, as in a process that was stopped.
    stopped: watch::Receiver<bool>,
}

#[async_trait]
impl Model for TestModel {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let _in_flight = self.at_once.begin();
        let task = request.task.as_ref().unwrap();
        let id = task.id.as_str().to_owned();
        *self.calls.lock().unwrap().entry(id).or_default() += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.stopped
            .clone()
            .wait_for(|stopped| !stopped)
            .await
            .unwrap();
        let usage = Some(TokenUsage {
            input: 10,
            output: 5,
            ..TokenUsage::default()
        });
        let uses_tool = task.input.get("tool").is_some();
        if uses_tool && request.messages.len() < 3 {
            let call = ToolCall {
                id: "call_1".to_owned(),
                tool: "docs:find".to_owned(),
                arguments: Ok(json!({})),
            };
            return Ok(ModelReply {
                tool_calls: vec![call],
                usage,
                ..ModelReply::default()
            });
        }
        Ok(ModelReply {
            text: Some(answer_of(task)),
            usage,
            ..ModelReply::default()
        })
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}

/// "done", and as many further bytes as the task asks for.
fn answer_of(task: &TaskHint<'_>) -> String {
    let bytes = task.input.get("answer").and_then(Value::as_u64);
    let more = "z".repeat(usize::try_from(bytes.unwrap_or(0)).unwrap());
    format!("done {}{more}", task.id)
}

fn info() -> ModelInfo {
    ModelInfo {
        provider: "openai".to_owned(),
        model: "test".to_owned(),
        price: Some(ModelPrice::configured(1.0, 2.0)),
        max_concurrency: 100,
        timeout: Duration::from_secs(3600),
        retry: RetryPolicy::default(),
    }
}

pub fn labels(names: &[&str]) -> WorkerLabels {
    let labels = names.iter().map(|it| WorkerLabel::parse(it).unwrap());
    WorkerLabels::new(labels.collect()).unwrap()
}

pub fn endpoint(name: &str) -> EndpointPin {
    EndpointPin {
        url: None,
        digest: format!("sha256-{name}"),
    }
}

/// The answer as a host of an earlier version would give it.
pub fn earlier(answer: &Bytes) -> Bytes {
    let mut answer: Value = serde_json::from_slice(answer).unwrap();
    if let Some(answer) = answer.as_object_mut() {
        answer.remove("combines");
        answer.remove("largest_fact");
    }
    answer.to_string().into()
}

/// Passes messages on, and can lose, repeat and hold them back.
pub struct TestBus {
    bus: MemoryBus,
    stopped: watch::Receiver<bool>,
    /// One of how many requests is lost, one is answered in vain and one is repeated; 0 for none.
    faults: usize,
    requests: AtomicUsize,
    /// Queues take nothing while it is true.
    cut_off: watch::Receiver<bool>,
    asked: Arc<Mutex<Vec<Operation>>>,
    is_earlier: Arc<AtomicBool>,
}

impl TestBus {
    fn check_connection(&self) -> Result<(), BusError> {
        match *self.cut_off.borrow() {
            true => Err(BusError::Failed("no connection".to_owned())),
            false => Ok(()),
        }
    }

    /// The fault of the next message. Faults are spread, so that a message that is sent again at
    /// regular times is not lost each time.
    fn fault(&self) -> Option<usize> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let spread = number.wrapping_add(1).wrapping_mul(2_654_435_761) >> 16;
        spread.checked_rem(self.faults)
    }
}

#[async_trait]
impl Bus for TestBus {
    async fn publish(&self, lane: &Lane, replica: &str, message: Bytes) -> Result<(), BusError> {
        self.check_connection()?;
        if self.fault() == Some(0) {
            return Ok(());
        }
        self.bus.publish(lane, replica, message).await
    }

    async fn waiting(&self, lane: &Lane) -> Result<u64, BusError> {
        self.check_connection()?;
        self.bus.waiting(lane).await
    }

    async fn filled(&self, pool: &Pool) -> Result<BTreeSet<String>, BusError> {
        self.bus.filled(pool).await
    }

    async fn pull(
        &self,
        lane: &Lane,
        most: usize,
        longest: Duration,
    ) -> Result<Vec<Delivery>, BusError> {
        let pulled = self.bus.pull(lane, most, longest).await;
        self.stopped
            .clone()
            .wait_for(|stopped| !stopped)
            .await
            .unwrap();
        pulled
    }

    async fn request(
        &self,
        address: &Address,
        message: Bytes,
        longest: Duration,
    ) -> Result<Bytes, BusError> {
        self.stopped
            .clone()
            .wait_for(|stopped| !stopped)
            .await
            .unwrap();
        self.asked.lock().unwrap().push(address.operation);
        let fault = self.fault();
        if fault == Some(0) {
            tokio::time::sleep(longest).await;
            return Err(BusError::NoAnswer);
        }
        let answer = self.bus.request(address, message.clone(), longest).await;
        let answer = match self.is_earlier.load(Ordering::Relaxed) {
            true => answer.map(|it| earlier(&it)),
            false => answer,
        };
        match fault {
            // The answer is lost.
            Some(1) => {
                tokio::time::sleep(longest).await;
                Err(BusError::NoAnswer)
            }
            // The message arrives again, after later ones.
            Some(2) => {
                let (bus, address) = (self.bus.clone(), address.clone());
                #[expect(clippy::disallowed_methods, reason = "a late message")]
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(150)).await;
                    let _ = bus.request(&address, message, longest).await;
                });
                answer
            }
            _ => answer,
        }
    }

    async fn serve(&self, replica: &str) -> Result<mpsc::Receiver<Request>, BusError> {
        self.bus.serve(replica).await
    }
}

/// A worker process.
pub struct Process {
    running: JoinHandle<()>,
    stopped: watch::Sender<bool>,
    pub stop: CancellationToken,
}

impl Process {
    /// As `SIGKILL` does.
    pub fn kill(&self) {
        self.running.abort();
    }

    /// As `SIGSTOP` and `SIGCONT` do.
    pub fn set_stopped(&self, stopped: bool) {
        self.stopped.send_replace(stopped);
    }

    pub async fn ended(self) {
        self.running.await.unwrap();
    }
}

pub struct Cluster {
    pub bus: MemoryBus,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    pub owner: Arc<Owner>,
    pub calls: Arc<Mutex<HashMap<String, usize>>>,
    pub at_once: Arc<AtOnce>,
    pub faults: usize,
    /// Whether the host has no connection to the queues.
    pub cut_off: watch::Sender<bool>,
    /// The requests of all workers.
    pub asked: Arc<Mutex<Vec<Operation>>>,
    /// Whether the host answers as one of an earlier version.
    pub is_earlier: Arc<AtomicBool>,
    /// Largest task in bytes that further workers take in parts.
    pub largest: usize,
    _never_stopped: watch::Sender<bool>,
    _serving: CancellationToken,
}

impl Cluster {
    pub async fn start(faults: usize) -> Self {
        Self::start_with(faults, &[]).await
    }

    /// With these limits of large tasks.
    pub async fn start_with_content(faults: usize, content: ContentLimits) -> Self {
        Self::start_of(faults, &[], content).await
    }

    /// With these entries of workers.
    pub async fn start_with(faults: usize, workers: &[WorkerEntry]) -> Self {
        Self::start_of(faults, workers, ContentLimits::default()).await
    }

    async fn start_of(faults: usize, workers: &[WorkerEntry], content: ContentLimits) -> Self {
        let bus = MemoryBus::default();
        let clock: Arc<dyn Clock> = Arc::new(TestClock(Instant::now()));
        let ids: Arc<dyn Ids> = Arc::new(TestIds::default());
        let (never_stopped, stopped) = watch::channel(false);
        let cut_off = watch::Sender::new(false);
        let owners_bus = Arc::new(TestBus {
            bus: bus.clone(),
            stopped,
            faults,
            requests: AtomicUsize::new(1),
            cut_off: cut_off.subscribe(),
            asked: Arc::default(),
            is_earlier: Arc::default(),
        });
        let owner = Owner::new(owners_bus, clock.clone(), ids.clone(), HOLD)
            .with_access(Pools::default(), Rights::new(workers).unwrap())
            .with_content(content);
        let (owner, serving) = (Arc::new(owner), CancellationToken::new());
        #[expect(clippy::disallowed_methods, reason = "ends with the test")]
        tokio::spawn(owner.clone().serve(serving.clone()));
        tokio::task::yield_now().await;
        Self {
            bus,
            clock,
            ids,
            owner,
            calls: Arc::default(),
            at_once: Arc::default(),
            faults,
            cut_off,
            asked: Arc::default(),
            is_earlier: Arc::default(),
            largest: content.task,
            _never_stopped: never_stopped,
            _serving: serving,
        }
    }

    pub fn runtime(&self) -> ClusterRuntime {
        ClusterRuntime {
            owner: self.owner.clone(),
            local: Runtime::default(),
        }
    }

    pub fn model(&self, endpoint: Option<EndpointPin>) -> ModelBinding {
        let (_, stopped) = watch::channel(false);
        self.model_of(endpoint, stopped, info())
    }

    fn model_of(
        &self,
        endpoint: Option<EndpointPin>,
        stopped: watch::Receiver<bool>,
        info: ModelInfo,
    ) -> ModelBinding {
        ModelBinding {
            model: Arc::new(TestModel {
                info,
                calls: self.calls.clone(),
                at_once: self.at_once.clone(),
                stopped,
            }),
            permits: Arc::new(EndpointPermits::new(100)),
            endpoint,
            worker_labels: WorkerLabels::default(),
        }
    }

    pub fn worker(&self, name: &str, concurrency: usize) -> Process {
        self.worker_for(name, concurrency, "test")
    }

    pub fn worker_for(&self, name: &str, concurrency: usize, model: &str) -> Process {
        self.worker_of(&Pool::shared(), name, concurrency, model)
    }

    pub fn worker_of(&self, pool: &Pool, name: &str, concurrency: usize, model: &str) -> Process {
        self.start_worker(pool, name, concurrency, model, info(), &[])
    }

    /// A worker with labels.
    pub fn worker_with_labels(&self, name: &str, labels: &[&str]) -> Process {
        self.start_worker(&Pool::shared(), name, 4, "test", info(), labels)
    }

    /// A worker whose own configuration allows fewer calls than tasks.
    pub fn worker_with_calls(&self, name: &str, concurrency: usize, calls: u32) -> Process {
        let info = ModelInfo {
            max_concurrency: calls,
            ..info()
        };
        self.start_worker(&Pool::shared(), name, concurrency, "test", info, &[])
    }

    /// What a worker with labels announces.
    pub fn state_of_worker(&self, names: &[&str]) -> WorkerState {
        WorkerState {
            capacity: 1,
            free: 1,
            models: vec![self.model(Some(endpoint("test"))).identity().to_string()],
            draining: false,
            labels: labels(names),
            largest: self.largest,
        }
    }

    fn start_worker(
        &self,
        pool: &Pool,
        name: &str,
        concurrency: usize,
        model: &str,
        info: ModelInfo,
        names: &[&str],
    ) -> Process {
        let (stop_process, stopped) = watch::channel(false);
        let bus = Arc::new(TestBus {
            bus: self.bus.clone(),
            stopped: stopped.clone(),
            faults: self.faults,
            requests: AtomicUsize::new(0),
            cut_off: watch::channel(false).1,
            asked: self.asked.clone(),
            is_earlier: self.is_earlier.clone(),
        });
        let binding = self.model_of(Some(endpoint(model)), stopped, info);
        let models = ModelCatalog::default().answered_by(binding.model, endpoint(model));
        let settings = WorkerSettings {
            name: name.to_owned(),
            concurrency,
            drain: Duration::from_secs(60),
            pools: vec![pool.clone()],
            labels: labels(names),
            largest: self.largest,
        };
        let worker = Worker::new(
            bus,
            self.clock.clone(),
            self.ids.clone(),
            &models,
            Vec::new(),
            settings,
        );
        let stop = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "killed by the test")]
        let running = tokio::spawn(Arc::new(worker).run(stop.clone()));
        Process {
            running,
            stopped: stop_process,
            stop,
        }
    }

    pub fn calls_of(&self, task: &str) -> usize {
        self.calls.lock().unwrap().get(task).copied().unwrap_or(0)
    }

    pub fn all_calls(&self) -> usize {
        self.calls.lock().unwrap().values().sum()
    }
}

/// The log of one task.
pub struct Recorder {
    pub events: Mutex<Vec<(Event, Option<EventId>)>>,
    pub may_call: watch::Sender<bool>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            events: Mutex::default(),
            may_call: watch::Sender::new(true),
        }
    }
}

impl Recorder {
    /// Kinds, payloads and causes without the ids of attempts.
    pub fn described(&self) -> Vec<Value> {
        let events = self.events.lock().unwrap();
        let events = events.iter().map(|(event, cause)| {
            let mut payload = serde_json::to_value(event).unwrap();
            if let Some(id) = payload.get_mut("invocationId") {
                *id = json!("inv");
            }
            json!([event.kind(), payload, cause.as_ref().map(EventId::as_str)])
        });
        events.collect()
    }

    pub fn kinds(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        events
            .iter()
            .map(|(event, _)| event.kind().to_owned())
            .collect()
    }

    pub fn count(&self, kind: &str) -> usize {
        self.kinds().iter().filter(|it| *it == kind).count()
    }
}

#[async_trait]
impl EventSink for Recorder {
    fn emit(&self, event: Event, cause: Option<&EventId>) -> EventId {
        let mut events = self.events.lock().unwrap();
        events.push((event, cause.cloned()));
        EventId::from(format!("evt_{}", events.len() - 1))
    }

    async fn kept(&self) -> Result<(), Unrecorded> {
        Ok(())
    }

    async fn may_call(&self) -> Result<(), Unrecorded> {
        let mut may_call = self.may_call.subscribe();
        may_call.wait_for(|it| *it).await.map_err(|_| Unrecorded)?;
        Ok(())
    }
}

/// The budget of a run.
pub struct Account {
    budget: Mutex<Budget>,
    settled: Notify,
    pub reserved: AtomicUsize,
    pub is_exhausted: AtomicBool,
}

impl Account {
    pub fn new(limits: Limits) -> Self {
        Self::resumed(limits, Spending::default())
    }

    /// The budget of a run that has spent something already.
    pub fn resumed(limits: Limits, spent: Spending) -> Self {
        Self {
            budget: Mutex::new(Budget::new(limits, spent)),
            settled: Notify::new(),
            reserved: AtomicUsize::new(0),
            is_exhausted: AtomicBool::new(false),
        }
    }

    pub fn spent(&self) -> Spending {
        self.budget.lock().unwrap().spent()
    }
}

#[async_trait]
impl Meter for Account {
    async fn reserve(&self, estimate: Estimate) -> Result<(), Exhausted> {
        loop {
            let settled = self.settled.notified();
            let reserve = self.budget.lock().unwrap().reserve(estimate);
            match reserve {
                Reserve::Granted => {
                    self.reserved.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Reserve::Exhausted(_) => {
                    self.is_exhausted.store(true, Ordering::Relaxed);
                    return Err(Exhausted);
                }
                Reserve::Wait => settled.await,
            }
        }
    }

    fn settle(&self, estimate: Estimate, used: Estimate) {
        self.reserved.fetch_sub(1, Ordering::Relaxed);
        self.budget.lock().unwrap().settle(estimate, used);
        self.settled.notify_waiters();
    }

    async fn call_tool(&self) -> Result<(), Exhausted> {
        self.budget
            .lock()
            .unwrap()
            .call_tool()
            .map_err(|_| Exhausted)
    }

    async fn retry(&self) -> Result<(), Exhausted> {
        self.budget.lock().unwrap().retry().map_err(|_| Exhausted)
    }
}

/// A task of a run.
pub struct Task {
    pub run: RunId,
    pub id: String,
    /// The id of the invocation that the executor asks for.
    pub invocation: String,
    pub tenant: String,
    pub input: Value,
    pub model: ModelBinding,
    /// The labels that its worker needs.
    pub labels: WorkerLabels,
    /// What answers its tool calls instead of its fixtures.
    pub recorded: Option<Vec<RecordedCall>>,
}

impl Task {
    pub async fn run(
        &self,
        runtime: &dyn AgentRuntime,
        meter: &dyn Meter,
        sink: &dyn EventSink,
    ) -> InvocationResult {
        let agent = AgentDefinition {
            agent_id: AgentId::from("pack.agent"),
            model_class: ModelClass::General,
            prompt: "Answer.".into(),
            tool_allowlist: vec!["docs:find".to_owned()],
            return_schema: None,
        };
        let fixtures: Fixtures = serde_json::from_value(json!({
            "toolResponses": [{"tool": "docs:find", "response": {"found": 1}}],
        }))
        .unwrap();
        let tenant = TenantId::from(&*self.tenant);
        let node = TaskId::from(self.id.as_str());
        let invocation = Invocation {
            tenant: &tenant,
            run: &self.run,
            invocation_id: self.invocation.clone(),
            agent: &agent,
            agent_version: "1.0.0",
            agent_channel: Some("stable"),
            model: &self.model,
            input: &self.input,
            dialogue: None,
            fixtures: Some(&fixtures),
            recorded: self.recorded.as_deref(),
            live: None,
            temperature: Some(0.0),
            max_tokens: Some(50),
            max_loop_iterations: None,
            timeout: None,
            node_id: &node,
            worker_labels: &self.labels,
        };
        runtime.invoke(invocation, meter, sink).await
    }
}
