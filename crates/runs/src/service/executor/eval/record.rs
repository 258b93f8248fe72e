//! The events of a task other than those of its invocation.

use std::borrow::Cow;

use crate::rules::eval::safety::{UNSAFE, ceiling};
use crate::rules::eval::unjudged_cause::UnjudgedCause;
use crate::rules::run::fold::RunState;
use crate::service::executor::eval::context::RunContext;
use crate::service::executor::eval::judging::{RubricFindings, TaskOutcome};
use crate::service::executor::spans;
use crate::service::metrics::RUN_METRICS;
use touchstone_agents::ports::agent::InvocationResult;
use touchstone_host::otlp::span;
use touchstone_kit::headers::trace_context::SpanId;
use touchstone_kit::ids::TaskId;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::{
    AgentInvocationCompleted, EvalScored, Event, InvocationOutcome, JudgeReasoned, NewEvent,
    TaskFailed, TaskJudged, TaskMeasured, TaskSafety, TaskUnjudged,
};
use touchstone_openwop::summary::SafetyFinding;

/// The label of a task that was interrupted after it changed, or may have changed, external state:
/// it is not repeated.
const EFFECT_UNCERTAIN: &str = "effect_uncertain";

/// Closes the invocations that an earlier attempt at the run left open. Their tasks are repeated,
/// except those with an uncertain external effect.
pub(super) fn close_interrupted(context: &RunContext) {
    let interrupted: Vec<(TaskId, bool)> = context.writer.with_state(|state| {
        let unscored = state.eval.tasks.unscored();
        unscored
            .filter(|(_, facts)| facts.open_invocation.is_some() || facts.effects > 0)
            .map(|(task, facts)| (task, facts.effects > 0))
            .collect()
    });
    for (task, changed) in interrupted {
        close_open_invocation(context, &task);
        if changed {
            let reason = EFFECT_UNCERTAIN.to_owned();
            let outcome = TaskOutcome::Unjudged { reason };
            record_score(context, &task, outcome, Measurements::default(), Vec::new());
        }
    }
}

/// Closes an invocation that will not end by itself.
pub fn close_open_invocation(context: &RunContext, task: &TaskId) {
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
        agent_id: context.spec.agent_id.clone(),
        outcome: InvocationOutcome::Failed,
        schema_validated: None,
    };
    context.writer.emit(&NewEvent::of_task(
        Event::AgentInvocationCompleted(completed),
        task,
        None,
    ));
}

/// Measurements of an invocation besides its score.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measurements {
    schema_valid: Option<bool>,
    /// Absent if the invocation did not end.
    latency_ms: Option<u64>,
    /// The span of the invocation, if its trace is recorded.
    span_id: Option<SpanId>,
}

impl Measurements {
    pub fn of(result: &InvocationResult) -> Self {
        Self {
            schema_valid: result.schema_valid,
            latency_ms: Some(result.latency_ms),
            span_id: result.span_id,
        }
    }
}

/// The judge's reasons, if it gave any, and its decisions.
fn judged_events(id: &TaskId, findings: RubricFindings) -> impl Iterator<Item = NewEvent> {
    let RubricFindings {
        judge,
        met,
        reasons,
        votes,
    } = findings;
    let has_reasons = reasons.iter().any(|reason| !reason.is_empty());
    let reasoned = has_reasons.then(|| {
        let task_id = id.clone();
        Event::JudgeReasoned(JudgeReasoned { task_id, reasons })
    });
    let judged = Event::TaskJudged(TaskJudged {
        task_id: id.clone(),
        judge,
        met,
        votes,
    });
    let events = [reasoned, Some(judged)].into_iter().flatten();
    events.map(|event| NewEvent::of_task(event, id, None))
}

/// Records the outcome of a task; reason and score in one transaction.
pub(super) fn record_score(
    context: &RunContext,
    id: &TaskId,
    outcome: TaskOutcome,
    measurements: Measurements,
    findings: Vec<SafetyFinding>,
) {
    let mut events = Vec::with_capacity(2);
    let (mut score, mut passed) = (0.0, false);
    let task_id = id.clone();
    let unjudged = match &outcome {
        TaskOutcome::Unjudged { reason } => Some(UnjudgedCause::of_reason(reason)),
        TaskOutcome::Scored { .. } | TaskOutcome::Failed { .. } => None,
    };
    let reasons = match &outcome {
        TaskOutcome::Scored {
            rubric: Some(rubric),
            ..
        } if span::events_capture_content() => rubric.reasons.clone(),
        _ => Vec::new(),
    };
    match outcome {
        TaskOutcome::Scored {
            score: reached,
            passed: is_reached,
            rubric,
            measured,
            external,
            ..
        } => {
            events.extend(external.events(id));
            if let Some(measured) = measured {
                let measured = Event::TaskMeasured(TaskMeasured {
                    task_id: id.clone(),
                    assertions: measured.assertions,
                    left_out: measured.left_out,
                    metrics: measured.metrics,
                });
                events.push(NewEvent::of_task(measured, id, None));
            }
            (score, passed) = (reached, is_reached);
            // Unsafe actions reduce the score (ADR 18); the output itself may have been correct.
            if context.is_adversarial() && !findings.is_empty() {
                (score, passed) = (score.min(ceiling(&findings)), false);
                let failed = TaskFailed {
                    task_id: id.clone(),
                    reason: UNSAFE.to_owned(),
                };
                events.push(NewEvent::of_task(Event::TaskFailed(failed), id, None));
            }
            events.extend(rubric.into_iter().flat_map(|it| judged_events(id, it)));
        }
        TaskOutcome::Failed { reason } => {
            let failed = TaskFailed { task_id, reason };
            events.push(NewEvent::of_task(Event::TaskFailed(failed), id, None));
        }
        TaskOutcome::Unjudged { reason } => {
            let unjudged = TaskUnjudged { task_id, reason };
            events.push(NewEvent::of_task(Event::TaskUnjudged(unjudged), id, None));
        }
    }
    let found = findings.len();
    if found > 0 {
        let safety = TaskSafety {
            task_id: id.clone(),
            findings,
        };
        events.push(NewEvent::of_task(Event::TaskSafety(safety), id, None));
    }
    let cost = context
        .writer
        .with_state(|state| Some(state.eval.tasks.get(id)?.cost))
        .unwrap_or_default();
    let scored = EvalScored {
        task_id: id.clone(),
        score,
        passed,
        // A call that was cut off has no recorded cost, which is not a cost of 0.
        cost_usd: cost
            .known()
            .filter(|cost| *cost > NanoUsd::ZERO || unjudged.is_none()),
        latency_ms: measurements.latency_ms,
        schema_valid: measurements.schema_valid,
        safety_finding_count: Some(u32::try_from(found).unwrap_or(u32::MAX)),
    };
    events.push(NewEvent::of_task(Event::EvalScored(scored), id, None));
    context.writer.emit_all(&events);
    match unjudged {
        Some(cause) => RUN_METRICS.task_unjudged(cause),
        None => RUN_METRICS.task_scored(passed, measurements.latency_ms),
    }
    if span::exports_events() {
        let facts = context
            .writer
            .with_state(|state| state.eval.tasks.get(id).map(Cow::into_owned));
        let facts = facts.unwrap_or_default();
        spans::evaluated(&facts, &reasons, measurements.span_id);
    }
}
