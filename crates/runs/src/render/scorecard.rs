//! The scorecard for people: a table in a terminal, one line per task in a pipe.

use std::fmt::Write as _;

use comfy_table::{Attribute, Cell, CellAlignment};

use crate::render::flips::flips;
use crate::render::statistics::{difference, noise};
use crate::render::words::{
    UNSIGNED, annotation_line, colour, cost, cost_of, counts, fitted, judge, metrics, outcome,
    reason_of, rows, score, sign, simulated_user, task_score, verdict,
};
use crate::rules::eval::report::{EvalReport, RunTotals, TaskOutcome, Verdict};
use crate::rules::eval::statistics::{Evidence, EvidenceRun, statistics};
use touchstone_host::render::colors::Colors;
use touchstone_host::render::table;
use touchstone_host::render::table::Style;
use touchstone_host::render::words::{duration, plain};

/// Up to this many tasks, all are listed; above, only those that did not pass.
const SHOWN_IN_FULL: usize = 40;

/// Maximum number of columns for a list of names.
const LISTED_WIDTH: usize = 100;

/// Renders the scorecard, with the changes since `baseline` if it is given.
pub fn scorecard(report: &EvalReport, baseline: Option<&EvalReport>, style: Style) -> String {
    let mut text = String::new();
    let of_run = &report.totals();
    heading(&mut text, of_run, style.colors);
    match style.table.then(|| table(report, style)).flatten() {
        Some(drawn) => text.push_str(&drawn),
        None => {
            text.push('\n');
            lines(&mut text, report, style);
            text.push('\n');
        }
    }
    totals(&mut text, of_run, style);
    let before = baseline.map(EvidenceRun::of);
    let statistics = statistics(&Evidence::of(report), before.as_ref(), None);
    text.push_str(&noise(&statistics, style.colors));
    if let Some(baseline) = baseline {
        change(&mut text, report, baseline, style.colors);
    }
    if let Some(found) = &statistics.baseline {
        text.push_str(&difference(found, style.colors));
    }
    bottom_line(&mut text, of_run, style.colors);
    fitted(&text, style)
}

fn heading(text: &mut String, report: &RunTotals, colors: Colors) {
    let suite = &report.suite;
    let provenance = if suite.signed {
        colors.good("signed ✓")
    } else {
        colors.doubtful(UNSIGNED)
    };
    let modes: Vec<&str> = report.modes.iter().map(|mode| mode.as_str()).collect();
    let _ = writeln!(
        text,
        "suite   {}  {provenance}  {}",
        colors.strong(&format!("{}@{}", suite.suite_id, suite.version)),
        modes.join(", ")
    );
    let agent = &report.agent;
    let model = match (&agent.model, &agent.provider) {
        (Some(model), Some(provider)) => format!("  model {model}, provider {provider}"),
        _ => String::new(),
    };
    let _ = writeln!(
        text,
        "agent   {}{model}",
        colors.strong(&format!("{}@{}", agent.agent_id, agent.version))
    );
    if let Some(judge) = judge(report) {
        let _ = writeln!(text, "judge   {judge}");
    }
    if let Some(user) = simulated_user(report) {
        let _ = writeln!(text, "user    simulated by {user}");
    }
    if !report.ignore.is_empty() {
        let _ = writeln!(
            text,
            "ignore  {}  {}",
            report.ignore.join(", "),
            colors.doubtful("ignored when matching: not gate evidence by default")
        );
    }
    if !report.tags.is_empty() {
        let _ = writeln!(text, "tags    {}", plain(&report.tags.join(", ")));
    }
    for annotation in &report.annotations {
        let _ = writeln!(text, "people  {}", annotation_line(annotation));
    }
    for note in &report.notes {
        let _ = writeln!(text, "note    {}", colors.doubtful(note));
    }
    if let Some(fork) = &report.fork {
        let _ = writeln!(
            text,
            "fork    {} of {} from event {}",
            fork.mode.as_str(),
            fork.source_run_id,
            fork.from_seq
        );
    }
    if let Some(trial) = &report.trial {
        let _ = writeln!(
            text,
            "trial   {} of {} of experiment {}",
            trial.index, trial.of, trial.experiment_id
        );
    }
    if let Some(run) = &report.retry_of {
        let _ = writeln!(text, "retry   of {run}, whose judged tasks are reused");
    }
}

const fn all_shown(tasks: usize, style: Style) -> bool {
    !style.only_not_passed && tasks <= SHOWN_IN_FULL
}

fn shown(report: &EvalReport, style: Style) -> impl Iterator<Item = RowOf<'_>> {
    let all = all_shown(report.tasks.len(), style);
    rows(report).filter(move |(_, task)| {
        all || task.outcome != TaskOutcome::Passed || !task.annotations.is_empty()
    })
}

type RowOf<'a> = (
    &'a touchstone_openwop::summary::TaskSummary,
    &'a crate::rules::eval::report::TaskReport,
);

/// `None` if the terminal is too narrow.
fn table(report: &EvalReport, style: Style) -> Option<String> {
    let mut table = table::begin(style);
    let bold = |name: &str| Cell::new(name).add_attribute(Attribute::Bold);
    table.set_header(["task", "", "score", "latency", "cost", "reason"].map(bold));
    for (numbers, task) in shown(report, style) {
        table.add_row([
            Cell::new(task.task_id.as_str()),
            Cell::new(sign(task.outcome)).fg(colour(task.outcome)),
            Cell::new(task_score(numbers, task, 2)).set_alignment(CellAlignment::Right),
            Cell::new(numbers.latency_ms.map(duration).unwrap_or_default())
                .set_alignment(CellAlignment::Right),
            Cell::new(cost_of(numbers, task)).set_alignment(CellAlignment::Right),
            Cell::new(reason_of(numbers, task)),
        ]);
    }
    if table.is_empty() {
        return Some(String::new());
    }
    Some(format!("{}\n", table::drawn(table, style)?))
}

