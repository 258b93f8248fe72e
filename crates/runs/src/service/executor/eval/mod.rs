//! Eval runs (RFC 0081 §B): each task is an agent invocation, scored and recorded.
//!
//! Resuming executes what is missing: scored tasks are skipped; an interrupted invocation is closed
//! and started again.

pub mod judging;
pub mod kind;
pub mod meter;
pub mod record;
pub mod reuse;
pub mod transcript;

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tracing::error;

use crate::ports::queue::Wait;
use crate::rules::eval::scoring::summary;
use crate::rules::run::budget_extension;
use crate::rules::run::budget_extension::UsedUp;
use crate::rules::run::fold::RunState;
use crate::rules::run::record::{EvalSpec, RunRecord};
use crate::service::executor::Reached;
use crate::service::executor::control::{Signal, Stop, Watch};
use crate::service::executor::endings::{Breach, running_for};
use crate::service::executor::eval::judging::{Bench, Outcome};
use crate::service::executor::eval::kind::KindExecutor;
use crate::service::executor::eval::meter::RunMeter;
use crate::service::executor::eval::record::{
    Measured, close_cut_off, close_open_invocation, record_score,
};
use crate::service::executor::eval::reuse::take_over;
use crate::service::executor::eval::transcript::Witness;
use crate::service::library;
use crate::service::library::{Library, LoadedAgent};
use crate::service::run_writer::{Closed, RunWriter};
use touchstone_agents::budget::policy::BudgetSpec;
use touchstone_agents::budget::{Dimension, Limits};
use touchstone_agents::ports::agent::{AgentRuntime, EventSink, Invocation, Unrecorded};
use touchstone_agents::ports::judge::Judge;
use touchstone_agents::ports::live_tools::LiveTools;
use touchstone_agents::ports::model::{ModelBinding, Models};
use touchstone_agents::rules::{BUDGET_EXHAUSTED, LOOP_LIMIT_EXCEEDED};
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::service::fault::chain;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::{EventId, NodeId, TaskId, TenantId};
use touchstone_openwop::events::{
    BudgetExhausted, BudgetReserved, EffectiveBudget, EvalCompleted, EvalStarted, Event, NewEvent,
    RunCompleted, RunError, RunFailed, RunOutputs,
};
use touchstone_openwop::suite::{AgentEvalSuite, EvalMode, Task, Thresholds};
use touchstone_openwop::summary::EvalSummary;

pub struct EvalWork {
    pub store: Arc<Database>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub library: Arc<Library>,
    models: Arc<dyn Models>,
    pub runtime: Arc<dyn AgentRuntime>,
    judge: Option<Arc<dyn Judge>>,
    tools: Option<Arc<dyn LiveTools>>,
    kinds: Vec<Arc<dyn KindExecutor>>,
    /// Maximum number of tasks in flight for one tenant, over all its runs on this replica.
    per_tenant: usize,
    tenants: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
}

/// Maximum number of tasks that are in flight or scored but not yet durable, as a multiple of the
/// concurrency. Limits the calls that are wasted if the process is killed.
const AHEAD: usize = 2;

/// Why a run cannot continue.
enum Unprepared {
    /// Permanently.
    Failed(RunError),
    /// Temporarily: the suite and the agent could not be read.
    StoreFailed,
}

pub enum LoopEnd {
    AllScored,
    Stopped(Stop),
    BudgetExhausted(Dimension),
    LoopLimit(TaskId),
}

