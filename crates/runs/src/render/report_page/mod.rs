//! The report of an eval run as one HTML page for people who approve: no scripts, no external
//! resources. The template engine escapes all text; control characters are removed before.

pub mod conditions;
pub mod failures;
pub mod histogram;
pub mod rows;
#[cfg(test)]
mod tests;

use askama::Template;
use jiff::Timestamp;

use self::conditions::ConditionRow;
use self::failures::{FailureDetails, FirstTasks, TaskRow};
use self::histogram::Histogram;
use self::rows::{Change, Field, ScoreScale};
use crate::render::words::counts;
use crate::rules::eval::comparison::ShortComparison;
use crate::rules::eval::report::{RunTotals, Verdict};
use crate::rules::eval::statistics::{Statistics, TaskFigures};
use crate::rules::eval::task_details::TaskDetails;
use touchstone_host::render::words::plain;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The content of the page.
#[derive(Clone, Copy, Debug)]
pub struct ReportPage<'a> {
    pub report: &'a RunTotals,
    pub figures: &'a TaskFigures,
    pub tasks: &'a FirstTasks,
    pub statistics: &'a Statistics,
    /// The comparison with a baseline, if one is named.
    pub comparison: Option<&'a ShortComparison>,
    /// The tasks that did not pass, with their content; `None` for a page without content.
    pub content: Option<&'a [TaskDetails]>,
    pub made_at: Timestamp,
}

#[derive(Template)]
#[template(path = "run-report.html")]
struct Page {
    version: &'static str,
    made_at: String,
    view: ReportView,
    comparison: Option<Change>,
    has_content: bool,
    failures: Vec<TaskRow>,
    failures_left_out: usize,
    details: Vec<FailureDetails>,
    passed: Vec<TaskRow>,
}

/// What pages about a run show of it as a whole, in words.
pub struct ReportView {
    pub agent: String,
    pub tone: &'static str,
    pub verdict: &'static str,
    pub meaning: String,
    pub score: String,
    pub scale: Option<ScoreScale>,
    pub interval: String,
    pub counts: String,
    pub passed_percent: f64,
    pub cost: String,
    pub cost_note: String,
    pub latency: String,
    pub latency_note: String,
    pub conditions: Vec<ConditionRow>,
    pub unmet: usize,
    pub reasons: Vec<String>,
    pub scores: Option<Histogram>,
    pub latencies: Option<Histogram>,
    pub provenance: Vec<Field>,
    pub notes: Vec<String>,
}

/// Renders the page.
///
/// # Errors
/// The template engine fails; it does not for any report.
pub fn report_page(of: ReportPage<'_>) -> Result<String, askama::Error> {
    let (failures, failures_left_out) = failures::not_passed(counts(of.report), of.tasks);
    let details = of.content.unwrap_or_default().iter().enumerate();
    Page {
        version: VERSION,
        made_at: rows::minute(of.made_at),
        view: ReportView::of(of.report, of.figures, of.statistics, of.made_at),
        comparison: of.comparison.map(Change::of),
        has_content: of.content.is_some(),
        failures,
        failures_left_out,
        details: details.map(|(n, it)| FailureDetails::of(n, it)).collect(),
        passed: failures::passed(of.tasks),
    }
    .render()
}

impl ReportView {
    pub fn of(
        report: &RunTotals,
        figures: &TaskFigures,
        statistics: &Statistics,
        now: Timestamp,
    ) -> Self {
        let tone = match report.verdict {
            Verdict::Pass => "good",
            Verdict::Fail => "bad",
            Verdict::Inconclusive | Verdict::Pending => "doubtful",
        };
        let conditions = conditions::conditions(report, figures, statistics, now);
        let counted = counts(report);
        Self {
            agent: plain(&format!(
                "{}@{}",
                report.agent.agent_id, report.agent.version
            )),
            tone,
            verdict: rows::verdict(report),
            meaning: rows::meaning(report, statistics),
            score: rows::score(report),
            scale: ScoreScale::of(report, statistics),
            interval: rows::interval(statistics),
            counts: counted.to_string(),
            passed_percent: percent(counted.passed, counted.all()),
            cost: rows::cost(report),
            cost_note: rows::cost_note(report),
            latency: rows::latency(report),
            latency_note: rows::latency_note(report),
            unmet: conditions.iter().filter(|it| !it.is_met).count(),
            conditions,
            reasons: report.reasons.iter().map(|it| plain(it)).collect(),
            scores: histogram::scores(figures),
            latencies: histogram::latencies(figures),
            provenance: rows::provenance(report),
            notes: report.notes.iter().map(|it| plain(it)).collect(),
        }
    }
}

/// A share in percent, 0 of nothing.
fn percent(part: usize, whole: usize) -> f64 {
    match whole {
        0 => 0.0,
        whole => (part as f64 / whole as f64 * 1000.0).round() / 10.0,
    }
}
