//! What is recorded of a task beside what its invocation records itself.

use super::RunContext;
use crate::domain::eval::matching::matches;
use crate::domain::eval::safety::findings;
use crate::domain::ids::TaskId;
use crate::domain::run::fold::RunState;
use crate::ports::{InvocationEnd, InvocationResult};
use crate::protocol::openwop::events::{
    AgentInvocationCompleted, EvalScored, Event, InvocationOutcome, NewEvent, TaskFailed,
    TaskUnjudged,
};
use crate::protocol::openwop::suite::Task;

/// Closes an invocation that will not end by itself.
pub(super) fn close_open_invocation(context: &RunContext, task: &TaskId) {
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

/// Scores an invocation and records it, reason and score in one transaction.
pub(super) fn record_score(context: &RunContext, task: &Task, result: InvocationResult) {
    let id = &task.task_id;
    let mut events = Vec::with_capacity(2);
    let mut passed = false;
    let schema_valid = result.schema_valid;
    match result.end {
        InvocationEnd::Decided { output } => {
            let ignore = &context.spec.ignore;
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
    let (cost, found) = context
        .writer
        .with_state(|state| {
            let facts = state.eval.tasks.get(id)?;
            Some((facts.cost, findings(facts).len()))
        })
        .unwrap_or_default();
    let scored = EvalScored {
        task_id: id.clone(),
        score: if passed { 1.0 } else { 0.0 },
        passed,
        cost_usd: Some(cost),
        latency_ms: Some(result.latency_ms),
        schema_valid,
        safety_finding_count: Some(u32::try_from(found).unwrap_or(u32::MAX)),
    };
    events.push(NewEvent::of_task(Event::EvalScored(scored), id, None));
    context.writer.emit_all(&events);
}