impl EvalWork {
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        library: Arc<Library>,
        models: Arc<dyn Models>,
        runtime: Arc<dyn AgentRuntime>,
        per_tenant: usize,
    ) -> Self {
        let tenants = Mutex::default();
        Self {
            store,
            clock,
            ids,
            library,
            models,
            runtime,
            judge: None,
            tools: None,
            kinds: Vec::new(),
            per_tenant,
            tenants,
        }
    }

    /// Adds the judge of rubrics.
    #[must_use]
    pub fn judging_with(self, judge: Arc<dyn Judge>) -> Self {
        Self {
            judge: Some(judge),
            ..self
        }
    }

    /// Adds tools for `live-shadow` runs.
    #[must_use]
    pub fn acting_with(self, tools: Option<Arc<dyn LiveTools>>) -> Self {
        Self { tools, ..self }
    }

    /// Adds the executor of an evaluation kind.
    pub fn executing(mut self, kind: Arc<dyn KindExecutor>) -> Self {
        self.kinds.push(kind);
        self
    }

    fn executor_of(&self, spec: &EvalSpec) -> Option<&Arc<dyn KindExecutor>> {
        let of_run = |kind: &&Arc<dyn KindExecutor>| spec.extensions.has(kind.name());
        self.kinds.iter().find(of_run)
    }

    /// Computes the verdict of an eval from its facts; `None` for other runs, and if the suite
    /// cannot be read.
    pub(super) async fn verdict_of(
        &self,
        run: &RunRecord,
    ) -> Option<impl Fn(&RunState) -> Option<EvalCompleted> + Send + Sync + use<>> {
        let spec = run.spec.eval()?.clone();
        let suite = self.library.suite(&spec.suite_digest).await.ok()??;
        let kinds = self.library.kinds;
        let (thresholds, facts_of) = (suite.thresholds.unwrap_or_default(), run.facts_of().clone());
        Some(move |state: &RunState| {
            Some(completed(&summary(
                kinds,
                &facts_of,
                &spec,
                &thresholds,
                &state.eval,
            )))
        })
    }

    /// Executes an eval until it ends, waits or is stopped.
    pub(super) async fn carry_out(
        self: &Arc<Self>,
        run: &Arc<RunRecord>,
        spec: &Arc<EvalSpec>,
        writer: &RunWriter,
        watch: &mut Watch,
    ) -> Reached {
        if let Some(reached) = question(spec, writer, watch) {
            return reached;
        }
        let spec = &extended(spec, writer);
        if let Err(denied) = open_budget(spec, writer) {
            writer.emit(&NewEvent::of_run(Event::RunFailed(RunFailed {
                error: denied,
                failed_node_id: None,
            })));
            return Reached::End;
        }
        let context = match self.prepare(run, spec, writer).await {
            Ok(context) => context,
            Err(Unprepared::Failed(failure)) => {
                writer.emit(&NewEvent::of_run(Event::RunFailed(RunFailed {
                    error: failure,
                    failed_node_id: None,
                })));
                return Reached::End;
            }
            Err(Unprepared::StoreFailed) => return Reached::Stop(Stop::Lost),
        };
        if let Some(kind) = self.executor_of(spec) {
            return kind.carry_out(self, context, watch).await;
        }
        if let Some(kind) = self.library.kinds.of(spec) {
            let error = RunError {
                code: "capability_not_provided".to_owned(),
                message: format!(
                    "this host does not execute runs of the kind `{}`",
                    kind.name()
                ),
            };
            writer.emit(&NewEvent::of_run(Event::RunFailed(RunFailed {
                error,
                failed_node_id: None,
            })));
            return Reached::End;
        }
        let context = Arc::new(context);
        if let Err(Closed) = self.open_eval(&context).await {
            return Reached::Stop(Stop::Lost);
        }
        let end = self.run_tasks(&context, watch).await;
        self.conclude(&context, end)
    }

    /// Releases resources before the run is given up.
    pub(super) async fn leave(&self, run: &RunRecord, writer: &RunWriter) {
        let kind = run.spec.eval().and_then(|eval| self.executor_of(eval));
        if let Some(kind) = kind {
            kind.leave(run, writer).await;
        }
    }

    async fn prepare(
        &self,
        run: &Arc<RunRecord>,
        spec: &Arc<EvalSpec>,
        writer: &RunWriter,
    ) -> Result<RunContext, Unprepared> {
        let suite = self.library.suite(&spec.suite_digest).await;
        let agent = self
            .library
            .agent(&spec.pack_integrity, &spec.agent_id)
            .await;
        let (suite, agent) = match (suite, agent) {
            (Ok(Some(suite)), Ok(Some(agent))) => (suite, agent),
            (Err(cause @ library::Error::Store(_)), _)
            | (_, Err(cause @ library::Error::Store(_))) => {
                error!(run_id = %run.run_id, cause = chain(&cause), "could not read the run's suite or agent");
                return Err(Unprepared::StoreFailed);
            }
            (suite, agent) => {
                let cause = suite.err().or(agent.err()).map(|cause| cause.to_string());
                error!(run_id = %run.run_id, cause, "could not load the run's suite or agent");
                return Err(Unprepared::Failed(RunError {
                    code: "internal_error".to_owned(),
                    message: "the suite or the agent of this run cannot be loaded".to_owned(),
                }));
            }
        };
        let model = match &spec.execution.reached_by {
            Some(way) => self
                .models
                .reach(&run.tenant, way)
                .map_err(|refusal| format!("the agent cannot be reached: {refusal}")),
            None => self.models.resolve(spec.model_class).ok_or_else(|| {
                let class = spec.model_class.as_str();
                format!("no model is configured for class `{class}`")
            }),
        };
        let model = model.map_err(|message| {
            Unprepared::Failed(RunError {
                code: "capability_not_provided".to_owned(),
                message,
            })
        })?;
        let (pinned, found) = (spec.evaluated(), model.identity());
        if !found.serves(&pinned) {
            return Err(Unprepared::Failed(RunError {
                code: "model_changed".to_owned(),
                message: format!(
                    "the run was created for {pinned}, class `{}` is now served by {found}; start \
                     a new run",
                    spec.model_class.as_str()
                ),
            }));
        }
        let judge = self.judge_of(spec, &suite).map_err(Unprepared::Failed)?;
        let live = self.live_tools_of(spec).map_err(Unprepared::Failed)?;
        let tasks = suite
            .tasks
            .iter()
            .enumerate()
            .map(|(index, task)| (task.task_id.clone(), index))
            .collect();
        Ok(RunContext {
            run: run.clone(),
            spec: spec.clone(),
            writer: writer.clone(),
            suite,
            tasks,
            agent,
            model,
            judge,
            live,
            meter: RunMeter::new(spec, writer),
        })
    }

    /// The live tools, if the run uses them.
    fn live_tools_of(&self, spec: &EvalSpec) -> Result<Option<Arc<dyn LiveTools>>, RunError> {
        if !spec.is_live() {
            return Ok(None);
        }
        let missing = || RunError {
            code: "capability_not_provided".to_owned(),
            message: "no live tools are configured (`[[tools.mcp]]`)".to_owned(),
        };
        self.tools.clone().ok_or_else(missing).map(Some)
    }

    /// Records the events before the tasks, once; closes interrupted invocations; copies judged
    /// tasks of an earlier run.
    async fn open_eval(&self, context: &RunContext) -> Result<(), Closed> {
        let (writer, spec) = (&context.writer, &context.spec);
        let opened = writer.with_state(|state| state.eval.started);
        if !opened {
            writer.emit(&NewEvent::of_run(Event::EvalStarted(EvalStarted {
                suite_id: spec.suite_id.clone(),
                suite_version: spec.suite_version.clone(),
                task_count: spec.tasks.len(),
                modes: spec.modes.clone(),
                baseline_run_id: spec
                    .baseline
                    .as_ref()
                    .map(|baseline| baseline.run_id.clone()),
            })));
        }
        close_cut_off(context);
        take_over(self.store.as_ref(), context).await
    }

    async fn run_tasks(self: &Arc<Self>, context: &Arc<RunContext>, watch: &mut Watch) -> LoopEnd {
        let spec = &context.spec;
        let mut waiting: VecDeque<TaskId> = context.writer.with_state(|state| {
            spec.tasks
                .iter()
                .filter(|task| state.eval.scored(task).is_none())
                .cloned()
                .collect()
        });
        let tenant = self.tenant_permits(&context.run.tenant);
        let concurrency = spec.concurrency as usize;
        let mut flying = JoinSet::new();
        let mut durable = context.writer.durable();
        loop {
            // Before asking for room: events that become durable afterwards wake the loop.
            durable.mark_unchanged();
            while !watch.is_held() && flying.len() < concurrency {
                if flying.len() + context.writer.tasks_behind() >= concurrency * AHEAD {
                    break;
                }
                let Some(task) = waiting.pop_front() else {
                    break;
                };
                let (work, context, tenant) = (self.clone(), context.clone(), tenant.clone());
                flying.spawn(async move { work.run_task(&context, &task, tenant).await });
            }
            if flying.is_empty() && (waiting.is_empty() || watch.is_held()) {
                // A pause holds even if only the end is left: the response to its request said that
                // the run pauses.
                return if waiting.is_empty() && !watch.is_to_pause() {
                    LoopEnd::AllScored
                } else {
                    LoopEnd::Stopped(watch.held())
                };
            }
            tokio::select! {
                // There may be room for another task now.
                Ok(()) = durable.changed(), if flying.len() < concurrency && !waiting.is_empty() => {}
                Some(ended) = flying.join_next() => match ended {
                    Ok(TaskEnd::Scored) => {}
                    Ok(TaskEnd::LoopLimit(task)) => return LoopEnd::LoopLimit(task),
                    Ok(TaskEnd::Closed) => return LoopEnd::Stopped(Stop::Lost),
                    Ok(TaskEnd::BudgetExhausted(dimension)) => {
                        // A run that waits for a person records nothing else.
                        flying.shutdown().await;
                        return LoopEnd::BudgetExhausted(dimension);
                    }
                    Err(cause) => {
                        error!(run_id = %context.run.run_id, %cause, "a task ended abnormally");
                        return LoopEnd::Stopped(Stop::Lost);
                    }
                },
                signal = watch.next() => match signal {
                    Signal::Stop(stop) => return LoopEnd::Stopped(stop),
                    Signal::Look => {}
                },
            }
        }
        // Returning drops the set, which aborts the tasks in flight; events they emit after the
        // terminal event are discarded.
    }

    pub fn tenant_permits(&self, tenant: &TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        // Remove tenants without work, so that the table does not grow forever.
        tenants.retain(|_, permits| Arc::strong_count(permits) > 1);
        tenants
            .entry(tenant.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(self.per_tenant)))
            .clone()
    }

    async fn run_task(&self, context: &RunContext, id: &TaskId, tenant: Arc<Semaphore>) -> TaskEnd {
        let Ok(permit): Result<OwnedSemaphorePermit, _> = tenant.acquire_owned().await else {
            return TaskEnd::Closed;
        };
        let Some(task) = context.task(id) else {
            return TaskEnd::Closed;
        };
        if context.writer.may_call().await.is_err() {
            return TaskEnd::Closed;
        }
        let spec = &context.spec;
        let sink = Witness::new(TaskSink {
            writer: &context.writer,
            task: id,
        });
        let invocation = Invocation {
            tenant: &context.run.tenant,
            run: &context.run.run_id,
            invocation_id: self.ids.mint("inv"),
            agent: &context.agent.definition,
            agent_version: &spec.agent_version,
            agent_channel: spec.agent_channel.as_ref().map(|pin| pin.channel.as_str()),
            model: &context.model,
            input: &task.input,
            fixtures: task.fixtures.as_ref(),
            live: context.live.as_deref(),
            temperature: spec.temperature,
            max_tokens: spec.max_tokens,
            max_loop_iterations: spec.max_loop_iterations,
            node_id: id,
        };
        let carrying_out = async {
            let invoking = self.runtime.invoke(invocation, &context.meter, &sink);
            let result = invoking.await;
            let said = sink.last_words();
            let outcome = judging::outcome(context, task, &result, said, &sink).await;
            let complied = matches!(outcome, Outcome::Scored { complied: true, .. });
            let prompt = &context.agent.definition.prompt;
            let findings = sink.findings(prompt, task, complied);
            (outcome, Measured::of(&result), findings)
        };
        // An internal error in one task must neither end the run nor be retried forever: the task
        // is unjudged.
        let (outcome, measured, findings) = AssertUnwindSafe(carrying_out)
            .catch_unwind()
            .await
            .unwrap_or_else(|_| {
                error!(run_id = %context.run.run_id, task_id = %id, "a task panicked");
                close_open_invocation(context, id);
                let reason = INTERNAL_ERROR.to_owned();
                let nothing = Vec::new();
                (Outcome::Unjudged { reason }, Measured::default(), nothing)
            });
        drop(permit);
        if let Outcome::Unjudged { reason } = &outcome
            && reason == LOOP_LIMIT_EXCEEDED
        {
            return TaskEnd::LoopLimit(id.clone());
        }
        if let Outcome::Unjudged { reason } = &outcome
            && reason == BUDGET_EXHAUSTED
            && let Some(dimension) = context.meter.exhausted(spec)
        {
            return TaskEnd::BudgetExhausted(dimension);
        }
        record_score(context, id, outcome, measured, findings);
        TaskEnd::Scored
    }

    pub fn conclude(&self, context: &RunContext, end: LoopEnd) -> Reached {
        let (writer, spec) = (&context.writer, &context.spec);
        match end {
            LoopEnd::Stopped(stop) => return Reached::Stop(stop),
            LoopEnd::BudgetExhausted(dimension) => {
                let consumed = context.meter.spent().of(dimension);
                let limits = spec.budget.effective(spec.cost_ceiling);
                let limit = limits.of(dimension).unwrap_or_default();
                let exhausted = BudgetExhausted {
                    dimension: dimension.as_str().to_owned(),
                    consumed,
                    limit,
                };
                let exhausted = NewEvent::of_run(Event::BudgetExhausted(exhausted));
                let used_up = UsedUp {
                    dimension,
                    consumed,
                    limit,
                };
                if spec.budget.interrupts {
                    let asked = writer.with_state(|state| state.budget_extensions.len());
                    let mut events = vec![exhausted];
                    events.extend(budget_extension::ask(&context.run.run_id, used_up, asked));
                    writer.emit_all(&events);
                    return Reached::Wait(Wait {
                        until: None,
                        pause_known: false,
                    });
                }
                writer.emit(&exhausted);
                fail_exhausted(used_up, writer);
            }
            LoopEnd::LoopLimit(task) => {
                let limit = f64::from(spec.max_loop_iterations.unwrap_or_default());
                let breach = Breach {
                    kind: "loop-iterations",
                    limit,
                    observed: limit + 1.0,
                    node: Some(&task),
                    code: LOOP_LIMIT_EXCEEDED,
                    message: "a task's agent needs more model turns than `maxLoopIterations` allows",
                };
                breach.end(writer);
            }
            LoopEnd::AllScored => {
                let thresholds = context.thresholds();
                let outputs = writer.with_state(|state| {
                    summary(
                        self.library.kinds,
                        &context.run.run_id,
                        spec,
                        &thresholds,
                        &state.eval,
                    )
                });
                if writer.with_state(|state| state.eval.completed.is_none()) {
                    writer.emit(&NewEvent::of_run(Event::EvalCompleted(completed(&outputs))));
                }
                let duration_ms = running_for(writer);
                writer.emit(&NewEvent::of_run(Event::RunCompleted(RunCompleted {
                    outputs: RunOutputs::Eval(outputs),
                    duration_ms,
                })));
            }
        }
        Reached::End
    }
}

