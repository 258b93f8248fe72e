//! Wording of the values of a run, shared by all its views.

use comfy_table::Color;
use console::measure_text_width;

use crate::rules::eval::assertions::AssertionResult;
use crate::rules::eval::report::{
    CachedAnswers, EvalReport, RunTotals, TaskOutcome, TaskReport, Verdict,
};
use crate::rules::eval::safety::{UNSAFE_TOOL_CALL, kinds};
use crate::rules::eval::tally::OutcomeCounts;
use touchstone_agents::rules::judging::verdict::MALFORMED;
use touchstone_agents::rules::prices::RunPrices;
use touchstone_agents::rules::simulated_user::reply;
use touchstone_host::render::table::{BAD, DOUBTFUL, GOOD, Style};
use touchstone_host::render::words::{UNKNOWN_COST, plain, usd};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::annotation::{Annotation, SignalKind};
use touchstone_openwop::summary::{Severity, TaskSummary};

/// The score of a run in which nothing was judged, and of a task that was not judged.
pub const NO_SCORE: &str = "–";

/// Breaks lines that are wider than the terminal between words; the rest of a line keeps its
/// indentation. Text for pipes stays as it is.
pub fn fitted(text: &str, style: Style) -> String {
    let Some(width) = style.width.filter(|_| style.table || style.wraps) else {
        return text.to_owned();
    };
    let mut fitted = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        fit(line, usize::from(width), &mut fitted);
    }
    fitted
}

fn fit(line: &str, width: usize, to: &mut String) {
    let (content, end) = match line.strip_suffix('\n') {
        Some(content) => (content, "\n"),
        None => (line, ""),
    };
    if measure_text_width(content) <= width {
        to.push_str(line);
        return;
    }
    let trimmed = content.trim_start_matches(' ');
    let indent = " ".repeat((content.len() - trimmed.len()).min(width / 2) + CONTINUED);
    let mut column = content.len() - trimmed.len();
    to.push_str(content.get(..column).unwrap_or_default());
    let mut is_first = true;
    for word in trimmed.split(' ') {
        let length = measure_text_width(word);
        if !is_first && column + 1 + length > width {
            to.truncate(to.trim_end_matches(' ').len());
            to.push('\n');
            to.push_str(&indent);
            column = indent.len();
            if word.is_empty() {
                continue;
            }
        } else if !is_first {
            to.push(' ');
            column += 1;
        }
        to.push_str(word);
        column += length;
        is_first = false;
    }
    to.push_str(end);
}

/// Further indentation of the rest of a line.
const CONTINUED: usize = 2;

/// The run's aggregate score.
pub fn score(report: &RunTotals) -> String {
    match report.score() {
        Some(score) => format!("{score:.3}"),
        None => NO_SCORE.to_owned(),
    }
}

/// The score of a task; none if it was not judged.
pub fn task_score(numbers: &TaskSummary, task: &TaskReport, decimals: usize) -> String {
    match task.outcome {
        TaskOutcome::Unjudged => NO_SCORE.to_owned(),
        TaskOutcome::Passed | TaskOutcome::Failed => format!("{:.decimals$}", numbers.score),
    }
}

/// The run's cost, the date of list prices, and the number of tasks for which it is an estimate.
pub fn cost(report: &RunTotals) -> String {
    let Some(total) = known_cost(report) else {
        return unknown_cost(report);
    };
    let mut total = usd(total);
    if let Some(date) = report.prices.as_ref().and_then(RunPrices::listed) {
        total.push_str(&format!(" (list prices of {})", plain(date)));
    }
    if let Some(CachedAnswers {
        cached, answers, ..
    }) = report.answer_cache
        && cached > 0
    {
        total.push_str(&format!(" ({cached} of {answers} answers from the cache)"));
    }
    match estimated(report) {
        0 => total,
        1 => format!("{total} (estimated for 1 task: the endpoint reported no usage)"),
        n => format!("{total} (estimated for {n} tasks: the endpoint reported no usage)"),
    }
}

/// The run's cost. It is unknown if nothing was judged and nothing was paid: a cost of $0 would be
/// taken for a price.
pub fn known_cost(report: &RunTotals) -> Option<NanoUsd> {
    let total = report.summary.total_cost_usd;
    total.filter(|total| {
        *total > NanoUsd::ZERO || report.task_totals.unwrap_or_default().judged() > 0
    })
}

