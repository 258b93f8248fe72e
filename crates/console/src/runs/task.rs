//! One task of a run: input, answer, expectation, transcript.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::page::answer::html;
use crate::page::chrome::{Chrome, Section};
use crate::page::visit::Visit;
use crate::runs::notes::Note;
use crate::runs::task_page;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_kit::ids::TaskId;
use touchstone_runs::http::extract::RunPath;
use touchstone_runs::render::report_page::failures::{FailureDetails, TaskRow};

#[derive(Template)]
#[template(path = "runs/task.html")]
struct Page {
    chrome: Chrome,
    run: String,
    task: TaskRow,
    /// `None` without the right to read content.
    details: Option<FailureDetails>,
    /// The id of the task, as the value of a field.
    task_id: String,
    notes: Vec<Note>,
    may_annotate: bool,
    previous: Option<String>,
    next: Option<String>,
}

/// `GET /console/runs/{runId}/tasks/{taskId}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    parameters: PathParameters,
) -> Answer {
    let runs = &api.runs.runs;
    let task = TaskId::from(parameters.get("taskId"));
    let found = runs.result(visit.tenant(), &run, &task).await?;
    let (numbers, scored) = found.result.into_row();
    let details = match super::may_read_content(&visit) {
        true => Some(FailureDetails::of(
            0,
            &runs.task(&visit.caller, &run, &task).await?,
        )),
        false => None,
    };
    let address = |task: TaskId| task_page(&run, &task);
    html(&Page {
        chrome: visit.chrome(Section::Runs),
        run: run.to_string(),
        task: TaskRow::of(&numbers, &scored),
        details,
        task_id: task.to_string(),
        notes: scored.annotations.iter().rev().map(Note::of).collect(),
        may_annotate: visit.may(Scope::RunsCreate),
        previous: found.previous.map(address),
        next: found.next.map(address),
    })
}
