//! One run: verdict, figures, conditions of a gate, tasks, and what people can do with it.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::live::view::{LiveView, Watched, watched};
use crate::page::answer::html;
use crate::page::chrome::{Chrome, Section};
use crate::page::text::Time;
use crate::page::visit::Visit;
use crate::runs::baseline::Baseline;
use crate::runs::downloads::DOCUMENTS;
use crate::runs::gate::SuiteGate;
use crate::runs::notes::Note;
use crate::runs::tasks::TaskList;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::plain;
use touchstone_kit::error::ErrorCode;
use touchstone_runs::http::extract::RunPath;
use touchstone_runs::rules::eval::report::RunTotals;

#[derive(Template)]
#[template(path = "runs/run.html")]
struct Page {
    chrome: Chrome,
    id: String,
    subject: String,
    started: Time,
    may: Actions,
    live: LiveView,
    tasks: TaskList,
    gate: Option<SuiteGate>,
    baseline: Baseline,
    tags: Vec<Tag>,
    notes: Vec<Note>,
    documents: &'static [(&'static str, &'static str, &'static str)],
    /// Whether the page reloads itself in browsers without JavaScript.
    reloads: bool,
}

/// A tag as text, and as the value of a field.
struct Tag {
    shown: String,
    value: String,
}

/// The actions on the run that are open to the person now.
#[derive(Default)]
struct Actions {
    cancel: bool,
    pause: bool,
    resume: bool,
    retry: bool,
    fork: bool,
    void: bool,
    annotate: bool,
    read_content: bool,
    review: bool,
}

impl Actions {
    fn of(visit: &Visit, live: &LiveView, report: &RunTotals) -> Self {
        let controls = live.is_open && visit.may(Scope::RunsCancel);
        let creates = visit.may(Scope::RunsCreate);
        let is_unjudged = !live.is_open && !report.is_judged();
        let is_void = report.notes.iter().any(|it| it.starts_with("voided by "));
        Self {
            cancel: controls && !live.status.is_cancelling(),
            pause: controls && live.status.is_running(),
            resume: controls && live.status.is_paused(),
            retry: is_unjudged && creates,
            fork: !live.is_open && creates && visit.may(Scope::RunsRead),
            void: !live.is_open && !is_void && visit.may(Scope::RunsVoid),
            annotate: creates,
            read_content: super::may_read_content(visit),
            review: !live.is_open && visit.may(Scope::GatesWrite),
        }
    }
}

/// `GET /console/runs/{runId}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    query: Query,
) -> Answer {
    let query = query.filled();
    let tenant = visit.tenant();
    let Watched { live, assessed } = match watched(&api, tenant, &run).await {
        Ok(found) => found,
        // A run that is no eval run has no report.
        Err(problem) if problem.code == ErrorCode::NotFound => {
            return super::workflow::page(&api, &visit, &run).await;
        }
        Err(problem) => return Err(problem.into()),
    };
    let report = &assessed.report;
    let record = api.runs.runs.record(tenant, &run).await?;
    let baseline = match live.is_open {
        true => Baseline::default(),
        false => Baseline::of(&api, tenant, &record, report, &query).await?,
    };
    let gate = match live.is_open {
        true => None,
        false => SuiteGate::of(&api, &visit, report).await?,
    };
    let annotations = api.runs.annotations.list(tenant, &run).await?;
    let tag = |tag: &String| Tag {
        shown: plain(tag),
        value: tag.clone(),
    };
    let reloads = live.is_open && query.get("reload").is_some();
    let may = match reloads {
        false => Actions::of(&visit, &live, report),
        // A reload would clear what a person enters.
        true => Actions {
            read_content: super::may_read_content(&visit),
            ..Actions::default()
        },
    };
    html(&Page {
        chrome: visit.chrome(Section::Runs),
        id: run.to_string(),
        subject: plain(&format!(
            "{}@{}",
            report.suite.suite_id, report.suite.version
        )),
        started: record.created_at.into(),
        may,
        reloads,
        tasks: TaskList::of(&api.runs.runs, tenant, &run, report.verdict, &query).await?,
        gate,
        baseline,
        tags: report.tags.iter().map(tag).collect(),
        notes: annotations.iter().rev().map(Note::of).collect(),
        documents: &DOCUMENTS,
        live,
    })
}
