//! Comparison of two runs for people: changed tasks, significance, and other differences.

pub mod log;
pub mod markdown;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use comfy_table::{Attribute, Cell, CellAlignment};
use serde_json::Value;

pub use crate::render::comparison::markdown::markdown;
use crate::render::words::{fitted, in_words};
use crate::rules::eval::comparison::{
    CHANGES, ChangeKind, Difference, ExclusionReason, LeftOut, MeanChange, ShortComparison,
    TaskChange, TaskResult,
};
use crate::rules::eval::scoring::tasks;
use touchstone_host::render::colors::Colors;
use touchstone_host::render::table;
use touchstone_host::render::table::Style;
use touchstone_host::render::words::{UNKNOWN_COST, duration, usd};
use touchstone_kit::ids::TaskId;
use touchstone_kit::money::NanoUsd;
use touchstone_kit::statistics::RegressionVerdict;

/// Maximum number of tasks listed; the document has all.
const LISTED: usize = 40;
const _: () = assert!(LISTED <= CHANGES, "a short comparison has further tasks");
/// Number of characters shown of a digest, enough to distinguish digests.
const DIGEST_SHOWN: usize = 15;

pub fn comparison(found: &ShortComparison, style: Style) -> String {
    let mut text = String::new();
    let colors = style.colors;
    for (name, party) in [("before", &found.baseline), ("after", &found.candidate)] {
        let _ = writeln!(
            text,
            "{name:<8}{}  {}",
            colors.strong(&format!("{}@{}", party.agent_id, party.agent_version)),
            colors.faint(party.run_id.as_str())
        );
    }
    let _ = writeln!(
        text,
        "suite   {}@{}, {}, paired",
        found.candidate.suite_id,
        found.candidate.suite_version,
        tasks(found.n_tasks)
    );
    results(&mut text, found, style);
    fitted(&text, style)
}

/// Everything but the names of the two runs.
fn results(text: &mut String, found: &ShortComparison, style: Style) {
    let colors = style.colors;
    for (n, difference) in found.differences.iter().enumerate() {
        let label = if n == 0 { "differs" } else { "" };
        let _ = writeln!(text, "{label:<8}{}", in_short(difference));
    }
    for note in &found.notes {
        let _ = writeln!(text, "note    {}", colors.doubtful(note));
    }
    for (reason, ids) in left_out(&found.left_out) {
        let _ = writeln!(text, "skipped {reason}: {ids}");
    }
    changes(text, found, style);
    for (name, line) in measures(found) {
        let _ = writeln!(text, "{name:<8}{line}");
    }
    let (tone, word, because) = verdict(found);
    let _ = writeln!(
        text,
        "{}{because}",
        colors.strong(&tone.paint(colors, word))
    );
}

fn changes(text: &mut String, found: &ShortComparison, style: Style) {
    if found.changes.count == 0 {
        return;
    }
    match style.table.then(|| table(found, style)).flatten() {
        Some(drawn) => text.push_str(&drawn),
        None => lines(text, found),
    }
    if let Some(more) = found.changes.count.checked_sub(LISTED + 1) {
        let more = format!("        and {} more; --json lists all", more + 1);
        let _ = writeln!(text, "{}", style.colors.faint(&more));
    }
}

/// `None` if the terminal is too narrow.
fn table(found: &ShortComparison, style: Style) -> Option<String> {
    let mut table = table::begin(style);
    let bold = |name: &str| Cell::new(name).add_attribute(Attribute::Bold);
    table.set_header(["task", "", "before", "after", "latency", "cost", "reason"].map(bold));
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    for change in found.changes.first.iter().take(LISTED) {
        let turned = Cell::new(change_kind(change.turn)).fg(match change.turn {
            ChangeKind::Broke | ChangeKind::Worse => table::BAD,
            ChangeKind::Fixed | ChangeKind::Better => table::GOOD,
        });
        table.add_row([
            Cell::new(change.task_id.as_str()),
            turned,
            right(task_result(&change.baseline)),
            right(task_result(&change.candidate)),
            right(by(change, |it| it.latency_ms, signed_ms)),
            right(by(change, |it| it.cost_usd, signed_usd)),
            Cell::new(why(change)),
        ]);
    }
    Some(format!("{}\n", table::drawn(table, style)?))
}

