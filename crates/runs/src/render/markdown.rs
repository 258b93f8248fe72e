//! The report as Markdown, for a pull request or a job summary.

use std::fmt::Write as _;

use crate::render::flips::flips;
use crate::render::words::{
    UNSIGNED, cost, cost_of, counts, judge, metrics, outcome, reason_of, rows, score, sign,
    simulated_user, task_score, verdict,
};
use crate::rules::eval::report::{EvalReport, RunTotals, TaskOutcome};
use crate::rules::eval::statistics::{Evidence, statistics};
use touchstone_host::render::words::duration;

/// Up to this many tasks, all are listed; above, only those that did not pass.
const SHOWN_IN_FULL: usize = 40;

/// Renders the report as Markdown, with the changes since `baseline` if it is given.
pub fn markdown(report: &EvalReport, baseline: Option<&EvalReport>) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "## {}: `{}@{}`\n",
        verdict(report.verdict),
        report.agent.agent_id,
        report.agent.version
    );
    if !report.suite.signed {
        let _ = writeln!(text, "> **{UNSIGNED}**\n");
    }
    for reason in &report.reasons {
        let _ = writeln!(text, "- {}", escaped(reason));
    }
    for note in &report.notes {
        let _ = writeln!(text, "- Note: {}", escaped(note));
    }
    if !report.reasons.is_empty() || !report.notes.is_empty() {
        text.push('\n');
    }
    facts(&mut text, report, &report.totals());
    if let Some(baseline) = baseline {
        change(&mut text, report, baseline);
    }
    tasks(&mut text, report);
    text
}

fn facts(text: &mut String, report: &EvalReport, totals: &RunTotals) {
    let signed = if report.suite.signed {
        "signed"
    } else {
        "**UNSIGNED**"
    };
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "| {name} | {value} |");
    };
    row("", String::new());
    row("---", "---".to_owned());
    row(
        "Suite",
        format!(
            "`{}@{}`, {signed}",
            report.suite.suite_id, report.suite.version
        ),
    );
    if let Some(model) = &report.agent.model {
        row("Model", format!("`{}`", model.replace('`', "'")));
    }
    if let Some(judge) = judge(totals) {
        row("Judge", escaped(&judge));
    }
    if let Some(user) = simulated_user(totals) {
        row("Simulated user", escaped(&user));
    }
    row("Score", format!("{}, {}", score(totals), counts(totals)));
    if let Some(metrics) = metrics(totals) {
        row("Metrics", escaped(&metrics));
    }
    let shown = statistics(&Evidence::of(report), None, None).gate;
    if let (Some(low), Some(high)) = (shown.low, shown.high) {
        row(
            "95 % interval",
            format!(
                "{:.3} to {:.3}; required {:.2}",
                low.max(0.0),
                high.min(1.0),
                shown.threshold
            ),
        );
    }
    row("Cost", cost(totals).replace('$', "\\$"));
    if !report.ignore.is_empty() {
        let pointers: Vec<String> = report
            .ignore
            .iter()
            .map(|pointer| escaped(pointer))
            .collect();
        row("Ignored when matching", pointers.join(", "));
    }
    row("Run", format!("`{}`", report.run_id));
    text.push('\n');
}

fn change(text: &mut String, report: &EvalReport, baseline: &EvalReport) {
    let found = flips(report, baseline);
    let _ = writeln!(
        text,
        "**{:+.3}** against `{}@{}` (run `{}`)\n",
        found.delta, baseline.agent.agent_id, baseline.agent.version, found.baseline
    );
    for (label, tasks) in [("Broke", &found.broke), ("Fixed", &found.fixed)] {
        if !tasks.is_empty() {
            let names: Vec<String> = tasks.iter().map(|task| format!("`{task}`")).collect();
            let _ = writeln!(text, "- {label}: {}", names.join(", "));
        }
    }
    if !found.broke.is_empty() || !found.fixed.is_empty() {
        text.push('\n');
    }
}

fn tasks(text: &mut String, report: &EvalReport) {
    let all = report.tasks.len() <= SHOWN_IN_FULL;
    let mut shown = rows(report)
        .filter(|(_, task)| {
            all || task.outcome != TaskOutcome::Passed || !task.annotations.is_empty()
        })
        .peekable();
    if shown.peek().is_none() {
        return;
    }
    text.push_str("| Task | Outcome | Score | Latency | Cost | Reason |\n");
    text.push_str("| --- | --- | ---: | ---: | ---: | --- |\n");
    for (numbers, task) in shown {
        let _ = writeln!(
            text,
            "| `{}` | {} {} | {} | {} | {} | {} |",
            task.task_id,
            sign(task.outcome),
            outcome(task.outcome),
            task_score(numbers, task, 2),
            numbers.latency_ms.map(duration).unwrap_or_default(),
            escaped(&cost_of(numbers, task)),
            escaped(&reason_of(numbers, task)),
        );
    }
    if !all {
        text.push_str("\nPassed tasks are not listed.\n");
    }
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
    use crate::render::sample;

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
