//! Scores, costs and latencies of a suite over time, with the deployments of its agents; without a
//! suite, the newest score of each agent version and suite.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::compare::chart::{Chart, Measure, Measured};
use crate::compare::flaky::flaky_page;
use crate::compare::matrix::Matrix;
use crate::compare::releases::Releases;
use crate::page::answer::html;
use crate::page::chrome::{Chrome, Section};
use crate::page::text::{Time, cost, latency, score};
use crate::page::visit::Visit;
use crate::runs::words::{Badge, passed, state};
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::{duration, plain, usd};
use touchstone_kit::money::NanoUsd;
use touchstone_runs::rules::run::listing::{RunKind, RunListing, RunQuery, RunResult};
use touchstone_runs::service::runs::reading::list::MAX_RUNS;

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
    charts: Vec<Chart>,
    releases: Releases,
    flaky: String,
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
    latency: String,
}

const SCORE: Measure = Measure {
    name: "Score",
    caption: "A point is a run; its bar is the 95 % interval of its own score, where one is recorded.",
    most: Some(1.0),
    label: |value| value.to_string(),
};
const COST: Measure = Measure {
    name: "Cost",
    caption: "The cost of each run, where the prices are known.",
    most: None,
    label: |value| NanoUsd::from_usd(value).map_or_else(String::new, usd),
};
const LATENCY: Measure = Measure {
    name: "Latency",
    caption: "The median latency of the tasks of each run.",
    most: None,
    label: milliseconds,
};

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
    let matrix = match suite {
        None => Matrix::of(&runs.newest_of_versions(visit.tenant(), agent).await?),
        Some(_) => None,
    };
    let deployed = distinct(found.iter().filter_map(agent_of));
    let releases = Releases::of(&api, &visit, &deployed).await?;
    let marks = releases.marks();
    let chart = |(measure, value): (&Measure, Value)| {
        let points = found.iter().rev();
        let points = points.filter_map(|run| measured(run, measure, value));
        Chart::of(measure, points.collect(), &marks)
    };
    let charts: [(&Measure, Value); 3] = [
        (&SCORE, the_score),
        (&COST, the_cost),
        (&LATENCY, the_latency),
    ];
    let flaky = match agent {
        Some(agent) => format!(
            "{}?agentId={}",
            flaky_page(suite.unwrap_or_default()),
            encoded(agent)
        ),
        None => flaky_page(suite.unwrap_or_default()),
    };
    html(&Page {
        chrome: visit.chrome(Section::History),
        suite: suite.unwrap_or_default().to_owned(),
        suite_query: encoded(suite.unwrap_or_default()),
        agent: agent.unwrap_or_default().to_owned(),
        suites,
        agents,
        charts: charts.into_iter().filter_map(chart).collect(),
        releases,
        flaky,
        rows: found.iter().map(Row::of).collect(),
        has_more,
        matrix,
    })
}

pub(super) fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

pub(super) fn suite_of(run: &RunListing) -> Option<String> {
    Some(run.subject.suite.as_ref()?.suite_id.clone())
}

fn agent_of(run: &RunListing) -> Option<String> {
    Some(run.subject.agent.as_ref()?.agent_id.to_string())
}

pub(super) fn version_of(run: &RunListing) -> Option<String> {
    let agent = run.subject.agent.as_ref()?;
    Some(plain(&format!("{}@{}", agent.agent_id, agent.version)))
}

/// The values in their order, each once.
pub(super) fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for value in values {
        if !known.contains(&value) {
            known.push(value);
        }
    }
    known
}

/// A measure of a run's result.
type Value = fn(&RunResult) -> Option<f64>;

fn the_score(result: &RunResult) -> Option<f64> {
    result.score
}

fn the_cost(result: &RunResult) -> Option<f64> {
    result.total_cost_usd.map(NanoUsd::usd)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds are far below 2^53"
)]
fn the_latency(result: &RunResult) -> Option<f64> {
    result.latency_p50_ms.map(|ms| ms as f64)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a label of a scale"
)]
fn milliseconds(value: f64) -> String {
    duration(value.max(0.0).round() as u64)
}

/// A run as a point of a chart; void runs are in the table alone.
fn measured(run: &RunListing, measure: &Measure, value: Value) -> Option<Measured> {
    let result = run.result.as_ref().filter(|_| !run.voided)?;
    let value = value(result)?;
    let is_score = measure.name == SCORE.name;
    let (shown, bounds) = match is_score {
        true => (
            format!("{value:.3}"),
            result.score_low.zip(result.score_high),
        ),
        false => ((measure.label)(value), None),
    };
    let between = interval(run).filter(|_| is_score);
    Some(Measured {
        line: plain(&agent_of(run)?),
        at: run.created_at,
        value,
        interval: bounds,
        href: format!("/console/runs/{}", run.run_id),
        title: format!(
            "{}, {}: {shown}{}",
            version_of(run)?,
            Time::from(run.created_at).shown,
            between.map_or_else(String::new, |it| format!(" ({it})"))
        ),
    })
}

pub(super) fn interval(run: &RunListing) -> Option<String> {
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
            latency: latency(result.and_then(|it| it.latency_p50_ms)),
        }
    }
}
