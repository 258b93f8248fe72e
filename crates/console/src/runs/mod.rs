//! Runs: the list, one run, one of its tasks.

mod actions;
mod list;
mod run;
mod task;
mod words;
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
            "/console/runs/{runId}/tags",
            Scope::RunsCreate,
            actions::tags,
        )
}

/// Whether the person may read the content of tasks.
fn may_read_content(visit: &Visit) -> bool {
    visit.may(Scope::RunsContent)
}

/// The address of a task's page.
fn task_page(run: &RunId, task: &TaskId) -> String {
    format!("/console/runs/{run}/tasks/{}", segment(task.as_str()))
}
