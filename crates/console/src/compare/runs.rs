//! The differences between two runs.

use std::sync::Arc;

use askama::Template;
use axum::extract::{RawQuery, State};

use crate::api::ConsoleApi;
use crate::compare::differences::Difference;
use crate::compare::pair::{is_canonical, runs_of};
use crate::page::answer::{html, see_other, segment};
use crate::page::choice::{Choice, choices};
use crate::page::chrome::{Chrome, Section};
use crate::page::text::{Time, count, score};
use crate::page::visit::Visit;
use crate::runs::words::{Badge, state, verdict};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::plain;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_runs::render::report_page::rows::{Change, ChangeRow, interval};
use touchstone_runs::rules::eval::comparison::{
    ChangeKind, ComparedRun, ExclusionReason, RunComparison, TaskChange, UnchangedTask,
    UnchangedTasks,
};
use touchstone_runs::rules::run::listing::{RunKind, RunListing, RunQuery};
use touchstone_runs::service::runs::shared::Assessed;

/// Runs to choose from.
const OFFERED: usize = 25;
/// Tasks of a page.
const CHANGES: usize = 100;

const SHOWN: [(&str, &str); 6] = [
    ("", "All changes"),
    ("broke", "Broke: passed before, fails now"),
    ("fixed", "Fixed: failed before, passes now"),
    ("scores", "Only the score changed"),
    ("same", "Same outcome and score"),
    ("all", "All tasks"),
];

#[derive(Template)]
#[template(path = "compare/choose.html")]
struct ChoosePage {
    chrome: Chrome,
    chosen: String,
    rows: Vec<Offered>,
}

/// A run to choose.
struct Offered {
    id: String,
    subject: String,
    agent: String,
    started: Time,
    state: Badge,
    score: String,
    is_chosen: bool,
}

impl Offered {
    fn of(run: &RunListing, chosen: &[RunId]) -> Self {
        let name = |id: &str, version: &str| plain(&format!("{id}@{version}"));
        let suite = run.subject.suite.as_ref();
        let agent = run.subject.agent.as_ref();
        Self {
            id: run.run_id.to_string(),
            subject: suite.map_or_else(String::new, |it| name(&it.suite_id, &it.version)),
            agent: agent.map_or_else(String::new, |it| name(it.agent_id.as_str(), &it.version)),
            started: run.created_at.into(),
            state: state(run),
            score: score(run.result.as_ref().and_then(|it| it.score)),
            is_chosen: chosen.contains(&run.run_id),
        }
    }
}

#[derive(Template)]
#[template(path = "compare/runs.html")]
struct Page {
    chrome: Chrome,
    baseline: Side,
    candidate: Side,
    it: Change,
    rows: Vec<Row>,
    shown: Vec<Choice>,
    /// Whether unchanged tasks are shown.
    has_unchanged: bool,
    /// The message for a page without tasks.
    none: &'static str,
    found: String,
    next: Option<String>,
    previous: Option<String>,
    differences: Vec<Difference>,
    left_out: Vec<(String, &'static str)>,
    left_out_title: String,
    /// Tasks beyond those that are listed.
    more_left_out: usize,
    may_read_content: bool,
    runs: String,
    swapped: String,
}

/// One of the runs.
struct Side {
    id: String,
    suite: String,
    agent: String,
    model: String,
    verdict: Option<Badge>,
    score: String,
    interval: String,
    trials: usize,
}

impl Side {
    fn of(run: &ComparedRun, assessed: &Assessed) -> Self {
        let report = &assessed.report;
        Self {
            id: run.run_id.to_string(),
            suite: plain(&format!("{}@{}", run.suite_id, run.suite_version)),
            agent: plain(&format!("{}@{}", run.agent_id, run.agent_version)),
            model: plain(&format!("{} ({})", run.model, run.provider)),
            verdict: verdict(Some(report.verdict)),
            score: score(report.score()),
            interval: interval(&assessed.statistics),
            trials: run.run_ids.len(),
        }
    }
}

struct Row {
    href: String,
    row: ChangeRow,
    sign: &'static str,
}

/// `GET /console/compare`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RawQuery(raw): RawQuery,
) -> Answer {
    let runs = runs_of(raw.as_deref())?;
    match runs.as_slice() {
        [baseline, candidate] if is_canonical(raw.as_deref()) => {
            differences(&api, &visit, baseline, candidate, raw.as_deref()).await
        }
        [one, other] => {
            let first = api.runs.runs.record(visit.tenant(), one).await?;
            let second = api.runs.runs.record(visit.tenant(), other).await?;
            // The older run is the baseline.
            let (older, newer) = match first.created_at <= second.created_at {
                true => (one, other),
                false => (other, one),
            };
            Ok(see_other(&format!("/console/compare?runs={older},{newer}")))
        }
        chosen => choose(&api, &visit, chosen).await,
    }
}

async fn choose(api: &ConsoleApi, visit: &Visit, chosen: &[RunId]) -> Answer {
    let query = RunQuery {
        kind: Some(RunKind::Eval),
        limit: OFFERED,
        ..RunQuery::default()
    };
    let found = api.runs.runs.list(visit.tenant(), &query).await?;
    let ids: Vec<&str> = chosen.iter().map(RunId::as_str).collect();
    html(&ChoosePage {
        chrome: visit.chrome(Section::Compare),
        chosen: ids.join(", "),
        rows: found
            .runs
            .iter()
            .map(|run| Offered::of(run, chosen))
            .collect(),
    })
}

