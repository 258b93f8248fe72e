//! The end of an eval run.

use crate::rules::eval::report::NoTasks;
use crate::rules::eval::scoring::{outputs, summary_of};
use crate::rules::kind::Kinds;
use crate::rules::run::fold::RunState;
use crate::rules::run::record::RunRecord;
use crate::service::executor::WorkEnd;
use crate::service::executor::endings::{Breach, fail, running_for};
use crate::service::executor::eval::context::RunContext;
use crate::service::executor::eval::{EvalExecutor, budget};
use crate::service::executor::task_loop::EarlyEnd;
use crate::service::library;
use touchstone_agents::rules::LOOP_LIMIT_EXCEEDED;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::events::{EvalCompleted, Event, NewEvent, RunCompleted, RunOutputs};
use touchstone_openwop::summary::EvalSummary;

/// Ends a run after its loop.
pub fn conclude(kinds: Kinds, context: &RunContext, end: Result<(), EarlyEnd>) -> WorkEnd {
    match end {
        Ok(()) => complete(kinds, context),
        Err(EarlyEnd::Stopped(stop)) => WorkEnd::Stopped(stop),
        Err(EarlyEnd::BudgetExhausted(dimension)) => budget::exhausted(context, dimension),
        Err(EarlyEnd::LoopLimit(task)) => fail_at_loop_limit(context, &task),
        Err(EarlyEnd::Failed(error)) => fail(&context.writer, error),
    }
}

/// Records the result of a run whose tasks are all recorded.
pub fn complete(kinds: Kinds, context: &RunContext) -> WorkEnd {
    let writer = &context.writer;
    let thresholds = context.thresholds();
    let (outputs, is_recorded) = writer.with_state(|state| {
        let (run, spec) = (&context.run.run_id, &context.spec);
        let outputs = outputs(kinds, run, spec, &thresholds, &state.eval);
        (outputs, state.eval.completed.is_some())
    });
    let mut events = Vec::with_capacity(2);
    if !is_recorded {
        events.push(NewEvent::of_run(Event::EvalCompleted(completed(&outputs))));
    }
    let duration_ms = running_for(writer);
    events.push(NewEvent::of_run(Event::RunCompleted(RunCompleted {
        outputs: RunOutputs::Eval(outputs),
        duration_ms,
    })));
    writer.emit_all(&events);
    WorkEnd::Ended
}

fn fail_at_loop_limit(context: &RunContext, task: &TaskId) -> WorkEnd {
    let limit = f64::from(context.spec.max_loop_iterations.unwrap_or_default());
    let breach = Breach {
        kind: "loop-iterations",
        limit,
        observed: limit + 1.0,
        node: Some(task),
        code: LOOP_LIMIT_EXCEEDED,
        message: "a task's agent needs more model turns than `maxLoopIterations` allows",
    };
    breach.fail(&context.writer)
}

/// The payload of `eval.completed` for a scorecard.
fn completed<T>(summary: &EvalSummary<T>) -> EvalCompleted {
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

impl EvalExecutor {
    /// Computes the verdict of an eval from its facts; `None` for other runs, and if the suite is
    /// missing or damaged.
    ///
    /// # Errors
    /// The suite could not be read now.
    pub(in crate::service::executor) async fn verdict_of(
        &self,
        run: &RunRecord,
    ) -> Result<
        Option<impl Fn(&RunState) -> Option<EvalCompleted> + Send + Sync + use<>>,
        library::Error,
    > {
        let Some(spec) = run.spec.eval().cloned() else {
            return Ok(None);
        };
        let suite = match self.library.suite_index(&spec.suite_digest).await {
            Err(cause) if cause.is_of_store() => return Err(cause),
            suite => suite.ok().flatten(),
        };
        let Some(suite) = suite else {
            return Ok(None);
        };
        let kinds = self.library.kinds;
        let (thresholds, facts_of) = (suite.thresholds(), run.facts_of().clone());
        Ok(Some(move |state: &RunState| {
            let summary = summary_of(kinds, &facts_of, &spec, &thresholds, &state.eval, NoTasks);
            Some(completed(&summary))
        }))
    }
}
