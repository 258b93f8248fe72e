//! The list of runs: a table in a terminal, one line per run in a pipe.

use std::fmt::Write as _;

use comfy_table::{Attribute, Cell, CellAlignment, Color};
use jiff::Timestamp;

use crate::render::words::{NO_SCORE, fitted};
use crate::rules::eval::report::Verdict;
use crate::rules::run::listing::{RunListing, RunResult};
use touchstone_host::render::table;
use touchstone_host::render::table::{BAD, DOUBTFUL, GOOD, Style};
use touchstone_host::render::words::{plain, usd_or_unknown};
use touchstone_kit::money::NanoUsd;

/// Shortest prefix of an id in a table, in characters: the time and the random part of a
/// millisecond.
const SHORTEST_ID: usize = 20;

/// A column of the table. The first of `OPTIONAL` is left out first if the terminal is too narrow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Run,
    Created,
    Suite,
    Agent,
    Model,
    Verdict,
    Score,
    Tasks,
    Cost,
    Tags,
}

const COLUMNS: [Column; 10] = [
    Column::Run,
    Column::Created,
    Column::Suite,
    Column::Agent,
    Column::Model,
    Column::Verdict,
    Column::Score,
    Column::Tasks,
    Column::Cost,
    Column::Tags,
];
const OPTIONAL: [Column; 7] = [
    Column::Cost,
    Column::Model,
    Column::Tasks,
    Column::Tags,
    Column::Created,
    Column::Suite,
    Column::Agent,
];

/// Renders the rows.
pub fn run_list(runs: &[RunListing], now: Timestamp, style: Style) -> String {
    if !(style.table || style.wraps) {
        return runs.iter().map(line).collect();
    }
    let drawn = as_table(runs, now, style);
    drawn.unwrap_or_else(|| fitted(&as_blocks(runs, now), style))
}

/// One run after the other, for terminals that are too narrow for the table.
fn as_blocks(runs: &[RunListing], now: Timestamp) -> String {
    let mut text = String::new();
    for run in runs {
        let _ = writeln!(text, "{}", run.run_id);
        for column in COLUMNS.into_iter().skip(1) {
            let value = match column {
                Column::Created => age(run.created_at, now),
                _ => words(column, run).replace('\n', " "),
            };
            if !value.is_empty() {
                let _ = writeln!(text, "  {:<8} {value}", heading(column));
            }
        }
    }
    text
}

fn as_table(runs: &[RunListing], now: Timestamp, style: Style) -> Option<String> {
    let short = id_length(runs);
    let text = |column, run: &RunListing| match column {
        Column::Run => run.run_id.as_str().chars().take(short).collect(),
        Column::Created => age(run.created_at, now),
        _ => words(column, run),
    };
    let mut columns: Vec<Column> = COLUMNS
        .into_iter()
        .filter(|column| runs.iter().any(|run| !text(*column, run).is_empty()))
        .collect();
    let common = common(&mut columns, runs);
    let mut drop = OPTIONAL.into_iter();
    loop {
        let mut table = table::begin(style);
        let bold = |column: &Column| Cell::new(heading(*column)).add_attribute(Attribute::Bold);
        table.set_header(columns.iter().map(bold));
        for run in runs {
            table.add_row(columns.iter().map(|column| {
                let cell = Cell::new(text(*column, run));
                match column {
                    Column::Verdict => cell.fg(colour(run)),
                    Column::Score | Column::Tasks | Column::Cost => {
                        cell.set_alignment(CellAlignment::Right)
                    }
                    _ => cell,
                }
            }));
        }
        if let Some(drawn) = table::drawn(table, style) {
            return Some(format!("{}{drawn}\n", fitted(&common, style)));
        }
        let dropped = drop.next()?;
        columns.retain(|column| *column != dropped);
    }
}

/// Takes out the columns that are the same in all of several rows; returns them as lines.
fn common(columns: &mut Vec<Column>, runs: &[RunListing]) -> String {
    let mut lines = String::new();
    let [first, _, ..] = runs else {
        return lines;
    };
    columns.retain(|column| {
        let shared = matches!(column, Column::Suite | Column::Agent | Column::Model);
        let value = words(*column, first);
        if !shared || runs.iter().any(|run| words(*column, run) != value) {
            return true;
        }
        let _ = writeln!(lines, "{:<6}  {value}", heading(*column));
        false
    });
    lines
}

/// How many characters of the ids make them different.
fn id_length(runs: &[RunListing]) -> usize {
    let mut ids: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
    ids.sort_unstable();
    let common = |pair: &[&str]| match pair {
        [a, b] => a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count() + 1,
        _ => 0,
    };
    let least = ids.windows(2).map(common).max().unwrap_or_default();
    least.max(SHORTEST_ID)
}

const fn heading(column: Column) -> &'static str {
    match column {
        Column::Run => "run",
        Column::Created => "created",
        Column::Suite => "suite",
        Column::Agent => "agent",
        Column::Model => "model",
        Column::Verdict => "verdict",
        Column::Score => "score",
        Column::Tasks => "passed",
        Column::Cost => "cost",
        Column::Tags => "tags",
    }
}