fn lines(text: &mut String, found: &ShortComparison) {
    text.push('\n');
    let width = found.changes.first.iter().take(LISTED);
    let width = width.map(|change| change.task_id.as_str().len()).max();
    let width = width.unwrap_or_default();
    for change in found.changes.first.iter().take(LISTED) {
        let line = format!(
            "{:<8}{:<width$}  {} → {}  {:>9}  {:>10}  {}",
            change_kind(change.turn),
            change.task_id.as_str(),
            task_result(&change.baseline),
            task_result(&change.candidate),
            by(change, |it| it.latency_ms, signed_ms),
            by(change, |it| it.cost_usd, signed_usd),
            why(change)
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push('\n');
}

pub const fn change_kind(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Broke => "broke",
        ChangeKind::Worse => "worse",
        ChangeKind::Fixed => "fixed",
        ChangeKind::Better => "better",
    }
}

pub fn task_result(of: &TaskResult) -> String {
    let sign = if of.passes { "✓" } else { "✗" };
    match of.trials {
        1 => format!("{sign} {:.2}", of.score),
        trials => format!("{sign} {:.2}, {} of {trials}", of.score, of.passed_trials),
    }
}

fn by(
    change: &TaskChange,
    of: impl Fn(&TaskResult) -> Option<f64>,
    shown: impl Fn(f64) -> String,
) -> String {
    let both = of(&change.baseline).zip(of(&change.candidate));
    both.map_or_else(String::new, |(was, is)| shown(is - was))
}

/// Why the task fails now, or why it failed in the baseline.
pub fn why(change: &TaskChange) -> String {
    match change.turn {
        ChangeKind::Broke | ChangeKind::Worse => match &change.candidate.reason {
            Some(reason) => in_words(reason),
            None if change.candidate.score == 0.0 => "answer differs".to_owned(),
            None => String::new(),
        },
        ChangeKind::Fixed | ChangeKind::Better => match &change.baseline.reason {
            Some(reason) => format!("was: {}", in_words(reason)),
            None => String::new(),
        },
    }
}

/// All measures, with their confidence intervals.
pub fn measures(found: &ShortComparison) -> Vec<(&'static str, String)> {
    let confidence = found.confidence * 100.0;
    let line = |change: &MeanChange, shown: fn(f64) -> String, signed: fn(f64) -> String| {
        let limits = match (change.low, change.high) {
            (Some(low), Some(high)) => format!(
                " ({} to {} at {confidence:.0} %)",
                signed(low),
                signed(high)
            ),
            _ => String::new(),
        };
        let share = match change.baseline {
            0.0 => String::new(),
            before => format!(", {:+.0} %", change.difference / before * 100.0),
        };
        format!(
            "{} → {}: {}{share}{limits}",
            shown(change.baseline),
            shown(change.candidate),
            signed(change.difference)
        )
    };
    let mut lines = Vec::new();
    if let Some(score) = &found.score {
        let signed = |score: f64| format!("{:+.3}", score.clamp(-1.0, 1.0));
        let score = line(score, |score| format!("{score:.3}"), signed);
        lines.push(("score", score));
        let chance = found.mcnemar_p.filter(|_| found.fixed + found.broke > 0);
        let chance = chance.map_or_else(String::new, |p| format!("; p = {p:.3} (McNemar test)"));
        let flips = format!("{} broke, {} fixed{chance}", found.broke, found.fixed);
        lines.push(("flips", flips));
    }
    if let Some(cost) = &found.cost_usd {
        lines.push((
            "cost",
            format!("per task {}", line(cost, dollars, signed_usd)),
        ));
    } else if found.score.is_some() && found.latency_ms.is_some() {
        // A comparison with a log of another tool is about scores only: it has no latency either.
        lines.push(("cost", UNKNOWN_COST.to_owned()));
    }
    if let Some(latency) = &found.latency_ms {
        let latency = line(latency, milliseconds, signed_ms);
        lines.push(("latency", format!("per task {latency}")));
    }
    lines
}

#[derive(Clone, Copy)]
pub enum Tone {
    Good,
    Bad,
    Doubtful,
}

impl Tone {
    fn paint(self, colors: Colors, text: &str) -> String {
        match self {
            Self::Good => colors.good(text),
            Self::Bad => colors.bad(text),
            Self::Doubtful => colors.doubtful(text),
        }
    }
}

/// The conclusion: a word and its basis.
pub fn verdict(found: &ShortComparison) -> (Tone, &'static str, String) {
    let test = &found.regression;
    let limits = match (test.low, test.high) {
        (Some(low), Some(high)) => format!(
            ": {:+.3} to {:+.3} at {:.0} %, margin {:.2}",
            low.max(-1.0),
            high.min(1.0),
            test.confidence * 100.0,
            test.margin
        ),
        _ => String::new(),
    };
    let better = found
        .score
        .and_then(|score| score.low)
        .is_some_and(|low| low > 0.0);
    match test.verdict {
        _ if found.n_tasks == 0 => (Tone::Doubtful, "NOTHING COMPARED", String::new()),
        RegressionVerdict::Regressed => (Tone::Bad, "SIGNIFICANTLY WORSE", limits),
        RegressionVerdict::NotWorse if found.changes.count == 0 => {
            (Tone::Good, "NOT WORSE", ": no score changed".to_owned())
        }
        RegressionVerdict::NotWorse if better => (Tone::Good, "SIGNIFICANTLY BETTER", limits),
        RegressionVerdict::NotWorse => (Tone::Good, "NOT WORSE", limits),
        RegressionVerdict::Inconclusive => (Tone::Doubtful, "INCONCLUSIVE", limits),
    }
}

/// Skipped tasks by reason: their number and the first ones.
fn left_out(tasks: &LeftOut) -> Vec<(String, String)> {
    [
        (ExclusionReason::Unjudged, "unjudged in one run"),
        (
            ExclusionReason::TaskChanged,
            "task differs between the suites",
        ),
        (ExclusionReason::JudgeChanged, "different judge"),
        (ExclusionReason::UserChanged, "different simulated user"),
        (ExclusionReason::OnlyBaseline, "only in the baseline"),
        (ExclusionReason::OnlyCandidate, "only in the candidate"),
    ]
    .into_iter()
    .filter_map(|(reason, words)| {
        let (count, first) = tasks.of(reason);
        let named: Vec<&str> = first.iter().map(TaskId::as_str).collect();
        let more = match count - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (count > 0).then(|| {
            (
                format!("{count} {words}"),
                format!("{}{more}", named.join(", ")),
            )
        })
    })
    .collect()
}

/// The name of a setting in which runs differ.
pub fn setting(what: &str) -> &str {
    match what {
        "suiteId" => "suite",
        "suiteVersion" => "suite's version",
        "suiteDigest" => "suite's digest",
        "scoringDigest" => "scoring document's digest",
        "embeddings" => "embedding model",
        "assertCommand" => "command for assertions",
        "passScore" => "pass score",
        "agentId" => "agent",
        "agentVersion" => "agent's version",
        "packIntegrity" => "pack's digest",
        "ignore" => "ignored members",
        "maxTokens" => "maximum tokens",
        "maxLoopIterations" => "maximum turns",
        "safetyJudge" => "safety judge",
        "simulatedUser" => "simulated user",
        other => other,
    }
}

/// The value of a setting; a digest by its start.
pub fn setting_value(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) if text.starts_with("sha256-") => {
            text.chars().take(DIGEST_SHOWN).chain(['…']).collect()
        }
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => {
            let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            texts.join(", ")
        }
        other => other.to_string(),
    }
}

/// A difference in settings on one line.
fn in_short(difference: &Difference) -> String {
    format!(
        "{} {} → {}",
        setting(&difference.what),
        setting_value(&difference.baseline),
        setting_value(&difference.candidate)
    )
}

/// An amount with its sign; without a sign if it is displayed as zero.
fn signed(amount: f64, shown: fn(f64) -> String) -> String {
    let text = shown(amount.abs());
    if text == shown(0.0) {
        return text;
    }
    let sign = if amount < 0.0 { '-' } else { '+' };
    format!("{sign}{text}")
}

fn dollars(amount: f64) -> String {
    usd(NanoUsd::from_usd(amount).unwrap_or_default())
}

fn signed_usd(amount: f64) -> String {
    signed(amount, dollars)
}

fn milliseconds(amount: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of latencies, which are at least 0 and far below 2^64"
    )]
    duration(amount.round() as u64)
}

fn signed_ms(amount: f64) -> String {
    signed(amount, milliseconds)
}