/// Says whose price is unknown.
fn unknown_cost(report: &RunTotals) -> String {
    let prices = report.prices.clone().unwrap_or_default();
    let agent = report.evaluated.as_ref().map(|it| it.model.as_str());
    let judge = report.judge.as_ref().or(report.safety_judge.as_ref());
    let model = match (prices.model, judge) {
        (None, _) => agent,
        (Some(_), Some(judge)) if prices.judge.is_none() => Some(judge.model.as_str()),
        _ => None,
    };
    match model {
        Some(model) => format!("{UNKNOWN_COST} (no price for {})", plain(model)),
        None => UNKNOWN_COST.to_owned(),
    }
}

/// The judge, its cost and its agreement with people.
pub fn judge(report: &RunTotals) -> Option<String> {
    let Some(judge) = report.judge.as_ref() else {
        let judge = report.safety_judge.as_ref()?;
        return Some(format!(
            "model {}, provider {}, checked for jailbreaks only",
            judge.model, judge.provider
        ));
    };
    let cost = match report.judge_cost_usd {
        Some(cost) => format!(", {} of the cost", usd(cost)),
        None => format!(", cost {UNKNOWN_COST}"),
    };
    let several = report.judge_agreement.map_or_else(String::new, |found| {
        let kappa = found
            .kappa
            .map_or_else(String::new, |kappa| format!(", kappa {kappa:.2}"));
        format!(
            "; {} judges agree in {:.0} % of pairs{kappa}",
            found.judges,
            found.observed * 100.0
        )
    });
    let agreement = match &judge.calibration {
        Some(found) => format!(
            "agrees with people by {:.2} (n {})",
            found.spearman, found.samples
        ),
        None => "not calibrated".to_owned(),
    };
    let who = match judge.judges.as_slice() {
        [] => format!("model {}, provider {}", judge.model, judge.provider),
        judges => {
            let models: Vec<&str> = judges.iter().map(|it| it.model.as_str()).collect();
            format!("models {}", models.join(", "))
        }
    };
    Some(format!("{who}{cost}, {agreement}{several}"))
}

/// The model that plays the users, and its cost.
pub fn simulated_user(report: &RunTotals) -> Option<String> {
    let user = report.simulated_user.as_ref()?;
    let cost = report
        .user_cost_usd
        .map_or_else(String::new, |cost| format!(", {} of the cost", usd(cost)));
    Some(format!(
        "model {}, provider {}{cost}",
        user.model.model, user.model.provider
    ))
}

/// Number of tasks with an estimated cost.
pub fn estimated(report: &RunTotals) -> usize {
    report.task_totals.unwrap_or_default().cost_estimated
}

/// The cost of a task, with `~` before an estimate; a dash if an unjudged task has none.
pub fn cost_of(numbers: &TaskSummary, task: &TaskReport) -> String {
    let is_unjudged = task.outcome == TaskOutcome::Unjudged;
    let cost = numbers.cost_usd;
    match cost
        .filter(|cost| *cost > NanoUsd::ZERO || !is_unjudged)
        .map(usd)
    {
        None if is_unjudged => NO_SCORE.to_owned(),
        Some(cost) if task.cost_estimated => format!("~{cost}"),
        Some(cost) => cost,
        None => UNKNOWN_COST.to_owned(),
    }
}

/// The means of the named metrics of a scoring document.
pub fn metrics(report: &RunTotals) -> Option<String> {
    let shown = report.metrics.iter().map(|metric| {
        let (name, mean) = (plain(&metric.name), metric.mean);
        format!("{name} {mean:.3} (n {})", metric.n_tasks)
    });
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// The warning in every view for a suite without a trusted signature.
pub const UNSIGNED: &str = "UNSIGNED: no trusted signature covers this suite";

/// How many of `all` assertions hold, without those that are left out.
pub fn assertions_held(held: usize, all: usize, left_out: usize) -> String {
    let counted = all.saturating_sub(left_out);
    match left_out {
        0 => format!("{held} of {counted} assertions hold"),
        n => format!("{held} of {counted} assertions hold, {n} left out"),
    }
}

/// The sign of an assertion's result.
pub const fn assertion_sign(result: &AssertionResult) -> &'static str {
    match (result.is_left_out, result.is_undecided, result.holds) {
        (true, _, _) => "–",
        (false, true, _) => "?",
        (false, false, true) => "✓",
        (false, false, false) => "✗",
    }
}