fn lines(text: &mut String, report: &EvalReport, style: Style) {
    let width = shown(report, style)
        .map(|(_, task)| task.task_id.as_str().len())
        .max()
        .unwrap_or_default();
    for (numbers, task) in shown(report, style) {
        let line = format!(
            "{:<8} {:<5}  {:<width$}  {:>8}  {}  {}",
            outcome(task.outcome),
            task_score(numbers, task, 3),
            task.task_id.as_str(),
            numbers.latency_ms.map(duration).unwrap_or_default(),
            cost_of(numbers, task),
            reason_of(numbers, task),
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn totals(text: &mut String, report: &RunTotals, style: Style) {
    let summary = &report.summary;
    let counts = counts(report);
    let hidden = if all_shown(counts.all(), style) {
        String::new()
    } else {
        style.colors.faint("  (passed tasks are not listed)")
    };
    let _ = writeln!(text, "tasks   {}: {counts}{hidden}", summary.task_count);
    let mut numbers = vec![
        format!("score {}", score(report)),
        format!("cost {}", cost(report)),
    ];
    let tasks = report.task_totals.unwrap_or_default();
    if let Some(p95) = tasks.p95_latency_ms {
        numbers.push(format!("p95 latency {}", duration(p95)));
    }
    if let Some(total) = report.duration_ms {
        numbers.push(format!("took {}", duration(total)));
    }
    let _ = writeln!(text, "total   {}", numbers.join(", "));
    if let Some(metrics) = metrics(report) {
        let _ = writeln!(text, "metrics {metrics}");
    }
}

fn change(text: &mut String, report: &EvalReport, baseline: &EvalReport, colors: Colors) {
    let found = flips(report, baseline);
    let delta = format!("{:+.3}", found.delta);
    let delta = if found.delta < 0.0 {
        colors.bad(&delta)
    } else {
        colors.good(&delta)
    };
    let other = if baseline.agent.agent_id == report.agent.agent_id {
        baseline.agent.version.clone()
    } else {
        format!("{}@{}", baseline.agent.agent_id, baseline.agent.version)
    };
    let _ = writeln!(text, "change  {delta} against {other}, {}", found.baseline);
    for (label, tasks) in [("broke", &found.broke), ("fixed", &found.fixed)] {
        if !tasks.is_empty() {
            let names: Vec<&str> = tasks.iter().map(|task| task.as_str()).collect();
            text.push_str(&listed(&format!("  {label} {}: ", names.len()), &names));
        }
    }
}

/// Names after a label, wrapped over several lines.
fn listed(label: &str, names: &[&str]) -> String {
    let mut text = label.to_owned();
    let mut column = label.len();
    for (n, name) in names.iter().enumerate() {
        if n > 0 {
            text.push(',');
            if column + name.len() + 3 > LISTED_WIDTH {
                let _ = write!(text, "\n{:width$}", "", width = label.len());
                column = label.len();
            } else {
                text.push(' ');
                column += 2;
            }
        }
        text.push_str(name);
        column += name.len();
    }
    text.push('\n');
    text
}

fn bottom_line(text: &mut String, report: &RunTotals, colors: Colors) {
    let word = verdict(report.verdict);
    let word = match report.verdict {
        Verdict::Pass => colors.good(word),
        Verdict::Fail => colors.bad(word),
        Verdict::Inconclusive | Verdict::Pending => colors.doubtful(word),
    };
    let because = if report.reasons.is_empty() {
        String::new()
    } else {
        format!(": {}", report.reasons.join("; "))
    };
    let _ = writeln!(text, "{}{because}", colors.strong(&word));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn a_pipe_gets_one_plain_line_a_task() {
        let text = scorecard(
            &sample::mixed(),
            Some(&sample::baseline()),
            Style::default(),
        );
        assert!(!text.contains('\u{1b}'));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_terminal_gets_a_table() {
        insta::assert_snapshot!(scorecard(&sample::mixed(), None, sample::TERMINAL));
    }

    #[test]
    fn colours_do_not_change_the_text() {
        let report = sample::mixed();
        let text = scorecard(&report, None, sample::coloured());
        assert!(
            text.contains("\u{1b}[32m") || text.contains("\u{1b}[38;5;10m"),
            "{text:?}"
        );
        let trimmed = |text: &str| -> Vec<String> {
            text.lines()
                .map(|line| line.trim_end().to_owned())
                .collect()
        };
        let plain = scorecard(&report, None, sample::TERMINAL);
        assert_eq!(trimmed(&without_codes(&text)), trimmed(&plain));
    }

    #[test]
    fn a_scorecard_of_many_tasks_lists_only_those_that_did_not_pass() {
        let text = scorecard(&sample::large(), None, Style::default());
        let listed: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("passed ") || line.starts_with("failed "))
            .collect();
        assert_eq!(listed.len(), 1, "{text}");
        assert!(text.contains("tasks   100: 99 passed, 1 failed"), "{text}");
    }

    #[test]
    fn the_scorecard_shows_unsigned_suites_and_ignored_members() {
        let mut report = sample::baseline();
        report.suite.signed = false;
        report.ignore = vec!["/rationale".to_owned()];
        let text = scorecard(&report, None, Style::default());
        assert!(text.contains("UNSIGNED"), "{text}");
        assert!(text.contains("ignore  /rationale"), "{text}");
    }

    fn without_codes(text: &str) -> String {
        let mut plain = String::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            if c == '\u{1b}' {
                rest.by_ref().find(|&c| c == 'm');
            } else {
                plain.push(c);
            }
        }
        plain
    }
}
