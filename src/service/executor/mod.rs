//! Carries out one eval run (RFC 0081 §B): every task an agent invocation, scored, recorded.
//!
//! The executor decides nothing that the rules can decide: it folds the log, does what is missing, and records what came of
//! it. That is also all there is to resuming: a scored task is skipped, an invocation that was cut off is closed and made
//! anew.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

mod meter;
mod reuse;

use self::meter::RunMeter;
use self::reuse::take_over;
use super::library::{Library, LoadedAgent};
use super::projections::catch_up;
use super::run_writer::{Closed, RunWriter};
use crate::domain::budget::{Dimension, Limits};
use crate::domain::eval::matching::matches;
use crate::domain::eval::scoring::summary;
use crate::domain::ids::{EventId, TaskId, TenantId};
use crate::domain::run::fold::{RunState, TaskFacts};
use crate::domain::run::record::{EvalSpec, RunRecord};
use crate::ports::{
    AgentRuntime, CancelRequest, Claim, Clock, EventSink, Ids, Invocation, InvocationEnd,
    InvocationResult, ModelBinding, Models, Store,
};
use crate::protocol::openwop::events::{
    AgentInvocationCompleted, BudgetExhausted, BudgetReserved, CapBreached, ENGINE_VERSION,
    EffectiveBudget, EvalCompleted, EvalScored, EvalStarted, Event, InvocationOutcome, NewEvent,
    Owner, RunCancelled, RunCompleted, RunError, RunFailed, RunStarted, TaskFailed, TaskUnjudged,
};
use crate::protocol::openwop::suite::{AgentEvalSuite, Task, Thresholds};

/// What may happen to a run from outside while it is carried out.
pub struct RunControl {
    /// A cancel request.
    pub cancelled: watch::Receiver<Option<CancelRequest>>,
    /// The lease is lost: stop at once, write nothing.
    pub lost: CancellationToken,
    /// The replica shuts down: start no more tasks.
    pub draining: CancellationToken,
    /// How long running tasks may go on then.
    pub drain: Duration,
}

/// Carries out runs.
pub struct Executor {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    library: Arc<Library>,
    models: Arc<dyn Models>,
    runtime: Arc<dyn AgentRuntime>,
    /// Tasks in flight at most for one tenant, over all its runs on this replica.
    per_tenant: usize,
    tenants: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
}

/// How far a claimed run was carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// To its terminal event, durably.
    Ended,
    /// The replica drains: others may go on at once.
    GivenBack,
    /// The lease is lost, or the store or the log failed. Whoever tries again should not do so at once.
    Broken,
}

/// Why the task loop ended.
enum LoopEnd {
    AllScored,
    Cancelled(CancelRequest),
    Draining,
    Lost,
    TimedOut,
    BudgetExhausted(Dimension),
}

