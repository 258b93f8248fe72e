//! Spans of runs and tasks, and the events of their results, from the facts of the log
//! (docs/telemetry.md).

use crate::rules::run::fold::{RunState, TaskFacts};
use crate::rules::run::record::{RunRecord, Work};
use touchstone_host::otlp::nanoseconds;
use touchstone_host::otlp::span::{self, Span, SpanKind, attribute};
use touchstone_kit::headers::trace_context::SpanId;
use touchstone_kit::ids::TaskId;
use touchstone_kit::redaction::mask;

/// Records the root span of a run that has ended.
pub(super) fn run_ended(run: &RunRecord, state: &RunState) {
    let name = match &run.spec.work {
        Work::Eval(_) => "eval run",
        Work::Workflow(_) | Work::Journal => "workflow run",
    };
    let start = state.started_at.unwrap_or(run.created_at);
    let mut span = Span::root(name, nanoseconds(start));
    if !span.is_recorded() {
        return;
    }
    span.set("touchstone.run.id", run.run_id.as_str());
    span.set("touchstone.run.workflow_id", &run.spec.workflow_id);
    span.set("touchstone.run.status", state.status.as_str());
    span.set("touchstone.tenant", run.tenant.as_str());
    span.set("gen_ai.usage.input_tokens", state.tokens.0);
    span.set("gen_ai.usage.output_tokens", state.tokens.1);
    if let Some(eval) = run.spec.eval() {
        span.set("touchstone.suite.id", &eval.suite_id);
        span.set("touchstone.suite.version", &eval.suite_version);
        span.set("gen_ai.agent.id", eval.agent_id.as_str());
        span.set("gen_ai.agent.version", &eval.agent_version);
        span.set("touchstone.run.tasks", eval.tasks.len());
        span.set("touchstone.run.tasks_scored", state.eval.scored_count);
        span.set_some("touchstone.run.passed", state.eval.completed);
    }
    if let Some(fork) = &run.fork {
        span.set("touchstone.run.forked_from", fork.source_run_id.as_str());
    }
    match &state.error {
        Some(error) => span.fail(&error.code),
        None if state.cancelled.is_some() => span.fail("cancelled"),
        None => {}
    }
    span.end();
}

/// The span of a task.
pub(super) fn task(id: &TaskId) -> Span {
    let mut span = Span::start(SpanKind::Internal, || "eval task".to_owned());
    span.set("touchstone.task.id", id.as_str());
    span
}

/// Ends the span of a task with its recorded result; without one, the task was stopped.
pub(super) fn task_ended(mut span: Span, facts: Option<&TaskFacts>) {
    let Some(facts) = facts.filter(|facts| facts.scored && span.is_recorded()) else {
        return;
    };
    match &facts.unjudged {
        Some(reason) => span.fail(reason),
        None => {
            span.set("touchstone.task.score", facts.score);
            span.set("touchstone.task.passed", facts.passed);
            // The agent's own failure is a result, not an error of the evaluation.
            span.set_some("touchstone.task.failure", facts.failed.as_ref());
        }
    }
    span.end();
}

/// Records the results of a task as events about the span of its invocation.
pub(super) fn evaluated(facts: &TaskFacts, reasons: &[String], invocation: Option<SpanId>) {
    let result = |name: &str, more: Vec<_>| {
        let mut attributes = vec![attribute("gen_ai.evaluation.name", name)];
        attributes.extend(more);
        span::event("gen_ai.evaluation.result", invocation, attributes);
    };
    if let Some(reason) = &facts.unjudged {
        return result("task", vec![attribute("error.type", reason)]);
    }
    let label = |passed| attribute("gen_ai.evaluation.score.label", verdict(passed));
    let value = |score: f64| attribute("gen_ai.evaluation.score.value", score);
    result("task", vec![value(facts.score), label(facts.passed)]);
    for (name, score) in &facts.metrics {
        result(&format!("metric.{name}"), vec![value(*score)]);
    }
    for (n, holds) in facts.assertions.iter().enumerate() {
        result(&format!("assertion.{n}"), vec![label(*holds)]);
    }
    for (n, is_met) in facts.criteria.iter().enumerate() {
        let reason = reasons.get(n).filter(|reason| !reason.is_empty());
        let reason = reason.map(|it| attribute("gen_ai.evaluation.explanation", &*mask(it)));
        let more = std::iter::once(label(*is_met)).chain(reason);
        result(&format!("criterion.{n}"), more.collect());
    }
}

const fn verdict(passed: bool) -> &'static str {
    if passed { "pass" } else { "fail" }
}
