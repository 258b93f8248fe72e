//! The scorecard for people: a table in a terminal, one line per task in a pipe.

use std::fmt::Write as _;
use std::io;

use comfy_table::{Attribute, Cell, CellAlignment};

use crate::render::document::{Next, Out, RunDocument, TaskRow, written};
use crate::render::flips::{Flips, flips};
use crate::render::statistics::{difference, noise};
use crate::render::words::{
    UNSIGNED, annotation_line, colour, cost, cost_of, counts, fitted, judge, metrics, outcome,
    reason_of, score, sign, simulated_user, task_score, verdict,
};
use crate::rules::eval::report::{EvalReport, RunTotals, TaskOutcome, Verdict};
use crate::rules::eval::statistics::{Evidence, EvidenceRun, Statistics, statistics};
use touchstone_host::render::colors::Colors;
use touchstone_host::render::table;
use touchstone_host::render::table::Style;
use touchstone_host::render::words::{duration, plain};
use touchstone_kit::ids::TaskId;

/// Up to this many tasks, all are listed; above, only those that did not pass.
const SHOWN_IN_FULL: usize = 40;

/// Up to this many listed tasks, they are a table, which needs all of them for its columns; above,
/// one line each.
const MOST_IN_TABLE: usize = 1000;

/// Maximum number of columns for a list of names.
const LISTED_WIDTH: usize = 100;

/// Renders the scorecard of a report in memory, with the changes since `baseline` if it is given.
pub fn scorecard(report: &EvalReport, baseline: Option<&EvalReport>, style: Style) -> String {
    let before = baseline.map(EvidenceRun::of);
    let statistics = statistics(&Evidence::of(report), before.as_ref(), None);
    let flips = baseline.map(|baseline| flips(report, baseline));
    let totals = report.totals();
    let mut scorecard = Scorecard::new(&totals, &statistics, flips.as_ref(), style);
    // Writing to memory does not fail.
    written(&mut scorecard, report).unwrap_or_default()
}

/// The scorecard of a run. Reads the tasks twice if it lists many.
pub struct Scorecard<'a> {
    totals: &'a RunTotals,
    statistics: &'a Statistics,
    flips: Option<&'a Flips>,
    style: Style,
    /// The listed tasks, until there are too many for a table.
    listed: Vec<TaskRow>,
    /// Number of listed tasks, and the length of their longest id.
    count: usize,
    longest: usize,
    is_second: bool,
}

impl<'a> Scorecard<'a> {
    /// `statistics` are those of the run alone, with its baseline. `flips` are the changes since the
    /// baseline, if it is known.
    pub const fn new(
        totals: &'a RunTotals,
        statistics: &'a Statistics,
        flips: Option<&'a Flips>,
        style: Style,
    ) -> Self {
        Self {
            totals,
            statistics,
            flips,
            style,
            listed: Vec::new(),
            count: 0,
            longest: 0,
            is_second: false,
        }
    }

    fn lists(&self, (_, task): &TaskRow) -> bool {
        all_shown(counts(self.totals).all(), self.style)
            || task.outcome != TaskOutcome::Passed
            || !task.annotations.is_empty()
    }

    /// Writes whole lines.
    fn write(&self, text: &str, out: &mut Out<'_>) -> io::Result<()> {
        out.write_all(fitted(text, self.style).as_bytes())
    }

    fn write_listed(&self, out: &mut Out<'_>) -> io::Result<()> {
        let drawn = self.style.table.then(|| table(&self.listed, self.style));
        if let Some(drawn) = drawn.flatten() {
            return self.write(&drawn, out);
        }
        let lines = self.listed.iter().map(|row| line(row, self.longest));
        self.write(&format!("\n{}\n", lines.collect::<String>()), out)
    }

    fn write_end(&self, out: &mut Out<'_>) -> io::Result<()> {
        let (mut text, colors) = (String::new(), self.style.colors);
        totals(&mut text, self.totals, self.style);
        text.push_str(&noise(self.statistics, colors));
        if let Some(flips) = self.flips {
            change(&mut text, self.totals, flips, colors);
        }
        if let Some(found) = &self.statistics.baseline {
            text.push_str(&difference(found, colors));
        }
        bottom_line(&mut text, self.totals, colors);
        self.write(&text, out)
    }
}

impl RunDocument for Scorecard<'_> {
    fn begin(&mut self, out: &mut Out<'_>) -> io::Result<()> {
        let mut text = String::new();
        heading(&mut text, self.totals, self.style.colors);
        self.write(&text, out)
    }

    fn add(&mut self, tasks: &[TaskRow], out: &mut Out<'_>) -> io::Result<()> {
        for row in tasks {
            if !self.lists(row) {
                continue;
            }
            if self.is_second {
                self.write(&line(row, self.longest), out)?;
                continue;
            }
            self.count += 1;
            self.longest = self.longest.max(row.1.task_id.as_str().len());
            if self.count <= MOST_IN_TABLE {
                self.listed.push(row.clone());
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out<'_>) -> io::Result<Next> {
        if self.count > MOST_IN_TABLE && !self.is_second {
            self.is_second = true;
            self.listed = Vec::new();
            out.write_all(b"\n")?;
            return Ok(Next::Again);
        }
        match self.is_second {
            true => out.write_all(b"\n")?,
            false => self.write_listed(out)?,
        }
        self.write_end(out)?;
        Ok(Next::Done)
    }
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

/// `None` if the terminal is too narrow.
fn table(tasks: &[TaskRow], style: Style) -> Option<String> {
    let mut table = table::begin(style);
    let bold = |name: &str| Cell::new(name).add_attribute(Attribute::Bold);
    table.set_header(["task", "", "score", "latency", "cost", "reason"].map(bold));
    for (numbers, task) in tasks {
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

fn line((numbers, task): &TaskRow, width: usize) -> String {
    let line = format!(
        "{:<8} {:<5}  {:<width$}  {:>8}  {}  {}",
        outcome(task.outcome),
        task_score(numbers, task, 3),
        task.task_id.as_str(),
        numbers.latency_ms.map(duration).unwrap_or_default(),
        cost_of(numbers, task),
        reason_of(numbers, task),
    );
    format!("{}\n", line.trim_end())
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

fn change(text: &mut String, report: &RunTotals, found: &Flips, colors: Colors) {
    let delta = format!("{:+.3}", found.delta);
    let delta = if found.delta < 0.0 {
        colors.bad(&delta)
    } else {
        colors.good(&delta)
    };
    let baseline = &found.agent;
    let other = if baseline.agent_id == report.agent.agent_id {
        baseline.version.clone()
    } else {
        format!("{}@{}", baseline.agent_id, baseline.version)
    };
    let _ = writeln!(text, "change  {delta} against {other}, {}", found.baseline);
    for (label, tasks) in [("broke", &found.broke), ("fixed", &found.fixed)] {
        if !tasks.is_empty() {
            text.push_str(&listed(&format!("  {label} {}: ", tasks.len()), tasks));
        }
    }
}

/// Names after a label, wrapped over several lines.
fn listed(label: &str, tasks: &[TaskId]) -> String {
    let mut text = label.to_owned();
    let mut column = label.len();
    for (n, name) in tasks.iter().map(TaskId::as_str).enumerate() {
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