impl Executor {
    /// An executor over its ports.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        library: Arc<Library>,
        models: Arc<dyn Models>,
        runtime: Arc<dyn AgentRuntime>,
        per_tenant: usize,
    ) -> Arc<Self> {
        let tenants = Mutex::default();
        Arc::new(Self {
            store,
            clock,
            ids,
            library,
            models,
            runtime,
            per_tenant,
            tenants,
        })
    }

    /// Carries out a claimed run as far as it goes.
    pub async fn execute(self: &Arc<Self>, claim: Claim, control: RunControl) -> Outcome {
        let mut state = RunState::default();
        if let Err(cause) = catch_up(self.store.as_ref(), &claim.run.run_id, &mut state).await {
            let cause = anyhow::Error::new(cause);
            error!(run_id = %claim.run.run_id, cause = format!("{cause:#}"), "the run's log cannot be folded");
            return Outcome::Broken;
        }
        let writer = RunWriter::new(
            claim.run.clone(),
            claim.fence,
            state,
            self.store.clone(),
            self.clock.clone(),
            self.ids.clone(),
        );
        let flusher = {
            let writer = writer.clone();
            tokio::spawn(async move { writer.run_flusher().await })
        };
        let finished = self.carry_out(&claim.run, &writer, control).await;
        let durable = writer.flush().await.is_ok();
        let broken = !durable || writer.is_closed();
        writer.close();
        if let Err(cause) = flusher.await {
            error!(run_id = %claim.run.run_id, %cause, "the log's flusher ended abnormally");
        }
        match (finished, broken) {
            (true, _) if durable => Outcome::Ended,
            (false, false) => Outcome::GivenBack,
            _ => Outcome::Broken,
        }
    }

    /// `true` once the terminal event is emitted.
    async fn carry_out(
        self: &Arc<Self>,
        run: &Arc<RunRecord>,
        writer: &RunWriter,
        mut control: RunControl,
    ) -> bool {
        if writer.with_state(|state| state.started_at.is_none()) {
            writer.emit(&NewEvent::of_run(Event::RunStarted(started(run))));
        }
        if let Ok(Some(request)) = self.store.cancel_requested(&run.run_id).await {
            cancel(writer, request);
            return true;
        }
        let context = match self.prepare(run, writer).await {
            Ok(context) => Arc::new(context),
            Err(failure) => {
                writer.emit(&NewEvent::of_run(Event::RunFailed(RunFailed {
                    error: failure,
                })));
                return true;
            }
        };
        if let Err(Closed) = self.open_eval(&context).await {
            return false;
        }
        let end = self.run_tasks(&context, &mut control).await;
        self.conclude(&context, end)
    }

    async fn prepare(
        &self,
        run: &Arc<RunRecord>,
        writer: &RunWriter,
    ) -> Result<RunContext, RunError> {
        let spec = &run.spec.eval;
        let suite = self.library.suite(&spec.suite_digest).await;
        let agent = self
            .library
            .agent(&spec.pack_integrity, &spec.agent_id)
            .await;
        let (suite, agent) = match (suite, agent) {
            (Ok(Some(suite)), Ok(Some(agent))) => (suite, agent),
            (suite, agent) => {
                let cause = suite.err().or(agent.err()).map(|cause| cause.to_string());
                error!(run_id = %run.run_id, cause, "the run's suite or agent cannot be loaded");
                return Err(RunError {
                    code: "internal_error".to_owned(),
                    message: "the suite or the agent of this run cannot be loaded".to_owned(),
                });
            }
        };
        let Some(model) = self.models.resolve(spec.model_class) else {
            return Err(RunError {
                code: "capability_not_provided".to_owned(),
                message: format!(
                    "no model is configured for class `{}`",
                    spec.model_class.as_str()
                ),
            });
        };
        let info = model.model.info();
        if info.provider != spec.model.provider || info.model != spec.model.model {
            return Err(RunError {
                code: "model_changed".to_owned(),
                message: format!(
                    "the run was created for model `{}`, class `{}` is now served by `{}`; start a new run",
                    spec.model.model,
                    spec.model_class.as_str(),
                    info.model
                ),
            });
        }
        let tasks = suite
            .tasks
            .iter()
            .enumerate()
            .map(|(index, task)| (task.task_id.clone(), index))
            .collect();
        let spent = writer.with_state(|state| state.eval.own_spending());
        let meter = RunMeter::new(limits(spec), spent);
        Ok(RunContext {
            run: run.clone(),
            writer: writer.clone(),
            suite,
            tasks,
            agent,
            model,
            meter,
        })
    }

    /// Records what comes before the tasks, once; closes invocations that were cut off; takes over judged tasks.
    async fn open_eval(&self, context: &RunContext) -> Result<(), Closed> {
        let (writer, spec) = (&context.writer, &context.run.spec.eval);
        let (opened, budget_reserved) =
            writer.with_state(|state| (state.eval.started, state.budget_reserved));
        let limits = limits(spec);
        if !opened {
            if !budget_reserved && limits != Limits::default() {
                writer.emit(&NewEvent::of_run(Event::BudgetReserved(BudgetReserved {
                    effective_budget: EffectiveBudget {
                        max_tokens: limits.max_tokens,
                        max_cost_usd: limits.max_cost,
                    },
                    scope: "run".to_owned(),
                })));
            }
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
        let cut_off: Vec<TaskId> = writer.with_state(|state| {
            let open = |facts: &TaskFacts| facts.open_invocation.is_some();
            state
                .eval
                .tasks
                .iter()
                .filter(|(_, facts)| open(facts))
                .map(|(task, _)| task.clone())
                .collect()
        });
        for task in cut_off {
            close_open_invocation(context, &task);
        }
        take_over(self.store.as_ref(), context).await
    }

    async fn run_tasks(
        self: &Arc<Self>,
        context: &Arc<RunContext>,
        control: &mut RunControl,
    ) -> LoopEnd {
        let spec = &context.run.spec.eval;
        let mut waiting: VecDeque<TaskId> = context.writer.with_state(|state| {
            spec.tasks
                .iter()
                .filter(|task| state.eval.scored(task).is_none())
                .cloned()
                .collect()
        });
        let deadline = tokio::time::sleep(self.time_left(context));
        let tenant = self.tenant_permits(&context.run.tenant);
        let mut flying = JoinSet::new();
        tokio::pin!(deadline);
        let mut draining = false;
        loop {
            while !draining && flying.len() < spec.concurrency as usize {
                if context.writer.ready().await.is_err() {
                    return LoopEnd::Lost;
                }
                let Some(task) = waiting.pop_front() else {
                    break;
                };
                let (executor, context, tenant) = (self.clone(), context.clone(), tenant.clone());
                flying.spawn(async move { executor.run_task(&context, &task, tenant).await });
            }
            if flying.is_empty() {
                return if waiting.is_empty() {
                    LoopEnd::AllScored
                } else {
                    LoopEnd::Draining
                };
            }
            tokio::select! {
                ended = flying.join_next() => match ended {
                    Some(Ok(TaskEnd::Scored)) | None => {}
                    Some(Ok(TaskEnd::Closed)) => return LoopEnd::Lost,
                    Some(Ok(TaskEnd::BudgetExhausted(dimension))) => return LoopEnd::BudgetExhausted(dimension),
                    Some(Err(cause)) => {
                        error!(run_id = %context.run.run_id, %cause, "a task ended abnormally");
                        context.writer.close();
                        return LoopEnd::Lost;
                    }
                },
                () = context.writer.closed() => return LoopEnd::Lost,
                () = control.lost.cancelled() => {
                    context.writer.close();
                    return LoopEnd::Lost;
                }
                changed = control.cancelled.changed() => {
                    let request = control.cancelled.borrow_and_update().clone();
                    match (changed, request) {
                        (Ok(()), Some(request)) => return LoopEnd::Cancelled(request),
                        (Ok(()), None) => {}
                        (Err(_), _) => return LoopEnd::Lost,
                    }
                }
                () = &mut deadline => {
                    return if draining { LoopEnd::Draining } else { LoopEnd::TimedOut };
                }
                () = control.draining.cancelled(), if !draining => {
                    draining = true;
                    deadline.as_mut().reset(tokio::time::Instant::now() + control.drain);
                }
            }
        }
        // Leaving drops the set, which aborts the tasks still in flight; whatever they would emit after the terminal event
        // goes nowhere.
    }

    fn time_left(&self, context: &RunContext) -> Duration {
        let whole = Duration::from_millis(context.run.spec.eval.run_timeout_ms);
        let started = context.writer.with_state(|state| state.started_at);
        let passed = started.map_or(0, |at| self.clock.now().duration_since(at).as_millis());
        whole.saturating_sub(Duration::from_millis(u64::try_from(passed).unwrap_or(0)))
    }

    fn tenant_permits(&self, tenant: &TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        // Forget tenants nobody works for, so that the table does not grow for ever.
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
        let spec = &context.run.spec.eval;
        let sink = TaskSink {
            writer: &context.writer,
            task: id,
        };
        let invocation = Invocation {
            invocation_id: self.ids.mint("inv"),
            agent: &context.agent.definition,
            agent_version: &spec.agent_version,
            model: &context.model,
            input: &task.input,
            fixtures: task.fixtures.as_ref(),
            temperature: spec.temperature,
            max_tokens: spec.max_tokens,
            node_id: id,
        };
        let invoking = self.runtime.invoke(invocation, &context.meter, &sink);
        // A fault of ours in one task must neither end the run nor be tried for ever: the task is unjudged.
        let result = AssertUnwindSafe(invoking)
            .catch_unwind()
            .await
            .unwrap_or_else(|_| {
                error!(run_id = %context.run.run_id, task_id = %id, "a task panicked");
                close_open_invocation(context, id);
                let end = InvocationEnd::Unjudged {
                    reason: INTERNAL_ERROR.to_owned(),
                };
                InvocationResult {
                    end,
                    schema_valid: None,
                    latency_ms: 0,
                }
            });
        drop(permit);
        if let InvocationEnd::Unjudged { reason } = &result.end
            && reason == BUDGET_EXHAUSTED
            && let Some(dimension) = context.meter.exhausted()
            && is_callers_bound(spec, dimension)
        {
            return TaskEnd::BudgetExhausted(dimension);
        }
        record_score(context, task, result);
        TaskEnd::Scored
    }

    /// `true` once the terminal event is emitted.
    fn conclude(&self, context: &RunContext, end: LoopEnd) -> bool {
        let (writer, spec) = (&context.writer, &context.run.spec.eval);
        match end {
            LoopEnd::Lost | LoopEnd::Draining => return false,
            LoopEnd::Cancelled(request) => cancel(writer, request),
            LoopEnd::TimedOut => {
                let limit = spec.run_timeout_ms;
                let started = writer.with_state(|state| state.started_at);
                let observed = started
                    .map_or(0, |at| {
                        u64::try_from(self.clock.now().duration_since(at).as_millis()).unwrap_or(0)
                    })
                    .max(limit + 1);
                warn!(run_id = %context.run.run_id, limit, "the run reached its longest duration");
                fail_at_cap(
                    writer,
                    "run-duration",
                    limit,
                    observed,
                    "run_timeout",
                    "the run reached its longest duration",
                );
            }
            LoopEnd::BudgetExhausted(dimension) => {
                let spent = context.meter.spent();
                let limits = limits(spec);
                let (consumed, limit) = match dimension {
                    Dimension::Tokens => {
                        (to_f64(spent.tokens), to_f64(limits.max_tokens.unwrap_or(0)))
                    }
                    Dimension::Cost => {
                        (spent.cost.usd(), limits.max_cost.unwrap_or_default().usd())
                    }
                };
                let exhausted = BudgetExhausted {
                    dimension: dimension.as_str().to_owned(),
                    consumed,
                    limit,
                };
                writer.emit(&NewEvent::of_run(Event::BudgetExhausted(exhausted)));
                let kind = format!("budget-{}", dimension.as_str());
                fail_with(
                    writer,
                    &kind,
                    limit,
                    consumed,
                    BUDGET_EXHAUSTED,
                    "the run's budget is used up",
                );
            }
            LoopEnd::AllScored => {
                let thresholds = context.thresholds();
                let (outputs, started) = writer.with_state(|state| {
                    (summary(spec, &thresholds, &state.eval), state.started_at)
                });
                let duration =
                    started.map_or(0, |at| self.clock.now().duration_since(at).as_millis());
                if writer.with_state(|state| state.eval.completed.is_none()) {
                    writer.emit(&NewEvent::of_run(Event::EvalCompleted(EvalCompleted {
                        aggregate_score: outputs.aggregate_score,
                        passed: outputs.passed,
                        task_count: outputs.task_count,
                        passed_count: outputs.passed_count,
                        regression_vs_baseline: outputs
                            .regression
                            .as_ref()
                            .map(|regression| regression.score_delta),
                    })));
                }
                let duration_ms = u64::try_from(duration).unwrap_or(0);
                writer.emit(&NewEvent::of_run(Event::RunCompleted(RunCompleted {
                    outputs,
                    duration_ms,
                })));
            }
        }
        true
    }
}

