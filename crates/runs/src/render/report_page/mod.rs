//! The report of an eval run as one HTML page for people who approve: no scripts, no external
//! resources. The template engine escapes all text; control characters are removed before.

mod conditions;
mod failures;
mod histogram;
mod rows;
#[cfg(test)]
mod tests;

use askama::Template;
use jiff::Timestamp;

use self::conditions::ConditionRow;
use self::failures::{FailureDetails, TaskRow};
use self::histogram::Histogram;
use self::rows::{Change, Field, ScoreScale};
use crate::render::words::counts;
use crate::rules::eval::comparison::RunComparison;
use crate::rules::eval::report::{EvalReport, TaskOutcome, Verdict};
use crate::rules::eval::statistics::Statistics;
use crate::rules::eval::task_details::TaskDetails;
use touchstone_host::render::words::plain;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the page shows.
#[derive(Clone, Copy, Debug)]
pub struct ReportPage<'a> {
    pub report: &'a EvalReport,
    pub statistics: &'a Statistics,
    /// The comparison with a baseline, if one is named.
    pub comparison: Option<&'a RunComparison>,
    /// The tasks that did not pass, with their content; `None` for a page without content.
    pub content: Option<&'a [TaskDetails]>,
    pub made_at: Timestamp,
}

#[derive(Template)]
#[template(path = "run-report.html")]
struct Page {
    version: &'static str,
    made_at: String,
    agent: String,
    tone: &'static str,
    verdict: &'static str,
    meaning: String,
    has_content: bool,
    score: String,
    scale: Option<ScoreScale>,
    interval: String,
    counts: String,
    passed_percent: f64,
    cost: String,
    cost_note: String,
    latency: String,
    latency_note: String,
    conditions: Vec<ConditionRow>,
    unmet: usize,
    reasons: Vec<String>,
    comparison: Option<Change>,
    scores: Option<Histogram>,
    latencies: Option<Histogram>,
    failures: Vec<TaskRow>,
    failures_left_out: usize,
    details: Vec<FailureDetails>,
    passed: Vec<TaskRow>,
    provenance: Vec<Field>,
    notes: Vec<String>,
}

/// Renders the page.
///
/// # Errors
/// The template engine fails; it does not for any report.
pub fn report_page(of: ReportPage<'_>) -> Result<String, askama::Error> {
    let ReportPage {
        report, statistics, ..
    } = of;
    let tone = match (report.verdict, rows::is_shown(report, statistics)) {
        (Verdict::Pass, true) => "good",
        (Verdict::Fail, _) => "bad",
        _ => "doubtful",
    };
    let conditions = conditions::conditions(report, statistics, of.made_at);
    let (failures, failures_left_out) = failures::not_passed(report);
    let counted = counts(report);
    Page {
        version: VERSION,
        made_at: rows::minute(of.made_at),
        agent: plain(&format!(
            "{}@{}",
            report.agent.agent_id, report.agent.version
        )),
        tone,
        verdict: rows::verdict(report, statistics),
        meaning: rows::meaning(report, statistics),
        has_content: of.content.is_some(),
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
        comparison: of.comparison.map(Change::of),
        scores: histogram::scores(report),
        latencies: histogram::latencies(report),
        failures,
        failures_left_out,
        details: of
            .content
            .unwrap_or_default()
            .iter()
            .enumerate()
            .map(|(n, it)| FailureDetails::of(n, it))
            .collect(),
        passed: failures::rows_of(report, TaskOutcome::Passed),
        provenance: rows::provenance(report),
        notes: report.notes.iter().map(|it| plain(it)).collect(),
    }
    .render()
}

/// A share in percent, 0 of nothing.
fn percent(part: usize, whole: usize) -> f64 {
    match whole {
        0 => 0.0,
        whole => (part as f64 / whole as f64 * 1000.0).round() / 10.0,
    }
}
