//! `run retry`: results of an earlier run are copied as recorded (ADR 4).

use std::collections::HashMap;

use tracing::error;

use crate::service::executor::control::Stop;
use crate::service::executor::eval::context::RunContext;
use crate::service::executor::task_loop::EarlyEnd;
use crate::service::run_writer::Closed;
use crate::store;
use touchstone_host::ports::run_log::reaches_end;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_openwop::events::{Event, EventDocument, NewEvent, TaskReused};

const COPY_PAGE: u32 = 2048;

/// Emits again the recorded facts of every task an earlier run judged, each task in one
/// transaction.
pub(super) async fn copy_judged_tasks(
    store: &Database,
    context: &RunContext,
) -> Result<(), EarlyEnd> {
    let Some(source) = &context.spec.retry_of else {
        return Ok(());
    };
    let writer = &context.writer;
    let mut by_task: HashMap<TaskId, Vec<NewEvent>> = HashMap::new();
    let mut after = 0;
    loop {
        let events = match store::runs::read(store, source, after, COPY_PAGE).await {
            Ok(events) => events,
            Err(cause) => {
                error!(run_id = %context.run.run_id, %cause, "could not read the run to retry");
                writer.close();
                return Err(Stop::Lost.into());
            }
        };
        for stored in &events {
            after = stored.sequence;
            let Ok(document) = EventDocument::read(&stored.body) else {
                continue;
            };
            let Ok(Some(event)) = document.event() else {
                continue;
            };
            let task = match (&event, document.node_id) {
                (Event::EvalScored(scored), _) => scored.task_id.clone(),
                (_, Some(task)) => task,
                _ => continue,
            };
            let scored = matches!(event, Event::EvalScored(_));
            let facts = by_task.entry(task.clone()).or_default();
            facts.push(NewEvent::of_task(event, &task, None));
            if scored {
                let facts = by_task.remove(&task).unwrap_or_default();
                copy_task(context, source, &task, facts).await?;
            }
        }
        if reaches_end(&events, COPY_PAGE) {
            return Ok(());
        }
    }
}

async fn copy_task(
    context: &RunContext,
    source: &RunId,
    task: &TaskId,
    mut facts: Vec<NewEvent>,
) -> Result<(), EarlyEnd> {
    let writer = &context.writer;
    let judged = !facts
        .iter()
        .any(|fact| matches!(fact.event, Event::TaskUnjudged(_)));
    let known = writer.with_state(|state| state.eval.scored(task).is_some());
    let is_reused = judged && !known;
    let in_suite = is_reused && context.task(task).await?.is_some();
    if in_suite {
        let reused = facts
            .iter()
            .any(|fact| matches!(fact.event, Event::TaskReused(_)));
        if !reused {
            let reused = TaskReused {
                task_id: task.clone(),
                source_run_id: source.clone(),
            };
            facts.insert(0, NewEvent::of_task(Event::TaskReused(reused), task, None));
        }
        writer.emit_all(&facts);
        writer.ready().await.map_err(|Closed| Stop::Lost)?;
    }
    Ok(())
}
