//! The flaky tasks of a suite.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::compare::history::encoded;
use crate::page::answer::{html, segment};
use crate::page::chrome::{Chrome, Section};
use crate::page::text::{Time, count};
use crate::page::visit::Visit;
use crate::runs::task_page;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::render::words::plain;
use touchstone_kit::error::ErrorCode;
use touchstone_runs::http::views::flaky_query;
use touchstone_runs::rules::eval::flaky::{FlakyTask, FlakyTasks};

/// Tasks of a page.
const TASKS: usize = 50;
/// Numbers of runs to choose from.
const WINDOWS: [usize; 3] = [5, 10, 20];

#[derive(Template)]
#[template(path = "compare/flaky.html")]
struct Page {
    chrome: Chrome,
    suite: String,
    address: String,
    history: String,
    agent: String,
    version: String,
    windows: Vec<(usize, bool)>,
    subject: String,
    model: String,
    runs: Vec<Run>,
    measured: String,
    rows: Vec<Row>,
    found: String,
    previous: Option<String>,
    next: Option<String>,
}

struct Run {
    href: String,
    started: Time,
}

struct Row {
    task: String,
    passed: String,
    rate: String,
    interval: String,
    flips: String,
    outcomes: Vec<Outcome>,
}

/// The outcome in one run.
struct Outcome {
    href: String,
    passed: bool,
    /// The number of the run, from the oldest.
    number: usize,
}

/// The address of the page of a suite.
pub fn flaky_page(suite: &str) -> String {
    format!("/console/suites/{}/flaky", segment(suite))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

impl Row {
    fn of(found: &FlakyTasks, task: &FlakyTask) -> Self {
        let outcomes = task.outcomes.iter().map(|outcome| Outcome {
            href: task_page(&outcome.run_id, &task.task_id),
            passed: outcome.passed,
            number: 1 + found
                .runs
                .iter()
                .position(|run| run.run_id == outcome.run_id)
                .unwrap_or_default(),
        });
        Self {
            task: plain(task.task_id.as_str()),
            passed: format!("{} of {}", task.passed_count, task.run_count),
            rate: percent(task.pass_rate),
            interval: format!(
                "{} to {}",
                percent(task.pass_rate_low),
                percent(task.pass_rate_high)
            ),
            flips: count(task.flips),
            outcomes: outcomes.collect(),
        }
    }
}

/// `GET /console/suites/{suiteId}/flaky`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    query: Query,
) -> Answer {
    let query = query.filled();
    let suite = path.get("suiteId");
    let asked = flaky_query(suite, &query)?;
    let from = query.whole("from", 0, 10_000_000)?.unwrap_or_default();
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let found = match api.runs.runs.flaky(visit.tenant(), &asked).await {
        Ok(found) => found,
        // A suite without runs has a page that says so.
        Err(problem) if problem.code == ErrorCode::NotFound => FlakyTasks::default(),
        Err(problem) => return Err(problem.into()),
    };
    let shown = found.tasks.iter().skip(from).take(TASKS);
    let rows: Vec<Row> = shown.map(|task| Row::of(&found, task)).collect();
    let filters = query.without(&["from", "done"]);
    let address = flaky_page(suite);
    let page = |from: usize| match filters.as_str() {
        "" => format!("{address}?from={from}"),
        filters => format!("{address}?{filters}&from={from}"),
    };
    let agent = found.agent.as_ref();
    let subject = agent.map(|it| plain(&format!("{}@{}", it.agent_id, it.version)));
    let version = found.suite.as_ref().map(|it| plain(&it.version));
    html(&Page {
        chrome: visit.chrome(Section::History),
        suite: match version {
            Some(version) => format!("{}@{version}", plain(suite)),
            None => plain(suite),
        },
        history: format!("/console/history?suiteId={}", encoded(suite)),
        agent: query.get("agentId").unwrap_or_default().to_owned(),
        version: query.get("agentVersion").unwrap_or_default().to_owned(),
        windows: WINDOWS.map(|it| (it, it == asked.limit)).into(),
        subject: subject.unwrap_or_default(),
        model: plain(found.model.as_deref().unwrap_or_default()),
        runs: found
            .runs
            .iter()
            .map(|run| Run {
                href: format!("/console/runs/{}", run.run_id),
                started: run.created_at.into(),
            })
            .collect(),
        measured: count(found.measured_count),
        found: match rows.len() {
            0 => String::new(),
            many => format!(
                "{} to {} of {}",
                count(from + 1),
                count(from + many),
                count(found.tasks.len())
            ),
        },
        previous: (from > 0).then(|| page(from.saturating_sub(TASKS))),
        next: (from.saturating_add(TASKS) < found.tasks.len()).then(|| page(from + TASKS)),
        rows,
        address,
    })
}
