//! One task of a suite: an invocation of the agent, judged and recorded.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tracing::{error, warn};

use crate::rules::eval::scoring_document::Check;
use crate::rules::run::fold::RunState;
use crate::service::executor::control::Stop;
use crate::service::executor::eval::context::{RunContext, unloadable_suite};
use crate::service::executor::eval::judging::{TaskOutcome, judge_result};
use crate::service::executor::eval::record::{Measurements, close_open_invocation, record_score};
use crate::service::executor::eval::transcript::TranscriptSink;
use crate::service::executor::eval::{EvalExecutor, INTERNAL_ERROR};
use crate::service::executor::spans;
use crate::service::executor::task_loop::{EarlyEnd, WorkUnit};
use crate::service::run_writer::{Closed, RunWriter};
use touchstone_agents::ports::agent::{EventSink, Invocation, InvocationEnd, Unrecorded};
use touchstone_agents::rules::{
    BUDGET_EXHAUSTED, LOOP_LIMIT_EXCEEDED, TASK_TIMEOUT, WORKERS_REQUIRED, WORKERS_UNREACHABLE,
};
use touchstone_kit::ids::{EventId, TaskId};
use touchstone_openwop::events::{Event, NewEvent};
use touchstone_openwop::suite::Task;

/// A task to execute.
pub(super) struct SuiteTask {
    pub executor: Arc<EvalExecutor>,
    pub context: Arc<RunContext>,
    pub id: TaskId,
}

impl WorkUnit for SuiteTask {
    async fn execute(&self) -> Result<(), EarlyEnd> {
        let span = spans::task(&self.id);
        span.within(self.execute_task()).await?;
        let ended =
            |state: &RunState| spans::task_ended(span, state.eval.tasks.get(&self.id).as_deref());
        self.context.writer.with_state(ended);
        Ok(())
    }

    /// The task is unjudged.
    async fn record_panic(&self) -> Result<(), EarlyEnd> {
        let Self { context, id, .. } = self;
        error!(run_id = %context.run.run_id, task_id = %id, "a task panicked");
        self.record_unjudged(INTERNAL_ERROR);
        Ok(())
    }
}

impl SuiteTask {
    async fn execute_task(&self) -> Result<(), EarlyEnd> {
        let Self { context, id, .. } = self;
        let task = context.task(id).await?;
        let task = &task.ok_or_else(|| EarlyEnd::Failed(unloadable_suite()))?;
        context
            .writer
            .may_call()
            .await
            .map_err(|Closed| Stop::Lost)?;
        let scoring = context.scoring(id);
        let keeps_results = scoring.is_some_and(|it| it.has(Check::reads_tool_results));
        let task_sink = TaskSink {
            writer: &context.writer,
            task: id,
        };
        let sink = TranscriptSink::new(task_sink, context.conversation(id), keeps_results);
        let workers = self.executor.cluster.as_ref();
        let workers = workers.filter(|_| context.spec.execution.is_distributed());
        if workers.is_none() && !context.spec.execution.worker_labels.is_empty() {
            let run_id = &context.run.run_id;
            warn!(%run_id, "a task requires labels of workers, and this host has none: set `nats` in the section `[cluster]`");
            self.record_unjudged(WORKERS_REQUIRED);
            return Ok(());
        }
        if let Some(reason) = context.recordings.missing(id) {
            self.record_unjudged(reason);
            return Ok(());
        }
        let runtime = workers.unwrap_or(&self.executor.runtime);
        let invoking = runtime.invoke(self.invocation(task), &context.meter, &sink);
        let result = invoking.await;
        if let InvocationEnd::Unjudged { reason } = &result.end {
            if reason == TASK_TIMEOUT {
                self.record_unjudged(TASK_TIMEOUT);
                return Ok(());
            }
            if reason == WORKERS_UNREACHABLE {
                let run_id = &context.run.run_id;
                warn!(%run_id, "this host does not reach workers; another replica may continue the run");
                return Err(Stop::CutOff.into());
            }
        }
        let outcome = judge_result(context, task, &result, &sink).await;
        if let TaskOutcome::Unjudged { reason } = &outcome {
            if reason == LOOP_LIMIT_EXCEEDED {
                return Err(EarlyEnd::LoopLimit(id.clone()));
            }
            if reason == BUDGET_EXHAUSTED
                && let Some(dimension) = context.meter.exhausted(&context.spec)
            {
                return Err(EarlyEnd::BudgetExhausted(dimension));
            }
        }
        let complied = matches!(outcome, TaskOutcome::Scored { complied: true, .. });
        let prompt = &context.agent.definition.prompt;
        let findings = sink.findings(prompt, task, complied);
        record_score(context, id, outcome, Measurements::of(&result), findings);
        Ok(())
    }

    /// Closes an invocation that was dropped, and records why it has no result.
    fn record_unjudged(&self, reason: &str) {
        let Self { context, id, .. } = self;
        close_open_invocation(context, id);
        let reason = reason.to_owned();
        let outcome = TaskOutcome::Unjudged { reason };
        record_score(context, id, outcome, Measurements::default(), Vec::new());
    }

    fn invocation<'a>(&'a self, task: &'a Task) -> Invocation<'a> {
        let context = &self.context;
        let spec = &context.spec;
        Invocation {
            tenant: &context.run.tenant,
            run: &context.run.run_id,
            invocation_id: self.executor.ids.mint("inv"),
            agent: &context.agent.definition,
            agent_version: &spec.agent_version,
            agent_channel: spec.agent_channel.as_ref().map(|pin| pin.channel.as_str()),
            model: &context.model,
            input: &task.input,
            dialogue: context.dialogue(&self.id),
            fixtures: task.fixtures.as_ref(),
            recorded: context.recordings.of(&self.id),
            live: context.live.as_deref(),
            temperature: spec.temperature,
            max_tokens: spec.max_tokens,
            max_loop_iterations: spec.max_loop_iterations,
            timeout: spec.task_timeout_ms.map(Duration::from_millis),
            node_id: &self.id,
            worker_labels: &spec.execution.worker_labels,
        }
    }
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
