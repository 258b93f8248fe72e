//! The list of runs.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::page::answer::html;
use crate::page::choice::{Choice, choices};
use crate::page::chrome::{Chrome, Section};
use crate::page::period::{Period, in_timestamps};
use crate::page::text::{Time, cost, score};
use crate::page::visit::Visit;
use crate::runs::words::{Badge, interval, passed, state, workflow};
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::plain;
use touchstone_runs::http::runs::list::{asked, cursor};
use touchstone_runs::rules::run::listing::RunListing;

/// Filters of the list by text, with their labels.
const TEXTS: [(&str, &str); 6] = [
    ("q", "Search names and tags"),
    ("suiteId", "Suite"),
    ("agentId", "Agent"),
    ("agentVersion", "Agent version"),
    ("model", "Model"),
    ("tag", "Tag"),
];
const VERDICTS: [(&str, &str); 3] = [
    ("pass", "Passed"),
    ("fail", "Failed"),
    ("inconclusive", "Inconclusive"),
];
const STATUSES: [(&str, &str); 10] = [
    ("pending", "Waiting"),
    ("running", "Running"),
    ("paused", "Paused"),
    ("waiting-approval", "Waits for approval"),
    ("waiting-input", "Waits for input"),
    ("waiting-external", "Waits for another system"),
    ("cancelling", "Cancelling"),
    ("cancelled", "Cancelled"),
    ("failed", "Error"),
    ("completed", "Completed"),
];
/// Parameters without a field of their own; the form keeps them.
const KEPT: [&str; 4] = ["kind", "suiteVersion", "idPrefix", "limit"];

#[derive(Template)]
#[template(path = "runs/list.html")]
struct Page {
    chrome: Chrome,
    texts: Vec<TextFilter>,
    verdicts: Vec<Choice>,
    statuses: Vec<Choice>,
    period: Period,
    /// Names and values.
    kept: Vec<(&'static str, String)>,
    has_filter: bool,
    rows: Vec<Row>,
    next: Option<String>,
    first: Option<String>,
}

struct TextFilter {
    name: &'static str,
    label: &'static str,
    value: String,
}

struct Row {
    id: String,
    subject: String,
    agent: String,
    model: String,
    started: Time,
    state: Badge,
    score: String,
    interval: String,
    tasks: String,
    cost: String,
    tags: Vec<String>,
    is_void: bool,
    is_eval: bool,
}

impl Row {
    fn of(run: &RunListing) -> Self {
        let suite = run.subject.suite.as_ref();
        let agent = run.subject.agent.as_ref();
        let result = run.result.as_ref();
        Self {
            id: run.run_id.to_string(),
            subject: match suite {
                Some(suite) => plain(&format!("{}@{}", suite.suite_id, suite.version)),
                None => workflow(run.subject.workflow_id.as_deref().unwrap_or("Journal")),
            },
            agent: agent.map_or_else(String::new, |agent| {
                plain(&format!("{}@{}", agent.agent_id, agent.version))
            }),
            model: run
                .subject
                .model
                .as_ref()
                .map_or_else(String::new, |model| plain(&model.model)),
            started: run.created_at.into(),
            state: state(run),
            score: match suite {
                Some(_) => score(result.and_then(|it| it.score)),
                None => String::new(),
            },
            interval: interval(run).unwrap_or_default(),
            tasks: passed(run),
            cost: match result {
                Some(result) if suite.is_some() => cost(result.total_cost_usd),
                _ => String::new(),
            },
            tags: run.tags.iter().map(|tag| plain(tag)).collect(),
            is_void: run.voided,
            is_eval: suite.is_some(),
        }
    }
}

/// `GET /console/runs`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit, query: Query) -> Answer {
    let query = query.filled();
    let found = api
        .runs
        .runs
        .list(visit.tenant(), &asked(&in_timestamps(&query))?)
        .await?;
    let texts = TEXTS.map(|(name, label)| TextFilter {
        name,
        label,
        value: query.get(name).unwrap_or_default().to_owned(),
    });
    let verdicts = choices(&VERDICTS, query.get("verdict").unwrap_or_default());
    let statuses = choices(&STATUSES, query.get("status").unwrap_or_default());
    let kept = KEPT
        .iter()
        .filter_map(|name| Some((*name, query.get(name)?.to_owned())));
    let filters = query.without(&["cursor", "done"]);
    let address = |more: &str| match filters.as_str() {
        "" => format!("/console/runs?{more}"),
        filters => format!("/console/runs?{filters}&{more}"),
    };
    html(&Page {
        chrome: visit.chrome(Section::Runs),
        has_filter: !query.without(&["cursor", "done", "limit"]).is_empty(),
        texts: texts.into(),
        verdicts,
        statuses,
        period: Period::of(&query),
        kept: kept.collect(),
        rows: found.runs.iter().map(Row::of).collect(),
        next: found
            .next
            .map(|next| address(&format!("cursor={}", cursor(&next)))),
        first: query
            .get("cursor")
            .map(|_| address("").trim_end_matches(['&', '?']).to_owned()),
    })
}
