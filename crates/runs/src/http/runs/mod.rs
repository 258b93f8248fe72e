//! Creating, listing, forking, annotating and controlling runs.

pub mod annotations;
pub mod control;
pub mod create;
pub mod fork;
pub mod list;
pub mod page;
pub mod tasks;

use axum::http::Method;

use crate::http::RunsApi;
use touchstone_host::access::Scope;
use touchstone_host::http::routes::Table;

pub fn routes(table: Table<RunsApi>) -> Table<RunsApi> {
    let (get, post) = (&Method::GET, &Method::POST);
    table
        .keyed(post, "/v1/runs", Scope::RunsCreate, create::create)
        .keyed(get, "/v1/runs", Scope::RunsRead, page::show)
        .keyed(
            post,
            "/v1/runs:bulk-cancel",
            Scope::RunsCancel,
            control::bulk_cancel,
        )
        .keyed(
            post,
            "/v1/runs/{runId}/cancel",
            Scope::RunsCancel,
            control::cancel,
        )
        .keyed(
            post,
            "/v1/runs/{runId}:pause",
            Scope::RunsCancel,
            control::pause,
        )
        .keyed(
            post,
            "/v1/runs/{runId}:resume",
            Scope::RunsCancel,
            control::resume,
        )
        .keyed(post, "/v1/runs/{runId}:fork", Scope::RunsCreate, fork::fork)
        .keyed(
            get,
            "/v1/runs/{runId}/annotations",
            Scope::RunsRead,
            annotations::list,
        )
        .keyed_by_major(
            post,
            "/v1/runs/{runId}/annotations",
            (Scope::RunsCreate, Scope::RunsAnnotate),
            annotations::create,
        )
        .keyed(get, "/v1/host/touchstone/runs", Scope::RunsRead, list::list)
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:tag",
            Scope::RunsCreate,
            list::tag,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:retry",
            Scope::RunsCreate,
            fork::retry,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/results",
            Scope::RunsRead,
            tasks::results,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/tasks",
            Scope::RunsContent,
            tasks::list,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/tasks/{taskId}",
            Scope::RunsContent,
            tasks::show,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:void",
            Scope::RunsVoid,
            control::void,
        )
}