/// The value of a column; words may be on separate lines.
fn words(column: Column, run: &RunListing) -> String {
    let (subject, result) = (&run.subject, run.result.as_ref());
    let text = match column {
        Column::Run => run.run_id.to_string(),
        Column::Created => run.created_at.to_string(),
        Column::Suite => match (&subject.suite, &subject.workflow_id) {
            (Some(suite), _) => format!("{} {}", suite.suite_id, suite.version),
            (None, Some(workflow)) => format!("{} {workflow}", subject.kind.as_str()),
            (None, None) => String::new(),
        },
        Column::Agent => match &subject.agent {
            Some(agent) => format!("{} {}", agent.agent_id, agent.version),
            None => String::new(),
        },
        Column::Model => match &subject.model {
            Some(model) => model.model.clone(),
            None => String::new(),
        },
        Column::Verdict => verdict(run).to_owned(),
        Column::Score => match result.and_then(|it| it.score) {
            Some(score) => format!("{score:.3}"),
            None if run.verdict().is_some() => NO_SCORE.to_owned(),
            None => String::new(),
        },
        Column::Tasks => match (result.and_then(|it| it.passed_count), subject.task_count) {
            (Some(passed), Some(all)) => format!("{passed}/{all}"),
            (None, Some(all)) => format!("–/{all}"),
            _ => String::new(),
        },
        Column::Cost => result
            .filter(|it| it.passed_count.is_some())
            .map(|it| usd_or_unknown(known_cost(it)))
            .unwrap_or_default(),
        Column::Tags => run.tags.join(" "),
    };
    plain(&text)
}

/// The cost, as recorded by any version. It is unknown if nothing was judged and nothing was paid.
fn known_cost(result: &RunResult) -> Option<NanoUsd> {
    let is_judged = result.judged_count.is_some_and(|count| count > 0);
    let cost = result.total_cost_usd;
    cost.filter(|cost| *cost > NanoUsd::ZERO || is_judged)
}

/// The verdict; the status of a run that has none.
fn verdict(run: &RunListing) -> &str {
    match run.verdict() {
        Some(_) if run.voided => "void",
        Some(verdict) => verdict.as_str(),
        None => &run.status,
    }
}

fn colour(run: &RunListing) -> Color {
    match run.verdict() {
        Some(Verdict::Pass) if !run.voided => GOOD,
        Some(Verdict::Fail) if !run.voided => BAD,
        Some(_) => DOUBTFUL,
        None => Color::Reset,
    }
}

/// How long ago a run was created; the date, after a week.
fn age(created_at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(created_at).as_secs().max(0);
    match seconds {
        0..60 => "now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        86_400..604_800 => format!("{} d ago", seconds / 86_400),
        _ => created_at.strftime("%Y-%m-%d").to_string(),
    }
}

fn line(run: &RunListing) -> String {
    let versioned = |column| words(column, run).replace(' ', "@");
    let parts = [
        words(Column::Run, run),
        run.created_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        format!("{:<12}", verdict(run)),
        format!("{:<5}", words(Column::Score, run)),
        words(Column::Tasks, run),
        versioned(Column::Suite),
        versioned(Column::Agent),
        words(Column::Model, run),
        words(Column::Cost, run),
        words(Column::Tags, run),
    ];
    format!("{}\n", parts.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::sample::TERMINAL;

    fn run(id: &str, version: &str, result: Option<serde_json::Value>) -> RunListing {
        serde_json::from_value(json!({
            "runId": id, "status": if result.is_some() { "completed" } else { "running" },
            "createdAt": "2026-11-24T08:00:00Z", "kind": "eval", "local": false,
            "suite": {"suiteId": "vendor.acme.evals.triage", "version": "1.0.0"},
            "agent": {"agentId": "vendor.acme.triage.default", "version": version},
            "model": {"provider": "openai", "model": "llama3.2"}, "modes": ["golden"], "taskCount": 20,
            "result": result, "tags": if id.ends_with('0') { vec!["nightly"] } else { vec![] },
        }))
        .unwrap()
    }

    fn runs() -> Vec<RunListing> {
        vec![
            run("run_0199c0de333370008000000000000003", "1.2.0", None),
            run(
                "run_0199c0de222270008000000000000002",
                "1.1.0",
                Some(
                    json!({"verdict": "inconclusive", "judgedCount": 0, "passedCount": 0, "totalCostUsd": 0.0}),
                ),
            ),
            run(
                "run_0199c0dd000070008000000000000001",
                "1.1.0",
                Some(
                    json!({"verdict": "fail", "score": 0.45, "judgedCount": 20, "passedCount": 9, "totalCostUsd": 0.125}),
                ),
            ),
            run(
                "run_0199c0dc000070008000000000000000",
                "1.0.0",
                Some(
                    json!({"verdict": "pass", "score": 1.0, "judgedCount": 20, "passedCount": 20, "totalCostUsd": 0.12}),
                ),
            ),
        ]
    }

    fn shown(width: Option<u16>) -> String {
        let style = Style {
            width,
            table: width.is_some(),
            wraps: width.is_some(),
            ..TERMINAL
        };
        run_list(&runs(), "2026-11-24T10:30:00Z".parse().unwrap(), style)
    }

    #[test]
    fn runs_are_shown_as_a_table_in_a_terminal() {
        insta::assert_snapshot!(shown(Some(120)));
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns() {
        insta::assert_snapshot!(shown(Some(76)));
    }

    #[test]
    fn the_list_fits_a_terminal_that_is_too_narrow_for_tables() {
        for width in 24..72 {
            let style = Style {
                width: Some(width),
                wraps: true,
                ..Style::default()
            };
            let text = run_list(&runs(), "2026-11-24T10:30:00Z".parse().unwrap(), style);
            assert!(text.contains("inconclusive"), "{text}");
            let words = text.split_whitespace().map(|word| word.chars().count());
            let most = words.max().unwrap_or_default().max(usize::from(width));
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(most + 11), "{width}: {text}");
        }
    }

    #[test]
    fn a_pipe_gets_one_line_per_run() {
        insta::assert_snapshot!(shown(None));
    }
}