/// The label of a task that a fault of ours kept from being judged.
pub const INTERNAL_ERROR: &str = "internal_error";

/// The label of a task that was not reached because the money or the tokens were used up.
pub const BUDGET_EXHAUSTED: &str = "budget_exhausted";

enum TaskEnd {
    Scored,
    Closed,
    BudgetExhausted(Dimension),
}

struct RunContext {
    run: Arc<RunRecord>,
    writer: RunWriter,
    suite: Arc<AgentEvalSuite>,
    tasks: HashMap<TaskId, usize>,
    agent: Arc<LoadedAgent>,
    model: ModelBinding,
    meter: RunMeter,
}

impl RunContext {
    fn task(&self, id: &TaskId) -> Option<&Task> {
        self.suite.tasks.get(*self.tasks.get(id)?)
    }

    fn thresholds(&self) -> Thresholds {
        self.suite.thresholds.unwrap_or_default()
    }
}

/// Closes an invocation that will not end by itself.
fn close_open_invocation(context: &RunContext, task: &TaskId) {
    let open = |state: &RunState| {
        state
            .eval
            .tasks
            .get(task)
            .and_then(|facts| facts.open_invocation.clone())
    };
    let Some(invocation_id) = context.writer.with_state(open) else {
        return;
    };
    let completed = AgentInvocationCompleted {
        invocation_id,
        agent_id: context.run.spec.eval.agent_id.clone(),
        outcome: InvocationOutcome::Failed,
        schema_validated: None,
    };
    context.writer.emit(&NewEvent::of_task(
        Event::AgentInvocationCompleted(completed),
        task,
        None,
    ));
}

