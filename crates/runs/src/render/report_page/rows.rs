//! Sentences and numbers of the page.

use jiff::Timestamp;

use crate::render::comparison::{change_kind, measures, task_result, verdict as conclusion, why};
use crate::render::words::{self, counts, estimated, known_cost};
use crate::rules::eval::comparison::{CHANGES, ShortComparison, TaskChange, UnchangedTask};
use crate::rules::eval::report::{RunTotals, Verdict};
use crate::rules::eval::statistics::Statistics;
use touchstone_agents::rules::prices::RunPrices;
use touchstone_host::render::words::{duration, plain, usd, usd_or_unknown};
use touchstone_kit::money::NanoUsd;
use touchstone_kit::statistics::GateVerdict;

pub struct Field {
    pub name: &'static str,
    pub value: String,
    /// The value as a timestamp to the millisecond, if it is a time.
    pub at: Option<String>,
    /// Whether it is a warning.
    pub is_warning: bool,
}

/// The score on a scale from 0 to 1, in percent of its width.
pub struct ScoreScale {
    pub low: f64,
    pub width: f64,
    pub score: f64,
    pub threshold: f64,
    pub description: String,
}

impl ScoreScale {
    /// `None` without an interval.
    pub fn of(report: &RunTotals, statistics: &Statistics) -> Option<Self> {
        let gate = &statistics.gate;
        let (low, high) = (gate.low?.max(0.0), gate.high?.min(1.0));
        let score = gate.score.unwrap_or(report.summary.aggregate_score);
        let on_scale = |value: f64| (value * 1000.0).round() / 10.0;
        Some(Self {
            low: on_scale(low),
            width: on_scale(high - low),
            score: on_scale(score),
            threshold: on_scale(gate.threshold),
            description: format!(
                "Score {score:.3}, interval {low:.3} to {high:.3}, required {:.2}",
                gate.threshold
            ),
        })
    }
}

pub const fn verdict(report: &RunTotals) -> &'static str {
    match report.verdict {
        Verdict::Pass => "Passed",
        Verdict::Fail => "Failed",
        Verdict::Inconclusive => "Inconclusive",
        Verdict::Pending => "Not finished",
    }
}

/// The meaning of the verdict, in a sentence. The reasons follow it.
pub fn meaning(report: &RunTotals, statistics: &Statistics) -> String {
    let gate = &statistics.gate;
    let required = gate.threshold;
    match (report.verdict, report.lenient_verdict()) {
        (Verdict::Pass, _) if gate.verdict == GateVerdict::Pass => {
            format!("The score is at least {required:.2}, and chance does not explain it.")
        }
        (Verdict::Pass, _) => "The thresholds of the suite are met.".to_owned(),
        (Verdict::Inconclusive, Verdict::Pass) => {
            format!("The observed score reaches {required:.2}, but a lower one is also plausible.")
        }
        (Verdict::Fail, Verdict::Pass) => {
            format!("The observed score reaches {required:.2}, but that of all attempts does not.")
        }
        (Verdict::Fail, _) => "At least one threshold of the suite is not met.".to_owned(),
        (Verdict::Inconclusive, _) => {
            "Not every task could be judged, so there is no verdict about the agent.".to_owned()
        }
        (Verdict::Pending, _) => "The run has not ended.".to_owned(),
    }
}

/// The score; a dash if nothing was judged.
pub fn score(report: &RunTotals) -> String {
    let judged = counts(report).passed + counts(report).failed;
    match judged {
        0 => "–".to_owned(),
        _ => format!("{:.3}", report.summary.aggregate_score),
    }
}

pub fn interval(statistics: &Statistics) -> String {
    let gate = &statistics.gate;
    let attempts = match (gate.attempts.run_ids.len(), gate.score) {
        (0 | 1, _) | (_, None) => String::new(),
        (n, Some(mean)) => format!("; of all {n} attempts, whose mean is {mean:.3}"),
    };
    match (gate.low, gate.high) {
        (Some(low), Some(high)) => format!(
            "{:.3} to {:.3} at {:.0} % confidence, required {:.2}{attempts}",
            low.max(0.0),
            high.min(1.0),
            gate.confidence * 100.0,
            gate.threshold
        ),
        _ => format!("no interval; required {:.2}", gate.threshold),
    }
}

pub fn cost(report: &RunTotals) -> String {
    usd_or_unknown(known_cost(report))
}

/// Cost per task, the judge's share, and whether it is an estimate.
pub fn cost_note(report: &RunTotals) -> String {
    let mut parts = Vec::new();
    let tasks = counts(report).all() as u64;
    if let Some(total) = known_cost(report)
        && tasks > 0
    {
        parts.push(format!("{} per task", usd(NanoUsd(total.0 / tasks))));
    }
    if let Some(judge) = report.judge_cost_usd {
        parts.push(format!("{} of it for the judge", usd(judge)));
    }
    if let Some(user) = report.user_cost_usd {
        parts.push(format!("{} of it for simulated users", usd(user)));
    }
    if let Some(date) = report.prices.as_ref().and_then(RunPrices::listed) {
        parts.push(format!("list prices of {date}"));
    }
    match estimated(report) {
        0 => {}
        _ if known_cost(report).is_none() => {}
        n => parts.push(format!("estimated for {}", tasks_of(n))),
    }
    parts.join(", ")
}