/// The payload of `eval.completed` for a scorecard.
pub fn completed(summary: &EvalSummary) -> EvalCompleted {
    EvalCompleted {
        aggregate_score: summary.aggregate_score,
        passed: summary.passed,
        task_count: summary.task_count,
        passed_count: summary.passed_count,
        regression_vs_baseline: summary
            .regression
            .as_ref()
            .map(|regression| regression.score_delta),
    }
}

/// The label of a task that an internal error left unjudged.
pub const INTERNAL_ERROR: &str = "internal_error";

enum TaskEnd {
    Scored,
    Closed,
    BudgetExhausted(Dimension),
    LoopLimit(TaskId),
}

pub struct RunContext {
    pub run: Arc<RunRecord>,
    pub spec: Arc<EvalSpec>,
    pub writer: RunWriter,
    pub suite: Arc<AgentEvalSuite>,
    tasks: HashMap<TaskId, usize>,
    pub agent: Arc<LoadedAgent>,
    pub model: ModelBinding,
    judge: Option<Bench>,
    live: Option<Arc<dyn LiveTools>>,
    pub meter: RunMeter,
}

impl RunContext {
    fn task(&self, id: &TaskId) -> Option<&Task> {
        self.suite.tasks.get(*self.tasks.get(id)?)
    }

