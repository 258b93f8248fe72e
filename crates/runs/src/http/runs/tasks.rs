//! Tasks of eval runs: their results, and their content.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::RunsApi;
use crate::http::events::poll::full;
use crate::http::extract::{OwnRun, RunPath};
use crate::rules::eval::report::TaskOutcome;
use crate::rules::eval::task_list::{PageStart, TaskListQuery, TaskOrder};
use crate::service::runs::reading::results::MAX_RESULTS;
use crate::service::runs::reading::task_details::{MAX_PAGE_BYTES, MAX_TASKS, TaskQuery};
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::service::access::Caller;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TaskId;

/// Memory for one page, in bytes: its events, parsed and as JSON.
const PAGE_MEMORY: usize = 2 * MAX_PAGE_BYTES;
/// Tasks of a page unless `limit` says otherwise.
const DEFAULT_LIMIT: u64 = 20;

/// `GET /v1/host/touchstone/runs/{runId}/tasks/{taskId}`.
pub async fn show(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    OwnRun(run): OwnRun,
) -> Answer {
    let task = TaskId::from(path.get("taskId"));
    let memory = state.log.memory();
    let _permit = memory.reserve(PAGE_MEMORY).await.map_err(full)?;
    let details = state.runs.task(&caller, &run.run_id, &task).await?;
    json(StatusCode::OK, &details)
}

/// `GET /v1/host/touchstone/runs/{runId}/tasks`.
pub async fn list(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    OwnRun(run): OwnRun,
) -> Answer {
    let asked = TaskQuery {
        outcome: query.get("outcome").map(outcome).transpose()?,
        after: query.get("cursor").map(TaskId::from),
        limit: usize::try_from(query.whole("limit", 1, MAX_TASKS)?.unwrap_or(DEFAULT_LIMIT))
            .unwrap_or(usize::MAX),
    };
    let memory = state.log.memory();
    let _permit = memory.reserve(PAGE_MEMORY).await.map_err(full)?;
    let page = state.runs.tasks(&caller, &run.run_id, &asked).await?;
    json(StatusCode::OK, &page)
}

/// Results of a page unless `limit` says otherwise.
const DEFAULT_RESULTS: u64 = 100;

/// `GET /v1/host/touchstone/runs/{runId}/results`.
pub async fn results(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    query: Query,
) -> Answer {
    let limit = query.whole("limit", 1, MAX_RESULTS)?;
    let asked = TaskListQuery {
        name: query.get("q").unwrap_or_default().to_owned(),
        outcome: query.get("outcome").map(outcome).transpose()?,
        order: query.get("order").map_or(Ok(TaskOrder::Suite), order)?,
        start: match query.get("cursor") {
            Some(task) => PageStart::After(task.into()),
            None => PageStart::At(0),
        },
        limit: usize::try_from(limit.unwrap_or(DEFAULT_RESULTS)).unwrap_or(usize::MAX),
    };
    let page = state.runs.results(&caller.tenant, &run, &asked).await?;
    json(StatusCode::OK, &page)
}

fn order(name: &str) -> Result<TaskOrder, Problem> {
    TaskOrder::parse(name).ok_or_else(|| {
        Problem::validation(
            "order",
            "`order` must be `suite`, `score`, `latency`, `cost` or `task`",
        )
    })
}

fn outcome(name: &str) -> Result<TaskOutcome, Problem> {
    match name {
        "passed" => Ok(TaskOutcome::Passed),
        "failed" => Ok(TaskOutcome::Failed),
        "unjudged" => Ok(TaskOutcome::Unjudged),
        _ => Err(Problem::validation(
            "outcome",
            "`outcome` must be `passed`, `failed` or `unjudged`",
        )),
    }
}
