//! One run: verdict, figures, conditions of a gate, tasks.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde_json::Value;

use crate::api::ConsoleApi;
use crate::page::answer::html;
use crate::page::chrome::{Chrome, Section};
use crate::page::text::{Time, count};
use crate::page::visit::Visit;
use crate::runs::task_page;
use crate::runs::words::{Badge, is_open, status};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::plain;
use touchstone_kit::error::ErrorCode;
use touchstone_kit::ids::RunId;
use touchstone_runs::http::extract::RunPath;
use touchstone_runs::render::report_page::failures::TaskRow;
use touchstone_runs::render::report_page::{ReportPage, ReportView};
use touchstone_runs::rules::eval::report::{EvalReport, TaskOutcome};

/// Tasks of a page.
const TASKS: usize = 100;

#[derive(Template)]
#[template(path = "runs/run.html")]
struct Page {
    chrome: Chrome,
    id: String,
    subject: String,
    started: Time,
    status: Badge,
    is_open: bool,
    may_cancel: bool,
    may_read_content: bool,
    view: ReportView,
    scored: usize,
    all: usize,
    progress: String,
    tasks: Vec<Linked>,
    outcome: String,
    found: String,
    next: Option<String>,
    first: Option<String>,
    outcomes: Vec<Choice>,
    sorts: Vec<Choice>,
}

/// A task and the address of its page.
struct Linked {
    href: String,
    row: TaskRow,
}

struct Choice {
    value: &'static str,
    label: &'static str,
    is_chosen: bool,
}

const OUTCOMES: [(&str, &str); 4] = [
    ("", "All tasks"),
    ("failed", "Failed"),
    ("unjudged", "Not judged"),
    ("passed", "Passed"),
];
const SORTS: [(&str, &str); 5] = [
    ("", "Suite order"),
    ("score", "Lowest score first"),
    ("latency", "Slowest first"),
    ("cost", "Most expensive first"),
    ("task", "Name"),
];

/// `GET /console/runs/{runId}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    query: Query,
) -> Answer {
    let query = query.filled();
    let runs = &api.runs.runs;
    let tenant = visit.tenant();
    let report = match runs.report(tenant, &run).await {
        Ok(report) => report,
        // A run that is no eval run has no report.
        Err(problem) if problem.code == ErrorCode::NotFound => {
            return super::workflow::page(&api, &visit, &run).await;
        }
        Err(problem) => return Err(problem.into()),
    };
    let statistics = runs.statistics(tenant, &run).await?;
    let snapshot = runs.snapshot(tenant, &run).await?;
    let text = |name: &str| {
        snapshot
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let record = runs.record(tenant, &run).await?;
    let now = api.host.clock.now();
    let view = ReportView::of(ReportPage {
        report: &report,
        statistics: &statistics,
        comparison: None,
        content: None,
        made_at: now,
    });
    let outcome = query.get("outcome").unwrap_or_default();
    let sort = query.get("sort").unwrap_or_default();
    let from = query.whole("from", 0, 10_000_000)?.unwrap_or_default();
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let rows = selected(&run, &report, outcome, sort);
    let (all, found) = (report.tasks.len(), rows.len());
    let shown: Vec<Linked> = rows.into_iter().skip(from).take(TASKS).collect();
    let address = |from: usize| {
        let kept = query.without(&["from", "done"]);
        let from = (from > 0).then(|| format!("from={from}"));
        let parts: Vec<String> = std::iter::once(kept)
            .filter(|it| !it.is_empty())
            .chain(from)
            .collect();
        format!("/console/runs/{run}?{}#tasks", parts.join("&"))
    };
    let total = record.spec.eval().map_or(all, |eval| eval.tasks.len());
    let is_open = is_open(text("status"));
    html(&Page {
        chrome: visit.chrome(Section::Runs),
        id: run.to_string(),
        subject: plain(&format!(
            "{}@{}",
            report.suite.suite_id, report.suite.version
        )),
        started: record.created_at.into(),
        status: status(text("status")),
        is_open,
        may_cancel: is_open && visit.may(Scope::RunsCancel),
        may_read_content: super::may_read_content(&visit),
        scored: all,
        all: total,
        progress: format!("{} of {} tasks scored", count(all), count(total)),
        found: match (shown.len(), found) {
            (0, _) => String::new(),
            (shown, found) => format!(
                "{} to {} of {}",
                count(from + 1),
                count(from + shown),
                count(found)
            ),
        },
        next: (from + shown.len() < found).then(|| address(from + TASKS)),
        first: (from > 0).then(|| address(from.saturating_sub(TASKS))),
        tasks: shown,
        outcomes: choices(&OUTCOMES, outcome),
        sorts: choices(&SORTS, sort),
        outcome: outcome.to_owned(),
        view,
    })
}

fn choices(known: &[(&'static str, &'static str)], chosen: &str) -> Vec<Choice> {
    let choice = |(value, label): &(&'static str, &'static str)| Choice {
        value,
        label,
        is_chosen: *value == chosen,
    };
    known.iter().map(choice).collect()
}

/// The tasks with this outcome, in this order.
fn selected(run: &RunId, report: &EvalReport, outcome: &str, sort: &str) -> Vec<Linked> {
    let wanted = |found: TaskOutcome| match outcome {
        "failed" => found == TaskOutcome::Failed,
        "unjudged" => found == TaskOutcome::Unjudged,
        "passed" => found == TaskOutcome::Passed,
        _ => true,
    };
    let pairs = report.summary.tasks.iter().zip(&report.tasks);
    let mut pairs: Vec<_> = pairs.filter(|(_, task)| wanted(task.outcome)).collect();
    match sort {
        "score" => pairs.sort_by(|(a, _), (b, _)| a.score.total_cmp(&b.score)),
        "latency" => pairs.sort_by_key(|(it, _)| std::cmp::Reverse(it.latency_ms)),
        "cost" => pairs.sort_by_key(|(it, _)| std::cmp::Reverse(it.cost_usd)),
        "task" => pairs.sort_by(|(_, a), (_, b)| a.task_id.cmp(&b.task_id)),
        _ => {}
    }
    let rows = pairs.into_iter();
    rows.map(|(numbers, task)| Linked {
        href: task_page(run, &task.task_id),
        row: TaskRow::of(numbers, task),
    })
    .collect()
}