async fn differences(
    api: &ConsoleApi,
    visit: &Visit,
    baseline: &RunId,
    candidate: &RunId,
    raw: Option<&str>,
) -> Answer {
    let (runs, tenant) = (&api.runs.runs, visit.tenant());
    let shared = runs.shared_comparison(tenant, candidate, baseline).await?;
    let found = &*shared;
    let before = runs.shared_totals(tenant, baseline).await?;
    let now = runs.shared_totals(tenant, candidate).await?;
    let parameter = |name: &str| {
        let mut members = url::form_urlencoded::parse(raw.unwrap_or_default().as_bytes());
        let found = members.find(|(known, _)| known == name);
        found.map_or_else(String::new, |(_, value)| value.into_owned())
    };
    let show = parameter("show");
    let from: usize = parameter("from").parse().unwrap_or_default();
    let shown = found.changes.iter();
    let changes = shown.filter(|change| is_shown(&show, change.turn));
    let has_unchanged = matches!(show.as_str(), "same" | "all");
    let unchanged = has_unchanged.then_some(&found.unchanged);
    let changed = changes.clone().count();
    let matching = changed + unchanged.map_or(0, UnchangedTasks::len);
    let runs = [baseline, candidate];
    let mut rows: Vec<Row> = changes
        .skip(from)
        .take(CHANGES)
        .map(|it| row(it, runs))
        .collect();
    // The others follow the changed ones.
    let others = unchanged.into_iter().flat_map(UnchangedTasks::iter);
    let others = others.skip(from.saturating_sub(changed));
    let room = CHANGES - rows.len();
    rows.extend(others.take(room).map(|it| unchanged_row(&it, runs)));
    let address = |from: usize| {
        let show: String = url::form_urlencoded::byte_serialize(show.as_bytes()).collect();
        format!("/console/compare?runs={baseline},{candidate}&show={show}&from={from}")
    };
    html(&Page {
        chrome: visit.chrome(Section::Compare),
        baseline: Side::of(&found.baseline, &before),
        candidate: Side::of(&found.candidate, &now),
        found: match rows.len() {
            0 => String::new(),
            shown => format!(
                "{} to {} of {}",
                count(from + 1),
                count(from + shown),
                count(matching)
            ),
        },
        next: (from + rows.len() < matching && !rows.is_empty()).then(|| address(from + CHANGES)),
        previous: (from > 0).then(|| address(from.saturating_sub(CHANGES))),
        rows,
        shown: choices(&SHOWN, &show),
        has_unchanged,
        none: match (has_unchanged, from) {
            (_, 1..) => "There are no more tasks.",
            (true, _) => "Each compared task changed.",
            (false, _) => "No task changed in this way.",
        },
        differences: found.differences.iter().map(Difference::of).collect(),
        left_out_title: match found.left_out.len() {
            1 => "1 task is not compared".to_owned(),
            n => format!("{} tasks are not compared", count(n)),
        },
        left_out: left_out(found),
        more_left_out: found.left_out.len().saturating_sub(CHANGES),
        may_read_content: visit.may(Scope::RunsContent),
        runs: format!("{baseline},{candidate}"),
        swapped: format!("/console/compare?runs={candidate},{baseline}"),
        it: Change::of(&found.short()),
    })
}

fn is_shown(show: &str, turn: ChangeKind) -> bool {
    match show {
        "broke" => turn == ChangeKind::Broke,
        "fixed" => turn == ChangeKind::Fixed,
        "same" => false,
        "scores" => matches!(turn, ChangeKind::Worse | ChangeKind::Better),
        _ => true,
    }
}

fn row(change: &TaskChange, [baseline, candidate]: [&RunId; 2]) -> Row {
    Row {
        href: task_page(&change.task_id, baseline, candidate),
        sign: match change.turn {
            ChangeKind::Broke => "✗",
            ChangeKind::Worse => "↓",
            ChangeKind::Fixed => "✓",
            ChangeKind::Better => "↑",
        },
        row: ChangeRow::of(change),
    }
}

fn unchanged_row(task: &UnchangedTask, [baseline, candidate]: [&RunId; 2]) -> Row {
    Row {
        href: task_page(&task.task_id, baseline, candidate),
        sign: "=",
        row: ChangeRow::of_unchanged(task),
    }
}

/// The page of the answers of two runs to one task.
pub fn task_page(task: &TaskId, baseline: &RunId, candidate: &RunId) -> String {
    let task = segment(task.as_str());
    format!("/console/compare/tasks/{task}?runs={baseline},{candidate}")
}

/// The tasks that are not compared, each with the reason; at most a page of them.
fn left_out(found: &RunComparison) -> Vec<(String, &'static str)> {
    let tasks = found.left_out.iter().take(CHANGES);
    tasks
        .map(|task| (plain(task.task_id.as_str()), why(task.reason)))
        .collect()
}

const fn why(reason: ExclusionReason) -> &'static str {
    match reason {
        ExclusionReason::Unjudged => "not judged in both runs",
        ExclusionReason::OnlyBaseline => "only in the baseline",
        ExclusionReason::OnlyCandidate => "only in the compared run",
        ExclusionReason::TaskChanged => "its content differs between the suites",
        ExclusionReason::JudgeChanged => "the judge or its rubric differs",
        ExclusionReason::UserChanged => "the simulated user differs",
    }
}

/// The query of a page that has two runs.
///
/// # Errors
/// `validation_error` unless there are two.
pub fn two(query: &Query) -> Result<(RunId, RunId), Problem> {
    let member = query.get("runs").unwrap_or_default();
    let encoded: String = url::form_urlencoded::byte_serialize(member.as_bytes()).collect();
    let runs = runs_of(Some(&format!("runs={encoded}")))?;
    match <[RunId; 2]>::try_from(runs) {
        Ok([baseline, candidate]) => Ok((baseline, candidate)),
        Err(_) => Err(Problem::validation(
            "runs",
            "`runs` must name two runs, such as `runs=run_a,run_b`",
        )),
    }
}
