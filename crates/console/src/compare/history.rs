//! Scores over time of a suite, and the newest score of each agent version and suite.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::compare::chart::{Chart, Measured};
use crate::page::answer::html;
use crate::page::chrome::{Chrome, Section};
use crate::page::text::{Time, cost, score};
use crate::page::visit::Visit;
use crate::runs::words::{Badge, passed, state};
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::plain;
use touchstone_runs::rules::run::listing::{RunKind, RunListing, RunQuery};
use touchstone_runs::service::runs::list::MAX_RUNS;

#[derive(Template)]
#[template(path = "compare/history.html")]
struct Page {
    chrome: Chrome,
    suite: String,
    /// The same as the value of a parameter.
    suite_query: String,
    agent: String,
    suites: Vec<String>,
    agents: Vec<String>,
    chart: Option<Chart>,
    rows: Vec<Row>,
    has_more: bool,
    matrix: Option<Matrix>,
}

struct Row {
    id: String,
    version: String,
    agent: String,
    model: String,
    started: Time,
    state: Badge,
    score: String,
    interval: String,
    tasks: String,
    cost: String,
}

/// The newest score of each agent version (rows) and suite (columns).
struct Matrix {
    suites: Vec<(String, String)>,
    rows: Vec<(String, Vec<Option<Cell>>)>,
}

struct Cell {
    href: String,
    state: Badge,
    score: String,
}

/// `GET /console/history`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit, query: Query) -> Answer {
    let query = query.filled();
    let runs = &api.runs.runs;
    let asked = |suite: Option<&str>, agent: Option<&str>| RunQuery {
        kind: Some(RunKind::Eval),
        suite_id: suite.map(str::to_owned),
        agent_id: agent.map(str::to_owned),
        limit: usize::try_from(MAX_RUNS).unwrap_or(usize::MAX),
        ..RunQuery::default()
    };
    let (suite, agent) = (query.get("suiteId"), query.get("agentId"));
    let newest = runs.list(visit.tenant(), &asked(None, None)).await?;
    let suites = distinct(newest.runs.iter().filter_map(suite_of));
    let agents = distinct(newest.runs.iter().filter_map(agent_of));
    let (found, has_more) = match suite {
        Some(_) => {
            let page = runs.list(visit.tenant(), &asked(suite, agent)).await?;
            (page.runs, page.next.is_some())
        }
        None => (Vec::new(), false),
    };
    let matrix = suite.is_none().then(|| Matrix::of(&newest.runs, agent));
    let mut measured: Vec<Measured> = found.iter().filter_map(measured).collect();
    measured.reverse();
    html(&Page {
        chrome: visit.chrome(Section::History),
        suite: suite.unwrap_or_default().to_owned(),
        suite_query: encoded(suite.unwrap_or_default()),
        agent: agent.unwrap_or_default().to_owned(),
        suites,
        agents,
        chart: Chart::of(measured),
        rows: found.iter().map(Row::of).collect(),
        has_more,
        matrix: matrix.filter(|matrix| !matrix.rows.is_empty()),
    })
}

fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn suite_of(run: &RunListing) -> Option<String> {
    Some(run.subject.suite.as_ref()?.suite_id.clone())
}

fn agent_of(run: &RunListing) -> Option<String> {
    Some(run.subject.agent.as_ref()?.agent_id.to_string())
}

fn version_of(run: &RunListing) -> Option<String> {
    let agent = run.subject.agent.as_ref()?;
    Some(plain(&format!("{}@{}", agent.agent_id, agent.version)))
}

/// The values in their order, each once.
fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for value in values {
        if !known.contains(&value) {
            known.push(value);
        }
    }
    known
}

/// A run with a score; void runs are in the table alone.
fn measured(run: &RunListing) -> Option<Measured> {
    let result = run.result.as_ref().filter(|_| !run.voided)?;
    let found = result.score?;
    Some(Measured {
        line: plain(&agent_of(run)?),
        at: run.created_at,
        score: found,
        interval: result.score_low.zip(result.score_high),
        href: format!("/console/runs/{}", run.run_id),
        title: format!(
            "{}, {}: {found:.3}{}",
            version_of(run)?,
            Time::from(run.created_at).shown,
            interval(run).map_or_else(String::new, |it| format!(" ({it})"))
        ),
    })
}

fn interval(run: &RunListing) -> Option<String> {
    let result = run.result.as_ref()?;
    let (low, high) = result.score_low.zip(result.score_high)?;
    Some(format!("{low:.3} to {high:.3}"))
}

impl Row {
    fn of(run: &RunListing) -> Self {
        let result = run.result.as_ref();
        let suite = run.subject.suite.as_ref();
        let model = run.subject.model.as_ref();
        Self {
            id: run.run_id.to_string(),
            version: suite.map_or_else(String::new, |it| plain(&it.version)),
            agent: version_of(run).unwrap_or_default(),
            model: model.map_or_else(String::new, |it| plain(&it.model)),
            started: run.created_at.into(),
            state: state(run),
            score: score(result.and_then(|it| it.score)),
            interval: interval(run).unwrap_or_default(),
            tasks: passed(run),
            cost: result.map_or_else(String::new, |it| cost(it.total_cost_usd)),
        }
    }
}

impl Matrix {
    /// The runs are the newest first, so that the first of a cell is the one that it shows.
    fn of(runs: &[RunListing], agent: Option<&str>) -> Self {
        let wanted = |run: &&RunListing| {
            let scored = run.result.as_ref().is_some_and(|it| it.score.is_some());
            let named = agent.is_none_or(|agent| agent_of(run).as_deref() == Some(agent));
            scored && named && !run.voided
        };
        let runs: Vec<&RunListing> = runs.iter().filter(wanted).collect();
        let suites = distinct(runs.iter().filter_map(|run| suite_of(run)));
        let versions = distinct(runs.iter().filter_map(|run| version_of(run)));
        let cell = |version: &str, suite: &str| {
            let mut of_cell = runs.iter().filter(|run| {
                version_of(run).as_deref() == Some(version)
                    && suite_of(run).as_deref() == Some(suite)
            });
            of_cell.next().map(|run| Cell {
                href: format!("/console/runs/{}", run.run_id),
                state: state(run),
                score: score(run.result.as_ref().and_then(|it| it.score)),
            })
        };
        let rows = versions.into_iter().map(|version| {
            let cells = suites.iter().map(|suite| cell(&version, suite)).collect();
            (version, cells)
        });
        let rows = rows.collect();
        Self {
            suites: suites
                .iter()
                .map(|suite| {
                    let href = format!("/console/history?suiteId={}", encoded(suite));
                    (plain(suite), href)
                })
                .collect(),
            rows,
        }
    }
}
