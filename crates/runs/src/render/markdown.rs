//! The report as Markdown, for a pull request or a job summary.

use std::io;

use crate::render::document::{Next, Out, RunDocument, TaskRow};
use crate::render::flips::Flips;
use crate::render::words::{
    UNSIGNED, cost, cost_of, counts, judge, metrics, outcome, reason_of, score, sign,
    simulated_user, task_score, verdict,
};
use crate::rules::eval::report::{RunTotals, TaskOutcome};
use crate::rules::eval::statistics::{Gate, Statistics};
use touchstone_host::render::words::duration;

/// Up to this many tasks, all are listed; above, only those that did not pass.
const SHOWN_IN_FULL: usize = 40;

/// The report of a run as Markdown.
#[derive(Debug)]
pub struct Markdown {
    totals: RunTotals,
    gate: Gate,
    flips: Option<Flips>,
    has_rows: bool,
}

impl Markdown {
    /// `statistics` are those of the run alone. `flips` are the changes since the baseline, if it is
    /// known.
    pub fn new(totals: &RunTotals, statistics: &Statistics, flips: Option<&Flips>) -> Self {
        Self {
            totals: totals.clone(),
            gate: statistics.gate.clone(),
            flips: flips.cloned(),
            has_rows: false,
        }
    }

    fn lists_all(&self) -> bool {
        counts(&self.totals).all() <= SHOWN_IN_FULL
    }
}

impl RunDocument for Markdown {
    fn begin(&mut self, out: &mut Out<'_>) -> io::Result<()> {
        let report = &self.totals;
        writeln!(
            out,
            "## {}: `{}@{}`\n",
            verdict(report.verdict),
            report.agent.agent_id,
            report.agent.version
        )?;
        if !report.suite.signed {
            writeln!(out, "> **{UNSIGNED}**\n")?;
        }
        for reason in &report.reasons {
            writeln!(out, "- {}", escaped(reason))?;
        }
        for note in &report.notes {
            writeln!(out, "- Note: {}", escaped(note))?;
        }
        if !report.reasons.is_empty() || !report.notes.is_empty() {
            out.write_all(b"\n")?;
        }
        facts(out, report, &self.gate)?;
        match &self.flips {
            Some(flips) => change(out, flips),
            None => Ok(()),
        }
    }