/// Scores an invocation and records it, reason and score in one transaction.
fn record_score(context: &RunContext, task: &Task, result: InvocationResult) {
    let id = &task.task_id;
    let mut events = Vec::with_capacity(2);
    let mut passed = false;
    let schema_valid = result.schema_valid;
    match result.end {
        InvocationEnd::Decided { output } => {
            let ignore = &context.run.spec.eval.ignore;
            passed = task
                .expected
                .matching
                .as_ref()
                .is_some_and(|expected| matches(expected, &output, ignore));
        }
        InvocationEnd::Failed { reason } => {
            let failed = TaskFailed {
                task_id: id.clone(),
                reason,
            };
            events.push(NewEvent::of_task(Event::TaskFailed(failed), id, None));
        }
        InvocationEnd::Unjudged { reason } => {
            let unjudged = TaskUnjudged {
                task_id: id.clone(),
                reason,
            };
            events.push(NewEvent::of_task(Event::TaskUnjudged(unjudged), id, None));
        }
    }
    let cost = context
        .writer
        .with_state(|state| state.eval.tasks.get(id).map(|facts| facts.cost))
        .unwrap_or_default();
    let scored = EvalScored {
        task_id: id.clone(),
        score: if passed { 1.0 } else { 0.0 },
        passed,
        cost_usd: Some(cost),
        latency_ms: Some(result.latency_ms),
        schema_valid,
        safety_finding_count: None,
    };
    events.push(NewEvent::of_task(Event::EvalScored(scored), id, None));
    context.writer.emit_all(&events);
}

