//! Scores, costs and latencies of a suite over time, with the deployments of its agents; without a
//! suite, the newest score of each agent version and suite.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use jiff::{SignedDuration, Timestamp};

use crate::api::ConsoleApi;
use crate::compare::chart::{Chart, Measure, Measured};
use crate::compare::flaky::flaky_page;
use crate::compare::lines::{Lines, model_of};
use crate::compare::matrix::Matrix;
use crate::compare::releases::Releases;
use crate::page::answer::html;
use crate::page::chrome::{Chrome, Section};
use crate::page::period::{Period, in_timestamps};
use crate::page::text::{Time, cost, latency, score};
use crate::page::visit::Visit;
use crate::runs::words::{Badge, interval, passed, state};
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::{duration, plain, usd};
use touchstone_kit::error::Problem;
use touchstone_kit::money::NanoUsd;
use touchstone_runs::http::runs::list::asked;
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
    model: String,
    suite_version: String,
    period: Period,
    ranges: Vec<Range>,
    is_filtered: bool,
    suites: Vec<String>,
    agents: Vec<String>,
    models: Vec<String>,
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

/// A time range to choose, up to now.
struct Range {
    label: &'static str,
    href: String,
    is_chosen: bool,
}

/// Time ranges and their numbers of days.
const RANGES: [(&str, i64); 4] = [
    ("7 days", 7),
    ("30 days", 30),
    ("90 days", 90),
    ("1 year", 365),
];

const SCORE: Measure = Measure {
    name: "Score",
    caption: "A point is a run. Its bar is the 95 % interval of its own score.",
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
    let text = |name: &str| query.get(name).unwrap_or_default().to_owned();
    let newest = runs.list(visit.tenant(), &eval_runs()).await?.runs;
    let (suite, agent) = (query.get("suiteId"), query.get("agentId"));
    let (found, has_more) = match suite {
        Some(_) => {
            let page = runs.list(visit.tenant(), &of_suite(&query)?).await?;
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
    html(&Page {
        chrome: visit.chrome(Section::History),
        suite: text("suiteId"),
        suite_query: encoded(suite.unwrap_or_default()),
        agent: text("agentId"),
        model: text("model"),
        suite_version: text("suiteVersion"),
        period: Period::of(&query),
        ranges: ranges(&query, api.host.clock.now()),
        is_filtered: !query.without(&["done"]).is_empty(),
        suites: distinct(newest.iter().filter_map(suite_of)),
        agents: distinct(newest.iter().filter_map(agent_of)),
        models: distinct(newest.iter().filter_map(model_of)),
        charts: charts(&found, &releases),
        releases,
        flaky: flaky_of(suite.unwrap_or_default(), agent),
        rows: found.iter().map(Row::of).collect(),
        has_more,
        matrix,
    })
}

/// The newest eval runs.
fn eval_runs() -> RunQuery {
    RunQuery {
        kind: Some(RunKind::Eval),
        limit: usize::try_from(MAX_RUNS).unwrap_or(usize::MAX),
        ..RunQuery::default()
    }
}

/// The runs of the suite that the filters select.
///
/// # Errors
/// `validation_error` that names the parameter.
fn of_suite(query: &Query) -> Result<RunQuery, Problem> {
    let asked = asked(&in_timestamps(query))?;
    Ok(RunQuery {
        suite_id: asked.suite_id,
        suite_version: asked.suite_version,
        agent_id: asked.agent_id,
        model: asked.model,
        since: asked.since,
        until: asked.until,
        ..eval_runs()
    })
}

/// The time ranges with their addresses, and last the one without a limit.
fn ranges(query: &Query, now: Timestamp) -> Vec<Range> {
    let kept = query.without(&["since", "until", "done"]);
    let (since, until) = (query.get("since"), query.get("until"));
    let range = |(label, days): &(&'static str, i64)| {
        let start = now
            .checked_sub(SignedDuration::from_hours(24 * days))
            .ok()?;
        let day = start.strftime("%Y-%m-%d").to_string();
        Some(Range {
            label,
            href: format!("/console/history?{kept}&since={day}"),
            is_chosen: since == Some(&day) && until.is_none(),
        })
    };
    let all = Range {
        label: "All",
        href: format!("/console/history?{kept}"),
        is_chosen: since.is_none() && until.is_none(),
    };
    RANGES.iter().filter_map(range).chain([all]).collect()
}

fn charts(found: &[RunListing], releases: &Releases) -> Vec<Chart> {
    let (marks, lines) = (releases.marks(), Lines::of(found));
    let chart = |(measure, value): (&Measure, Value)| {
        let points = found.iter().rev();
        let points = points.filter_map(|run| measured(run, &lines, measure, value));
        Chart::of(measure, points.collect(), &marks)
    };
    let measures: [(&Measure, Value); 3] = [
        (&SCORE, the_score),
        (&COST, the_cost),
        (&LATENCY, the_latency),
    ];
    measures.into_iter().filter_map(chart).collect()
}

fn flaky_of(suite: &str, agent: Option<&str>) -> String {
    let page = flaky_page(suite);
    match agent {
        Some(agent) => format!("{page}?agentId={}", encoded(agent)),
        None => page,
    }
}

pub(super) fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

pub(super) fn suite_of(run: &RunListing) -> Option<String> {
    Some(run.subject.suite.as_ref()?.suite_id.clone())
}

pub(super) fn agent_of(run: &RunListing) -> Option<String> {
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
fn measured(run: &RunListing, lines: &Lines, measure: &Measure, value: Value) -> Option<Measured> {
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
        line: lines.name(run)?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_range_keeps_the_other_filters() {
        let now = "2026-11-28T09:00:00Z".parse().unwrap();
        let query = Query::default()
            .with("suiteId", "a b".to_owned())
            .with("since", "2026-11-21".to_owned());
        let found = ranges(&query, now);
        let href = "/console/history?suiteId=a+b";
        let first = &found[0];
        assert_eq!(first.href, format!("{href}&since=2026-11-21"));
        assert!(first.is_chosen);
        let last = found.last().unwrap();
        assert_eq!((last.href.as_str(), last.is_chosen), (href, false));
    }
}