    fn add(&mut self, tasks: &[TaskRow], out: &mut Out<'_>) -> io::Result<()> {
        let all = self.lists_all();
        for (numbers, task) in tasks {
            if !all && task.outcome == TaskOutcome::Passed && task.annotations.is_empty() {
                continue;
            }
            if !self.has_rows {
                out.write_all(b"| Task | Outcome | Score | Latency | Cost | Reason |\n")?;
                out.write_all(b"| --- | --- | ---: | ---: | ---: | --- |\n")?;
                self.has_rows = true;
            }
            writeln!(
                out,
                "| `{}` | {} {} | {} | {} | {} | {} |",
                task.task_id,
                sign(task.outcome),
                outcome(task.outcome),
                task_score(numbers, task, 2),
                numbers.latency_ms.map(duration).unwrap_or_default(),
                escaped(&cost_of(numbers, task)),
                escaped(&reason_of(numbers, task)),
            )?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out<'_>) -> io::Result<Next> {
        if self.has_rows && !self.lists_all() {
            out.write_all(b"\nPassed tasks are not listed.\n")?;
        }
        Ok(Next::Done)
    }
}

fn facts(out: &mut Out<'_>, report: &RunTotals, shown: &Gate) -> io::Result<()> {
    let signed = if report.suite.signed {
        "signed"
    } else {
        "**UNSIGNED**"
    };
    let mut row = |name: &str, value: String| writeln!(out, "| {name} | {value} |");
    row("", String::new())?;
    row("---", "---".to_owned())?;
    row(
        "Suite",
        format!(
            "`{}@{}`, {signed}",
            report.suite.suite_id, report.suite.version
        ),
    )?;
    if let Some(model) = &report.agent.model {
        row("Model", format!("`{}`", model.replace('`', "'")))?;
    }
    if let Some(judge) = judge(report) {
        row("Judge", escaped(&judge))?;
    }
    if let Some(user) = simulated_user(report) {
        row("Simulated user", escaped(&user))?;
    }
    row("Score", format!("{}, {}", score(report), counts(report)))?;
    if let Some(metrics) = metrics(report) {
        row("Metrics", escaped(&metrics))?;
    }
    if let (Some(low), Some(high)) = (shown.low, shown.high) {
        row(
            "95 % interval",
            format!(
                "{:.3} to {:.3}; required {:.2}",
                low.max(0.0),
                high.min(1.0),
                shown.threshold
            ),
        )?;
    }
    row("Cost", cost(report).replace('$', "\\$"))?;
    if !report.ignore.is_empty() {
        let pointers: Vec<String> = report
            .ignore
            .iter()
            .map(|pointer| escaped(pointer))
            .collect();
        row("Ignored when matching", pointers.join(", "))?;
    }
    row("Run", format!("`{}`", report.run_id))?;
    out.write_all(b"\n")
}

fn change(out: &mut Out<'_>, found: &Flips) -> io::Result<()> {
    writeln!(
        out,
        "**{:+.3}** against `{}@{}` (run `{}`)\n",
        found.delta, found.agent.agent_id, found.agent.version, found.baseline
    )?;
    for (label, tasks) in [("Broke", &found.broke), ("Fixed", &found.fixed)] {
        for (n, task) in tasks.iter().enumerate() {
            match n {
                0 => write!(out, "- {label}: `{task}`")?,
                _ => write!(out, ", `{task}`")?,
            }
        }
        if !tasks.is_empty() {
            out.write_all(b"\n")?;
        }
    }
    if !found.broke.is_empty() || !found.fixed.is_empty() {
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Escapes text for Markdown: reasons can contain tool names chosen by a suite's author.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '$' | '~' | '&' | '!'
            | '@' => {
                safe.push('\\');
                safe.push(c);
            }
            '\n' | '\r' => safe.push(' '),
            _ => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::document::written;
    use crate::render::flips::flips;
    use crate::render::sample;
    use crate::rules::eval::report::EvalReport;
    use crate::rules::eval::statistics::{Evidence, statistics};

    fn markdown(report: &EvalReport, baseline: Option<&EvalReport>) -> String {
        let flips = baseline.map(|baseline| flips(report, baseline));
        let statistics = statistics(&Evidence::of(report), None, None);
        let mut document = Markdown::new(&report.totals(), &statistics, flips.as_ref());
        written(&mut document, report).unwrap()
    }

    #[test]
    fn it_reads_well_beside_a_baseline() {
        insta::assert_snapshot!(markdown(&sample::mixed(), Some(&sample::baseline())));
    }

    #[test]
    fn an_unsigned_suite_is_marked_at_the_top_of_the_markdown() {
        let mut report = sample::mixed();
        assert!(!markdown(&report, None).contains("UNSIGNED"));
        report.suite.signed = false;
        let text = markdown(&report, None);
        let second = text.lines().filter(|line| !line.is_empty()).nth(1);
        assert!(
            second.is_some_and(|line| line.contains("UNSIGNED")),
            "{text}"
        );
    }

    #[test]
    fn a_tool_name_cannot_break_the_table_or_draw_a_link() {
        let mut report = sample::mixed();
        report.tasks[1].forbidden_tools = vec!["x|y[a](http://evil)\nz".to_owned()];
        let text = markdown(&report, None);
        let row = text.lines().find(|line| line.contains("evil")).unwrap();
        assert!(row.contains(r"x\|y\[a\](http://evil) z"), "{row}");
    }
}
