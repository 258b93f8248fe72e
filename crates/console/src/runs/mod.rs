//! Runs: the list, one run, one of its tasks.

mod actions;
mod baseline;
mod downloads;
mod fork;
mod gate;
mod list;
mod notes;
mod run;
mod task;
pub mod tasks;
pub mod words;
mod workflow;

use crate::page::answer::segment;
use crate::page::visit::Visit;
use crate::routes::Pages;
use touchstone_host::access::Scope;
use touchstone_kit::ids::{RunId, TaskId};

pub fn routes(pages: Pages) -> Pages {
    pages
        .page("/console", Scope::RunsRead, list::page)
        .page("/console/runs", Scope::RunsRead, list::page)
        .page("/console/runs/{runId}", Scope::RunsRead, run::page)
        .page(
            "/console/runs/{runId}/tasks/{taskId}",
            Scope::RunsRead,
            task::page,
        )
        .form(
            "/console/runs/{runId}/cancel",
            Scope::RunsCancel,
            actions::cancel,
        )
        .form(
            "/console/runs/{runId}/pause",
            Scope::RunsCancel,
            actions::pause,
        )
        .form(
            "/console/runs/{runId}/resume",
            Scope::RunsCancel,
            actions::resume,
        )
        .form(
            "/console/runs/{runId}/retry",
            Scope::RunsCreate,
            actions::retry,
        )
        .form("/console/runs/{runId}/fork", Scope::RunsCreate, fork::fork)
        .form("/console/runs/{runId}/void", Scope::RunsVoid, actions::void)
        .form(
            "/console/runs/{runId}/annotations",
            Scope::RunsCreate,
            notes::add,
        )
        .page(
            "/console/runs/{runId}/download/{name}",
            Scope::RunsRead,
            downloads::get,
        )
        .form(
            "/console/runs/{runId}/tags",
            Scope::RunsCreate,
            actions::tags,
        )
}

/// Whether the person may read the content of tasks.
pub fn may_read_content(visit: &Visit) -> bool {
    visit.may(Scope::RunsContent)
}

/// The address of a task's page.
pub fn task_page(run: &RunId, task: &TaskId) -> String {
    format!("/console/runs/{run}/tasks/{}", segment(task.as_str()))
}