fn tasks_of(n: usize) -> String {
    match n {
        1 => "1 task".to_owned(),
        n => format!("{n} tasks"),
    }
}

/// 95th percentile.
pub fn latency(report: &RunTotals) -> String {
    let p95 = report.task_totals.unwrap_or_default().p95_latency_ms;
    p95.map_or_else(|| "–".to_owned(), duration)
}

pub fn latency_note(report: &RunTotals) -> String {
    let mut parts = Vec::new();
    let tasks = report.task_totals.unwrap_or_default();
    if let Some(median) = tasks.median_latency_ms {
        parts.push("95 % of the tasks took at most this long".to_owned());
        parts.push(format!("median {}", duration(median)));
    }
    if let Some(all) = report.duration_ms {
        parts.push(format!("the whole run took {}", duration(all)));
    }
    parts.join("; ")
}

/// The comparison with a baseline.
pub struct Change {
    pub baseline: String,
    pub conclusion: String,
    pub measures: Vec<(&'static str, String)>,
    pub rows: Vec<ChangeRow>,
    pub more: usize,
    pub notes: Vec<String>,
}

pub struct ChangeRow {
    pub id: String,
    pub class: &'static str,
    pub kind: &'static str,
    pub was: String,
    pub is: String,
    pub why: String,
}

impl ChangeRow {
    pub fn of(change: &TaskChange) -> Self {
        Self {
            id: plain(change.task_id.as_str()),
            class: match change_kind(change.turn) {
                "broke" | "worse" => "bad",
                _ => "good",
            },
            kind: change_kind(change.turn),
            was: task_result(&change.baseline),
            is: task_result(&change.candidate),
            why: plain(&why(change)),
        }
    }

    pub fn of_unchanged(task: &UnchangedTask) -> Self {
        let sign = if task.passes { "✓" } else { "✗" };
        let result = format!("{sign} {:.2}", task.score);
        Self {
            id: plain(task.task_id.as_str()),
            class: "",
            kind: "same",
            was: result.clone(),
            is: result,
            why: String::new(),
        }
    }
}

impl Change {
    pub fn of(found: &ShortComparison) -> Self {
        let (_, word, because) = conclusion(found);
        let base = &found.baseline;
        let changes = found.changes.first.iter();
        Self {
            baseline: plain(&format!(
                "{}@{} (run {})",
                base.agent_id, base.agent_version, base.run_id
            )),
            conclusion: sentence(&format!("{}{because}", word.to_lowercase())),
            measures: measures(found)
                .into_iter()
                .map(|(name, line)| (if name == "flips" { "outcomes" } else { name }, line))
                .collect(),
            rows: changes.take(CHANGES).map(ChangeRow::of).collect(),
            more: found.changes.count.saturating_sub(CHANGES),
            notes: found.notes.iter().map(|it| plain(it)).collect(),
        }
    }
}

/// The text with a capital at its start.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

fn field(name: &'static str, value: &str, is_warning: bool) -> Field {
    Field {
        name,
        value: plain(value),
        at: None,
        is_warning,
    }
}

/// The subject of the evaluation, so that a reader can check it.
pub fn provenance(report: &RunTotals) -> Vec<Field> {
    let mut fields = vec![field("Run", report.run_id.as_str(), false)];
    if let Some(at) = report.completed_at {
        fields.push(Field {
            at: Some(at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()),
            ..field("Ended", &minute(at), false)
        });
    }
    let mut add = |name, value: String, is_warning| {
        fields.push(field(name, &value, is_warning));
    };
    add(
        "Agent",
        format!("{}@{}", report.agent.agent_id, report.agent.version),
        false,
    );
    add("Pack digest", report.agent.pack_integrity.clone(), false);
    if let (Some(model), Some(provider)) = (&report.agent.model, &report.agent.provider) {
        add("Model", format!("{model}, provider {provider}"), false);
    }
    let (suite, tasks) = (&report.suite, counts(report).all());
    add(
        "Suite",
        format!("{}@{}", suite.suite_id, suite.version),
        false,
    );
    add("Suite digest", suite.digest.clone(), false);
    match suite.signed {
        true => add("Suite signature", "trusted".to_owned(), false),
        false => add("Suite signature", words::UNSIGNED.to_owned(), true),
    }
    add(
        "Tasks",
        format!("{tasks} of {}", suite.task_count),
        tasks < suite.task_count,
    );
    let modes: Vec<&str> = report.modes.iter().map(|mode| mode.as_str()).collect();
    add("Scored by", modes.join(", "), false);
    if let Some(judge) = words::judge(report) {
        add("Judge", judge, false);
    }
    if let Some(user) = words::simulated_user(report) {
        add("Simulated user", user, false);
    }
    if let Some(run) = &report.retry_of {
        add("Retry of", run.to_string(), false);
    }
    if !report.ignore.is_empty() {
        add("Ignored when matching", report.ignore.join(", "), true);
    }
    fields
}

/// A time to the minute, in UTC.
pub fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