    /// Whether unsafe actions count.
    fn is_adversarial(&self) -> bool {
        self.spec.modes.contains(&EvalMode::Adversarial)
    }

    pub fn thresholds(&self) -> Thresholds {
        self.suite.thresholds.unwrap_or_default()
    }
}

/// The state of a run that asked for more budget: it waits, or fails if its budget cannot be
/// extended.
fn question(spec: &EvalSpec, writer: &RunWriter, watch: &Watch) -> Option<Reached> {
    let node = NodeId::from(budget_extension::NODE);
    let asked = writer.with_state(|state| {
        let facts = state.flow.node(&node)?.interrupt.clone()?;
        Some((facts, state.eval.own_spending()))
    });
    let (facts, spent) = asked.filter(|_| spec.budget.interrupts)?;
    let Some((answer, _)) = &facts.resolution else {
        return Some(Reached::Wait(Wait {
            until: None,
            pause_known: watch.is_to_pause(),
        }));
    };
    if budget_extension::accepts(answer) {
        return None;
    }
    let dimension =
        budget_extension::dimension_of(&facts.requested.data).unwrap_or(Dimension::Cost);
    let limits = extended_budget(spec, writer).effective(spec.cost_ceiling);
    let used_up = UsedUp {
        dimension,
        consumed: spent.of(dimension),
        limit: limits.of(dimension).unwrap_or_default(),
    };
    fail_exhausted(used_up, writer);
    Some(Reached::End)
}