/// Why a task ended as it did; empty for a plain pass.
pub fn reason_of(numbers: &TaskSummary, task: &TaskReport) -> String {
    let mut parts = Vec::new();
    match (&task.reason, task.outcome) {
        (Some(reason), _) => parts.push(in_words(reason)),
        (None, _) if !task.assertions.is_empty() => {
            let held = task.assertions.iter().filter(|held| **held).count();
            let left_out = task.assertions_left_out as usize;
            parts.push(assertions_held(held, task.assertions.len(), left_out));
        }
        (None, _) if !task.criteria.is_empty() => {
            let met = task.criteria.iter().filter(|met| **met).count();
            parts.push(format!("{met} of {} criteria met", task.criteria.len()));
        }
        (None, TaskOutcome::Failed) => parts.push("answer differs".to_owned()),
        (None, TaskOutcome::Passed | TaskOutcome::Unjudged) => {}
    }
    if !task.fixture_missing.is_empty() {
        parts.push(format!(
            "no fixture for {}",
            task.fixture_missing.join(", ")
        ));
    }
    if !task.forbidden_tools.is_empty() {
        parts.push(format!("refused {}", task.forbidden_tools.join(", ")));
    }
    // The list of refused tools already shows this finding.
    let already_listed = |kind: &str| kind == UNSAFE_TOOL_CALL && !task.forbidden_tools.is_empty();
    let findings = numbers.safety_findings.iter();
    for finding in findings.filter(|finding| !already_listed(&finding.kind)) {
        let severity = severity(finding.severity);
        parts.push(format!("{severity}: {}", kinds::in_words(&finding.kind)));
    }
    match task.retries {
        0 => {}
        1 => parts.push("1 retry".to_owned()),
        n => parts.push(format!("{n} retries")),
    }
    if let Some(run) = &task.reused_from {
        parts.push(format!("judged in {run}"));
    }
    parts.extend(task.annotations.iter().map(annotation_line));
    // Labels and names come from the log, possibly of another host, and are untrusted.
    plain(&parts.join("; "))
}

const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Low => "low",
        Severity::Medium => "medium",
        Severity::High => "high",
        Severity::Critical => "critical",
    }
}

/// A label of the log, in words. Labels of endpoint failures say what to check.
pub fn in_words(label: &str) -> String {
    if label == MALFORMED {
        return "no verdict from the judge".to_owned();
    }
    if let Some(label) = label.strip_prefix("judge_") {
        return format!("judge: {}", in_words(label));
    }
    match label {
        reply::MALFORMED => return "no valid reply from the simulated user".to_owned(),
        reply::OWN_BUDGET => return "the simulated user's own budget is exhausted".to_owned(),
        _ => {}
    }
    if let Some(label) = label.strip_prefix("user_") {
        return format!("simulated user: {}", in_words(label));
    }
    let text = match label {
        "a2a_no_context" => {
            "the agent's answer has no contextId, so the conversation cannot continue"
        }
        "a2a_other_context" => {
            "the agent answered with another contextId, so it forgot the conversation"
        }
        "connect" => "endpoint unreachable",
        "dns" => "endpoint's host name not found",
        "tls" => "TLS connection to the endpoint failed",
        "reset" => "endpoint closed the connection",
        "timeout" => "endpoint took too long",
        "task_timeout" => "took longer than the limit per task",
        "worker_lost" => "too many workers were lost while they executed the task",
        "workers_required" => {
            "the task requires labels of workers, and the host cannot give it to a worker"
        }
        "too_large_for_worker" => {
            "the task, an answer or a tool call is larger than `cluster.max_task_bytes`"
        }
        "not_http" => "endpoint does not speak HTTP",
        "blocked_address" => "endpoint's address is not allowed",
        "unauthorized" => "endpoint answered 401: API key missing or wrong",
        "forbidden" => "endpoint answered 403",
        "not_found" => "endpoint answered 404: no such model or path",
        "price_unknown" => "the price of the model is unknown, and an assertion limits the cost",
        "agent_timeout" => "the agent's command did not answer within 5 minutes",
        "agent_exited" => "the agent's command ended without an answer",
        "agent_failed" => "the agent's command reported an error",
        "malformed_reply" => "the reply is not in the expected format",
        "rate_limited" => "endpoint answered 429: too many requests",
        "answer_too_large" => "answer is too large for the task's assertions",
        "assertion_timeout" => "the command for assertions took too long",
        "assertion_exited" => "the command for assertions ended without an answer",
        "assertion_malformed" => "the command for assertions gave no valid answer",
        "assertion_failed" => "the command for assertions could not decide",
        "embeddings_malformed" => "the embedding model gave no valid vectors",
        "output_not_json" => "output is not JSON",
        _ => {
            return match label.strip_prefix("status_") {
                Some(status) => format!("endpoint answered {status}"),
                None => label.replace('_', " "),
            };
        }
    };
    text.to_owned()
}

