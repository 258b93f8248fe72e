//! A host without HTTP: a real store, the real runtime and a counting model.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use touchstone::database;
use touchstone::kinds::KINDS;
use touchstone_agents::budget::policy::BudgetSpec;
use touchstone_agents::model::EndpointPermits;
use touchstone_agents::ports::live_tools::LiveTools;
use touchstone_agents::ports::model::{Model, ModelBinding, ModelError, ModelInfo, Models};
use touchstone_agents::rules::prices::ModelPrice;
use touchstone_agents::rules::worker_labels::WorkerLabels;
use touchstone_agents::rules::{Message, ModelReply, ModelRequest, RetryPolicy, TokenUsage};
use touchstone_agents::runtime::Runtime;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::ports::ids::Ids as _;
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::service::lease::LeaseTerm;
use touchstone_host::store::database::Database;
use touchstone_host::system::{SystemClock, SystemIds};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_kit::integrity;
use touchstone_openwop::events::EventDocument;
use touchstone_openwop::suite::{EvalMode, ModelClass};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::LogMark;
use touchstone_packs::store as pack_store;
use touchstone_runs::ports::queue::{CancelRequest, Claimable};
use touchstone_runs::service::executor::control::RunControl;
use touchstone_runs::service::executor::eval::EvalExecutor;
use touchstone_runs::service::executor::task_loop::TenantPermits;
use touchstone_runs::service::executor::{ExecutionOutcome, Executor};
use touchstone_runs::service::library::Library;
use touchstone_runs::service::projections::{Projections, catch_up};
use touchstone_runs::store as run_store;

use touchstone_runs::rules::eval::rubric::Rubrics;
use touchstone_runs::rules::eval::suite_rules::read_suite;
use touchstone_runs::rules::kind::Extensions;
use touchstone_runs::rules::run::fold::RunState;
use touchstone_runs::rules::run::record::{
    EvalSpec, ExecutionPin, JudgePin, ModelPin, RunRecord, RunSpec, Work,
};

use crate::support::asyncapi;
use crate::support::host_keys;

/// Texts with this prefix are judged by a rubric.
pub const JUDGED: &str = "judge: ";
/// The rubric's criteria and their weights.
pub const CRITERIA: [(&str, f64); 3] = [("is kind", 0.5), ("is short", 0.3), ("is true", 0.2)];

/// The tool the agent may call.
pub const TOOL: &str = "t:act";

pub const AGENT: &str = "community.bench.echo.default";

/// The model's reply to a task, by the text of its input.
pub type Behaviour = fn(&str, usize) -> Result<ModelReply, ModelError>;

/// Answers with a `Behaviour` and counts the calls per text.
pub struct CountingModel {
    info: ModelInfo,
    behaviour: Behaviour,
    calls: Mutex<HashMap<String, usize>>,
    total: AtomicUsize,
}

impl CountingModel {
    /// Number of calls for this text.
    pub fn calls(&self, text: &str) -> usize {
        self.calls.lock().unwrap().get(text).copied().unwrap_or(0)
    }