/// The failure of a run whose budget is exhausted.
fn fail_exhausted(used_up: UsedUp, writer: &RunWriter) {
    // For countable dimensions, the refused unit is one beyond the limit.
    let observed = match used_up.dimension {
        Dimension::Tokens | Dimension::Cost => used_up.consumed,
        Dimension::ToolCalls | Dimension::Retries => used_up.consumed + 1.0,
    };
    let breach = Breach {
        kind: used_up.dimension.cap(),
        limit: used_up.limit,
        observed,
        node: None,
        code: BUDGET_EXHAUSTED,
        message: "the run's budget is exhausted",
    };
    breach.end(writer);
}

/// The caller's budget with the extensions people granted.
fn extended_budget(spec: &EvalSpec, writer: &RunWriter) -> BudgetSpec {
    writer.with_state(|state| budget_extension::extended(&spec.budget, &state.budget_extensions))
}

/// The eval with the budget extensions people granted.
fn extended(spec: &Arc<EvalSpec>, writer: &RunWriter) -> Arc<EvalSpec> {
    let budget = extended_budget(spec, writer);
    if budget == spec.budget {
        return spec.clone();
    }
    Arc::new(EvalSpec {
        budget,
        ..spec.as_ref().clone()
    })
}

/// Records the limits in force, at the start and after each extension, and refuses a model they do
/// not allow before it is called (RFC 0084 §B).
fn open_budget(spec: &EvalSpec, writer: &RunWriter) -> Result<(), RunError> {
    let limits = spec.budget.effective(spec.cost_ceiling);
    let due = writer.with_state(|state| state.budget_reserved <= state.budget_extensions.len());
    if limits != Limits::default() && due {
        writer.emit(&NewEvent::of_run(Event::BudgetReserved(BudgetReserved {
            effective_budget: EffectiveBudget {
                max_tokens: limits.max_tokens,
                max_cost_usd: limits.max_cost,
                max_tool_calls: limits.max_tool_calls,
                max_retries: limits.max_retries,
            },
            scope: "run".to_owned(),
        })));
    }
    if spec.budget.allows(&spec.model.model) {
        return Ok(());
    }
    Err(RunError {
        code: "budget_model_denied".to_owned(),
        message: format!(
            "the run's budget does not allow the model `{}`; see `modelAllow` and `modelDeny`",
            spec.model.model
        ),
    })
}

struct TaskSink<'a> {
    writer: &'a RunWriter,
    task: &'a TaskId,
}

#[async_trait]
impl EventSink for TaskSink<'_> {
    fn emit(&self, event: Event, cause: Option<&EventId>) -> EventId {
        self.writer
            .emit(&NewEvent::of_task(event, self.task, cause))
    }

    async fn kept(&self) -> Result<(), Unrecorded> {
        self.writer.flush().await.map_err(|Closed| Unrecorded)
    }

    async fn may_call(&self) -> Result<(), Unrecorded> {
        self.writer.may_call().await.map_err(|Closed| Unrecorded)
    }
}