/// The label of an annotation that consists of a note.
pub const NOTE: &str = "note";

fn is_note(annotation: &Annotation) -> bool {
    annotation.note.is_some() && annotation.signal.label.as_deref() == Some(NOTE)
}

/// An annotation on one line.
pub fn annotation_line(annotation: &Annotation) -> String {
    let signal = &annotation.signal;
    let text = match signal.kind {
        SignalKind::Label if is_note(annotation) => "note".to_owned(),
        SignalKind::Rating => format!("rated {} of 5", signal.rating.unwrap_or_default()),
        SignalKind::Correction => {
            format!(
                "corrected to \"{}\"",
                signal.correction.as_deref().unwrap_or_default()
            )
        }
        SignalKind::Label => format!(
            "labelled \"{}\"",
            signal.label.as_deref().unwrap_or_default()
        ),
        SignalKind::Flag => "flagged".to_owned(),
    };
    let note = match &annotation.note {
        Some(note) => format!(": {note}"),
        None => String::new(),
    };
    // Annotations are untrusted text.
    plain(&format!(
        "{text} by {}{note}",
        annotation.actor.principal_ref
    ))
}

pub const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
        Verdict::Inconclusive => "INCONCLUSIVE",
        Verdict::Pending => "PENDING",
    }
}

pub const fn outcome(outcome: TaskOutcome) -> &'static str {
    match outcome {
        TaskOutcome::Passed => "passed",
        TaskOutcome::Failed => "failed",
        TaskOutcome::Unjudged => "unjudged",
    }
}

pub const fn sign(outcome: TaskOutcome) -> &'static str {
    match outcome {
        TaskOutcome::Passed => "✓",
        TaskOutcome::Failed => "✗",
        TaskOutcome::Unjudged => "?",
    }
}

/// All tasks with their numbers and reasons, in suite order.
pub fn rows(report: &EvalReport) -> impl Iterator<Item = (&TaskSummary, &TaskReport)> {
    report.summary.tasks.iter().zip(&report.tasks)
}

pub fn counts(report: &RunTotals) -> OutcomeCounts {
    let totals = report.task_totals.unwrap_or_default();
    OutcomeCounts {
        passed: totals.passed,
        failed: totals.failed,
        unjudged: totals.unjudged,
    }
}

impl std::fmt::Display for OutcomeCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.unjudged > 0 {
            write!(f, ", {} unjudged", self.unjudged)?;
        }
        Ok(())
    }
}

pub const fn colour(outcome: TaskOutcome) -> Color {
    match outcome {
        TaskOutcome::Passed => GOOD,
        TaskOutcome::Failed => BAD,
        TaskOutcome::Unjudged => DOUBTFUL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_too_wide_break_between_words() {
        let style = Style {
            table: true,
            width: Some(20),
            ..Style::default()
        };
        let text =
            "short\n    a sentence of several words\nrun_0199c0de000070008000000000000000 x\n";
        assert_eq!(
            fitted(text, style),
            "short\n    a sentence of\n      several words\nrun_0199c0de000070008000000000000000\n  x\n"
        );
        assert_eq!(fitted(text, Style::default()), text);
    }
}
