//! Eval runs (RFC 0081 §B): each task is an agent invocation, scored and recorded.
//!
//! Resuming executes what is missing: scored tasks are skipped; an interrupted invocation is closed
//! and started again.

pub mod baseline;
pub mod budget;
pub mod conclusion;
pub mod context;
pub mod deciding;
pub mod external;
pub mod judging;
pub mod kind;
pub mod meter;
pub mod record;
pub mod recordings;
pub mod reuse;
pub mod task;
pub mod transcript;

use std::sync::Arc;

use crate::rules::run::record::{EvalSpec, RunRecord};
use crate::service::executor::WorkEnd;
use crate::service::executor::control::RunSignals;
use crate::service::executor::endings::fail;
use crate::service::executor::eval::conclusion::conclude;
use crate::service::executor::eval::context::RunContext;
use crate::service::executor::eval::kind::KindExecutor;
use crate::service::executor::eval::record::close_interrupted;
use crate::service::executor::eval::reuse::copy_judged_tasks;
use crate::service::executor::eval::task::SuiteTask;
use crate::service::executor::task_loop::{EarlyEnd, TaskLoop, TenantPermits, WorkUnit};
use crate::service::library::Library;
use crate::service::run_writer::RunWriter;
use touchstone_agents::ports::agent::AgentRuntime;
use touchstone_agents::ports::live_tools::LiveTools;
use touchstone_agents::ports::model::Models;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::store::database::Database;
use touchstone_openwop::events::{EvalStarted, Event, NewEvent, RunError};

/// The label of a task that an internal error left unjudged.
pub const INTERNAL_ERROR: &str = "internal_error";

/// Executes eval runs.
pub struct EvalExecutor {
    pub store: Arc<Database>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub library: Arc<Library>,
    pub models: Arc<dyn Models>,
    pub runtime: Arc<dyn AgentRuntime>,
    /// Executes invocations at workers, if this host has any.
    pub cluster: Option<Arc<dyn AgentRuntime>>,
    /// The tools of `live-shadow` runs, if any are configured.
    pub tools: Option<Arc<dyn LiveTools>>,
    /// The executors of evaluation kinds.
    pub kinds: Vec<Arc<dyn KindExecutor>>,
    pub permits: TenantPermits,
}

impl EvalExecutor {
    fn executor_of(&self, spec: &EvalSpec) -> Option<&Arc<dyn KindExecutor>> {
        let of_run = |kind: &&Arc<dyn KindExecutor>| spec.extensions.has(kind.name());
        self.kinds.iter().find(of_run)
    }

    /// Executes an eval until it ends, waits or is stopped.
    pub(super) async fn execute(
        self: &Arc<Self>,
        run: &Arc<RunRecord>,
        spec: &Arc<EvalSpec>,
        writer: &RunWriter,
        signals: &mut RunSignals,
    ) -> WorkEnd {
        if let Some(end) = budget::check_extension(spec, writer, signals) {
            return end;
        }
        let spec = &budget::extended(spec, writer);
        if let Err(denied) = budget::open(spec, writer) {
            return fail(writer, denied);
        }
        let context = match self.prepare(run, spec, writer).await {
            Ok(context) => context,
            Err(end) => return end,
        };
        if let Some(kind) = self.executor_of(spec) {
            return kind.execute(self, context, signals).await;
        }
        if let Some(kind) = self.library.kinds.of(spec) {
            let message = format!(
                "this host does not execute runs of the kind `{}`",
                kind.name()
            );
            return fail(writer, RunError::new("capability_not_provided", message));
        }
        let context = Arc::new(context);
        let end = match self.open_eval(&context).await {
            Ok(()) => self.run_tasks(&context, signals).await,
            Err(end) => Err(end),
        };
        conclude(self.library.kinds, &context, end)
    }

    /// Releases resources before the run is given up.
    pub(super) async fn release(&self, run: &RunRecord, writer: &RunWriter) {
        let kind = run.spec.eval().and_then(|eval| self.executor_of(eval));
        if let Some(kind) = kind {
            kind.release(run, writer).await;
        }
    }

    /// Records the events before the tasks, once; closes interrupted invocations; copies judged
    /// tasks of an earlier run.
    async fn open_eval(&self, context: &RunContext) -> Result<(), EarlyEnd> {
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
                fixture_runs: spec.fixture_runs.clone(),
            })));
        }
        close_interrupted(context);
        copy_judged_tasks(self.store.as_ref(), context).await
    }

    async fn run_tasks(
        self: &Arc<Self>,
        context: &Arc<RunContext>,
        signals: &mut RunSignals,
    ) -> Result<(), EarlyEnd> {
        let spec = &context.spec;
        // A task becomes scored only after it was started here, or before the run was resumed.
        let mut waiting = spec.tasks.iter().filter(|id| {
            let writer = &context.writer;
            writer.with_state(|state| state.eval.scored(id).is_none())
        });
        let next = || {
            Some(SuiteTask {
                executor: self.clone(),
                context: context.clone(),
                id: waiting.next()?,
            })
        };
        let concurrency = spec.concurrency as usize;
        self.run_units(context, concurrency, signals, next).await
    }

    /// Executes units of a run, as [`TaskLoop::run`].
    ///
    /// # Errors
    /// [`EarlyEnd`].
    pub async fn run_units<U: WorkUnit>(
        &self,
        context: &RunContext,
        concurrency: usize,
        signals: &mut RunSignals,
        next: impl FnMut() -> Option<U> + Send,
    ) -> Result<(), EarlyEnd> {
        let units = TaskLoop {
            run_id: context.run.run_id.clone(),
            concurrency,
            permits: self.permits.of(&context.run.tenant),
            backlog: context.writer.backlog(),
        };
        units.run(signals, next).await
    }
}
