//! The answers of two runs to one task.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::compare::runs::{task_page as compared_page, two};
use crate::page::answer::html;
use crate::page::chrome::{Chrome, Section};
use crate::page::visit::Visit;
use crate::runs::task_page;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::render::words::plain;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_runs::render::report_page::failures::{FailureDetails, TaskRow};
use touchstone_runs::rules::eval::task_details::difference::{TextPart, text_parts};

#[derive(Template)]
#[template(path = "compare/task.html")]
struct Page {
    chrome: Chrome,
    task: String,
    runs: String,
    sides: [Side; 2],
    is_same_input: bool,
    is_same_answer: bool,
    parts: Vec<Part>,
    previous: Option<String>,
    next: Option<String>,
}

/// The answer of one run.
struct Side {
    title: &'static str,
    run: String,
    href: String,
    row: TaskRow,
    it: FailureDetails,
}

/// A part of the two answers.
struct Part {
    is_old: bool,
    is_new: bool,
    text: String,
}

impl From<TextPart> for Part {
    fn from(part: TextPart) -> Self {
        let (is_old, is_new, text) = match part {
            TextPart::Both(text) => (false, false, text),
            TextPart::OnlyExpected(text) => (true, false, text),
            TextPart::OnlyActual(text) => (false, true, text),
        };
        Self {
            is_old,
            is_new,
            text,
        }
    }
}

/// `GET /console/compare/tasks/{taskId}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    parameters: PathParameters,
    query: Query,
) -> Answer {
    let (baseline, candidate) = two(&query)?;
    let task = TaskId::from(parameters.get("taskId"));
    let before = side(&api, &visit, "Baseline", &baseline, &task).await?;
    let now = side(&api, &visit, "Compared run", &candidate, &task).await?;
    let is_same_answer = before.it.actual == now.it.actual;
    let parts = match is_same_answer {
        true => Vec::new(),
        false => text_parts(&before.it.actual, &now.it.actual).unwrap_or_default(),
    };
    let (previous, next) = beside(&api, &visit, &baseline, &candidate, &task).await?;
    html(&Page {
        previous,
        next,
        chrome: visit.chrome(Section::Compare),
        task: plain(task.as_str()),
        runs: format!("{baseline},{candidate}"),
        is_same_input: before.it.input == now.it.input,
        is_same_answer,
        parts: parts.into_iter().map(Part::from).collect(),
        sides: [before, now],
    })
}

/// The pages of the compared tasks before and after a task, in the order of the comparison.
async fn beside(
    api: &ConsoleApi,
    visit: &Visit,
    baseline: &RunId,
    candidate: &RunId,
    task: &TaskId,
) -> Result<(Option<String>, Option<String>), Problem> {
    let runs = &api.runs.runs;
    let found = runs.shared_comparison(visit.tenant(), candidate, baseline);
    let found = match found.await {
        Ok(found) => found,
        // The runs have no task in common, or have not ended.
        Err(problem) if matches!(problem.code.status(), 400 | 409) => return Ok((None, None)),
        Err(problem) => return Err(problem),
    };
    let changed = found.changes.iter().map(|it| it.task_id.as_str());
    let mut tasks = changed.chain(found.unchanged.texts());
    let mut previous = None;
    for it in tasks.by_ref() {
        if it == task.as_str() {
            let page = |it: &str| compared_page(&it.into(), baseline, candidate);
            return Ok((previous.map(page), tasks.next().map(page)));
        }
        previous = Some(it);
    }
    Ok((None, None))
}

async fn side(
    api: &ConsoleApi,
    visit: &Visit,
    title: &'static str,
    run: &RunId,
    task: &TaskId,
) -> Result<Side, Problem> {
    let runs = &api.runs.runs;
    let found = runs.result(visit.tenant(), run, task).await?;
    let (numbers, scored) = found.result.into_row();
    let row = TaskRow::of(&numbers, &scored);
    let details = runs.task(&visit.caller, run, task).await?;
    Ok(Side {
        title,
        run: run.to_string(),
        href: task_page(run, task),
        row,
        it: FailureDetails::of(0, &details),
    })
}