fn started(run: &RunRecord) -> RunStarted {
    RunStarted {
        workflow_id: run.spec.workflow_id.clone(),
        inputs: run.spec.inputs.clone(),
        transport: "rest".to_owned(),
        engine_version: ENGINE_VERSION.to_owned(),
        owner: Owner {
            tenant: run.tenant.to_string(),
            principal: Some(run.principal.clone()),
        },
        tags: run.spec.tags.clone(),
        metadata: run.spec.metadata.clone(),
    }
}

fn cancel(writer: &RunWriter, request: CancelRequest) {
    let cancelled = RunCancelled {
        reason: request.reason,
        cancelled_by: request.cancelled_by,
    };
    writer.emit(&NewEvent::of_run(Event::RunCancelled(cancelled)));
}

fn fail_at_cap(
    writer: &RunWriter,
    kind: &str,
    limit: u64,
    observed: u64,
    code: &str,
    message: &str,
) {
    fail_with(writer, kind, to_f64(limit), to_f64(observed), code, message);
}

fn fail_with(writer: &RunWriter, kind: &str, limit: f64, observed: f64, code: &str, message: &str) {
    let breached = CapBreached {
        kind: kind.to_owned(),
        limit,
        observed,
    };
    let error = RunError {
        code: code.to_owned(),
        message: message.to_owned(),
    };
    writer.emit_all(&[
        NewEvent::of_run(Event::CapBreached(breached)),
        NewEvent::of_run(Event::RunFailed(RunFailed { error })),
    ]);
}

#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds and tokens are far below 2^53"
)]
fn to_f64(number: u64) -> f64 {
    number as f64
}

/// The bounds in force: the smaller of the caller's and the host's, per dimension.
fn limits(spec: &EvalSpec) -> Limits {
    let max_cost = match (spec.budget.max_cost, spec.cost_ceiling) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    Limits {
        max_tokens: spec.budget.max_tokens,
        max_cost,
    }
}

/// A bound the caller set ends the run (RFC 0084, hard); the host's ceiling leaves the rest of the tasks unjudged (RFC 0081).
fn is_callers_bound(spec: &EvalSpec, dimension: Dimension) -> bool {
    match dimension {
        Dimension::Tokens => true,
        Dimension::Cost => spec
            .budget
            .max_cost
            .is_some_and(|own| spec.cost_ceiling.is_none_or(|host| own <= host)),
    }
}

struct TaskSink<'a> {
    writer: &'a RunWriter,
    task: &'a TaskId,
}

impl EventSink for TaskSink<'_> {
    fn emit(&self, event: Event, cause: Option<&EventId>) -> EventId {
        self.writer
            .emit(&NewEvent::of_task(event, self.task, cause))
    }
}