    /// Number of all calls.
    pub fn total(&self) -> usize {
        self.total.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Model for CountingModel {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let text = request
            .messages
            .iter()
            .find_map(|message| match message {
                Message::User(text) => Some(text.to_string()),
                _ => None,
            })
            .unwrap();
        let text = serde_json::from_str::<Value>(&text)
            .map_or(text, |input| input["say"].as_str().unwrap().to_owned());
        self.total.fetch_add(1, Ordering::SeqCst);
        let nth = {
            let mut calls = self.calls.lock().unwrap();
            let nth = calls.entry(text.clone()).or_default();
            *nth += 1;
            *nth
        };
        tokio::task::yield_now().await;
        match text.as_str() {
            "hang" => std::future::pending::<()>().await,
            "stuck" if nth == 1 => std::future::pending::<()>().await,
            text if text.starts_with("nap") => tokio::time::sleep(Duration::from_millis(300)).await,
            "rest" => tokio::time::sleep(Duration::from_secs(3)).await,
            _ => {}
        }
        (self.behaviour)(&text, nth)
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}

impl Models for CountingModel {
    fn resolve(&self, _: ModelClass) -> Option<ModelBinding> {
        unreachable!("the bench resolves through its wrapper")
    }
}

struct One(Arc<CountingModel>, Option<Arc<dyn Model>>);

fn bound(model: Arc<dyn Model>) -> ModelBinding {
    ModelBinding {
        model,
        permits: Arc::new(EndpointPermits::new(64)),
        endpoint: None,
        worker_labels: WorkerLabels::default(),
    }
}

impl Models for One {
    fn resolve(&self, _: ModelClass) -> Option<ModelBinding> {
        Some(bound(self.0.clone()))
    }

    fn judge(&self) -> Option<ModelBinding> {
        self.1.clone().map(bound)
    }
}

/// Repeats the requested text.
pub fn echo(text: &str, _: usize) -> Result<ModelReply, ModelError> {
    Ok(ModelReply {
        text: Some(text.to_owned()),
        usage: Some(TokenUsage {
            input: 10,
            output: 5,
            cached_input: None,
        }),
        ..ModelReply::default()
    })
}

pub struct Bench {
    _dir: Option<TempDir>,
    pub store: Arc<Database>,
    pub model: Arc<CountingModel>,
    pub executor: Arc<Executor>,
    pub projections: Arc<Projections>,
    pub tenant: TenantId,
    /// The judge model, if there is one.
    pub judge: Option<ModelPin>,
}

impl Bench {
    pub async fn new(behaviour: Behaviour) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = database::open(
            dir.path().join("bench.db").to_str().unwrap(),
            host_keys::usual(),
        )
        .await
        .unwrap();
        Self {
            _dir: Some(dir),
            ..Self::on(store, behaviour)
        }
    }

    /// Location of its store.
    pub fn location(&self) -> String {
        let dir = self._dir.as_ref().expect("the bench has a separate store");
        format!("sqlite:{}", dir.path().join("bench.db").display())
    }

    /// A bench with a judge.
    pub async fn judged(behaviour: Behaviour, judge: Arc<dyn Model>) -> Self {
        let bench = Self::new(behaviour).await;
        let judged = Self::with(bench.store.clone(), behaviour, Some(judge));
        Self {
            _dir: bench._dir,
            ..judged
        }
    }

    /// A bench on an existing store.
    pub fn on(store: Arc<Database>, behaviour: Behaviour) -> Self {
        Self::with(store, behaviour, None)
    }

    /// The same with a judge, if there is one.
    pub fn with(store: Arc<Database>, behaviour: Behaviour, judge: Option<Arc<dyn Model>>) -> Self {
        Self::made(store, behaviour, judge, None)
    }

    /// A bench with live tools, of which the agent may call [`TOOL`].
    pub async fn acting(behaviour: Behaviour, tools: Arc<dyn LiveTools>) -> Self {
        let bench = Self::new(behaviour).await;
        let acting = Self::made(bench.store.clone(), behaviour, None, Some(tools));
        Self {
            _dir: bench._dir,
            ..acting
        }
    }

    fn made(
        store: Arc<Database>,
        behaviour: Behaviour,
        judge: Option<Arc<dyn Model>>,
        tools: Option<Arc<dyn LiveTools>>,
    ) -> Self {
        let info = ModelInfo {
            provider: "bench".to_owned(),
            model: "echo-1".to_owned(),
            price: Some(ModelPrice::configured(1.0, 2.0)),
            max_concurrency: 64,
            timeout: Duration::from_secs(30),
            retry: RetryPolicy {
                base: Duration::from_millis(1),
                ..RetryPolicy::default()
            },
        };
        let model = Arc::new(CountingModel {
            info,
            behaviour,
            calls: Mutex::default(),
            total: AtomicUsize::default(),
        });
        let judge_pin = judge.clone().map(|judge| bound(judge).pin());
        let eval = EvalExecutor {
            store: store.clone(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
            library: Arc::new(Library::new(store.clone(), KINDS)),
            models: Arc::new(One(model.clone(), judge)),
            cluster: None,
            runtime: Arc::new(Runtime::default()),
            tools,
            kinds: Vec::new(),
            permits: TenantPermits::new(64),
        };
        let projections = Arc::new(Projections::new(store.clone()));
        let executor = Executor::new(
            store.clone(),
            Arc::new(SystemClock),
            Arc::new(SystemIds),
            projections.clone(),
            eval,
        );
        Self {
            _dir: None,
            store,
            model,
            executor,
            projections,
            tenant: "acme".into(),
            judge: judge_pin,
        }
    }

    /// Creates a run with tasks `task-<n>` that expect the agent to repeat the text; `wrong` texts
    /// expect something else, and texts that begin with [`JUDGED`] are judged by [`CRITERIA`].
    pub async fn seed(&self, says: &[&str], change: impl FnOnce(&mut EvalSpec)) -> RunRecord {
        self.seed_within(says, 60_000, change).await
    }

    /// The same with a maximum duration.
    pub async fn seed_within(
        &self,
        says: &[&str],
        run_timeout_ms: u64,
        change: impl FnOnce(&mut EvalSpec),
    ) -> RunRecord {
        let tasks: Vec<Value> = says
            .iter()
            .enumerate()
            .map(|(n, say)| {
                if say.starts_with(JUDGED) {
                    let rubric = CRITERIA.map(|(criterion, weight)| json!({"criterion": criterion, "weight": weight}));
                    return json!({"taskId": format!("task-{n}"), "input": {"say": say},
                                  "expected": {"kind": "rubric", "rubric": rubric}});
                }
                let value = if say.starts_with("wrong") { json!("something else") } else { json!(say) };
                json!({"taskId": format!("task-{n}"), "input": {"say": say},
                       "expected": {"kind": "golden", "match": {"strategy": "exact", "value": value}}})
            })
            .collect();
        let suite = json!({"suiteId": "community.bench.evals.echo", "version": "1.0.0", "modes": ["golden", "rubric"],
                           "thresholds": {"passScore": 0.5}, "tasks": tasks});
        let suite = read_suite(KINDS, suite.to_string().as_bytes()).unwrap();
        pack_store::blobs::put(&self.store, &suite.digest(), suite.canonical.as_bytes())
            .await
            .unwrap();
        let pack = echo_pack();
        let pack_integrity = integrity::of(&pack);
        pack_store::blobs::put(&self.store, &pack_integrity, &pack)
            .await
            .unwrap();
        let mut eval = EvalSpec {
            suite_id: suite.suite.suite_id.clone(),
            suite_version: suite.suite.version.clone(),
            suite_digest: suite.digest(),
            scoring_digest: None,
            suite_signed: false,
            suite_task_count: says.len(),
            agent_id: AGENT.into(),
            agent_version: "1.0.0".to_owned(),
            agent_channel: None,
            pack_integrity,
            agent_content: None,
            model_class: ModelClass::General,
            model: ModelPin {
                provider: "bench".to_owned(),
                model: "echo-1".to_owned(),
            },
            judge: self
                .judge
                .as_ref()
                .and_then(|judge| JudgePin::of(judge, &Rubrics::of(&suite.suite.tasks), None)),
            safety_judge: None,
            simulated_user: None,
            attachments_pack: None,
            modes: vec![EvalMode::Golden],
            modes_left_out: Vec::new(),
            tasks: suite
                .suite
                .tasks
                .iter()
                .map(|task| task.task_id.clone())
                .collect(),
            baseline: None,
            compares_answers: false,
            fixture_runs: BTreeMap::new(),
            judges: Vec::new(),
            ignore: Vec::new(),
            concurrency: 4,
            temperature: None,
            max_tokens: Some(16),
            max_loop_iterations: None,
            task_timeout_ms: None,
            prices: None,
            cost_ceiling: None,
            budget: BudgetSpec::default(),
            retry_of: None,
            trial: None,
            facts_recorded_at: None,
            partial_rerun: None,
            extensions: Extensions::default(),
            deciders: touchstone_runs::rules::run::deciders::Deciders::default(),
            execution: ExecutionPin::default(),
        };
        change(&mut eval);
        let record = RunRecord {
            run_id: SystemIds.mint("run").into(),
            tenant: self.tenant.clone(),
            principal: "key".to_owned(),
            created_at: SystemClock.now(),
            spec: RunSpec {
                workflow_id: "eval:community.bench.evals.echo@1.0.0".to_owned(),
                scope: None,
                work: Work::Eval(Arc::new(eval)),
                run_timeout_ms: Some(run_timeout_ms),
                configurable: serde_json::Map::new(),
                inputs: serde_json::Map::new(),
                tags: Vec::new(),
                metadata: serde_json::Map::new(),
            },
            fork: None,
            trace: None,
            log: LogMark::of_new(Major::V1),
        };
        run_store::runs::create(&self.store, &record, None)
            .await
            .unwrap();
        record
    }

    /// Claims the next run and executes it; `true` if it ended.
    pub async fn execute(&self) -> bool {
        self.execute_with(watch::channel(None).1).await
    }

    pub async fn execute_with(&self, cancelled: watch::Receiver<Option<CancelRequest>>) -> bool {
        let claim = run_store::queue::claim(
            &self.store,
            "bench",
            Claimable::All,
            Duration::from_secs(60),
        )
        .await
        .unwrap()
        .unwrap();
        let (_nobody, paused) = watch::channel(None);
        let control = RunControl {
            cancelled,
            paused,
            ..undisturbed()
        };
        self.executor.execute(claim, control).await == ExecutionOutcome::Ended
    }

    /// Writes a prefix of another run's log to the start of `run`'s log, as a killed process would
    /// have left it.
    pub async fn leave_behind(&self, run: &RunId, events: &[StoredEvent]) {
        let claim = run_store::queue::claim(&self.store, "killed", Claimable::All, Duration::ZERO)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(claim.run.run_id, *run);
        let fence: Fence = claim.fence;
        if !events.is_empty() {
            run_store::runs::append(&self.store, run, fence, events, false)
                .await
                .unwrap();
        }
    }

    pub async fn log(&self, run: &RunId) -> Vec<StoredEvent> {
        let log = run_store::runs::read(&self.store, run, 0, 100_000)
            .await
            .unwrap();
        for event in &log {
            asyncapi::check_event(&serde_json::from_slice(&event.body).unwrap());
        }
        log
    }

    pub async fn state(&self, run: &RunId) -> RunState {
        let mut state = RunState::default();
        catch_up(self.store.as_ref(), run, &mut state)
            .await
            .unwrap();
        if state.status.is_terminal() {
            // The state that the executor leaves at the run's end equals a fold of the log.
            let kept = self.projections.with_state(run, RunState::clone).await;
            assert_eq!(kept.unwrap(), state);
        }
        state
    }
}

/// The request of an eval run.
pub fn eval(run: &RunRecord) -> &EvalSpec {
    run.spec.eval().unwrap()
}

/// A control that never interrupts the run.
pub fn undisturbed() -> RunControl {
    RunControl {
        cancelled: watch::channel(None).1,
        paused: watch::channel(None).1,
        lease: LeaseTerm::new(Duration::ZERO, Duration::MAX).lease(Arc::new(SystemClock)),
        lost: CancellationToken::new(),
        draining: CancellationToken::new(),
        drain: Duration::from_secs(1),
    }
}

/// The event types of a log, with the task id of task events.
pub fn outline(log: &[StoredEvent]) -> Vec<(String, Option<String>)> {
    log.iter()
        .map(|event| {
            let document = EventDocument::read(&event.body).unwrap();
            (
                document.kind.to_string(),
                document.node_id.map(|node| node.to_string()),
            )
        })
        .collect()
}

/// An archive with one agent, as an installed pack is stored.
fn echo_pack() -> Vec<u8> {
    let manifest = json!({
        "name": "community.bench.echo", "version": "1.0.0", "description": "Says it back.", "author": "Bench",
        "license": "0BSD", "engines": {"openwop": ">=1.0.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": "pack.json"},
        "agents": [{"agentId": AGENT, "persona": "Echo", "modelClass": "general", "systemPrompt": "Say it back.",
                    "toolAllowlist": [TOOL]}],
    });
    let body = manifest.to_string();
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
        Vec::new(),
        flate2::Compression::default(),
    ));
    let mut header = tar::Header::new_ustar();
    header.set_size(body.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    tar.append_data(&mut header, "pack.json", body.as_bytes())
        .unwrap();
    tar.into_inner().unwrap().finish().unwrap()
}
