//! The tasks of the page, with and without their content.

use serde_json::Value;

use crate::render::document::TaskRow as DocumentRow;
use crate::render::task::parts::{
    StepText, facts, findings, input, step, structured, word_difference,
};
use crate::render::words::{assertion_sign, cost_of, outcome, reason_of, sign};
use crate::rules::eval::assertions::AssertionResult;
use crate::rules::eval::report::{TaskOutcome, TaskReport};
use crate::rules::eval::tally::OutcomeCounts;
use crate::rules::eval::task_details::TaskDetails;
use crate::rules::eval::task_details::difference::{Difference, DifferenceKind, TextPart};
use touchstone_host::render::words::{duration, plain};
use touchstone_openwop::suite::MatchStrategy;
use touchstone_openwop::summary::TaskSummary;

/// Maximum number of tasks in a table.
pub const LISTED: usize = 500;
/// Number of tasks whose details are open at first.
const OPEN: usize = 3;
/// Maximum number of characters of one value.
const MAX_CHARS: usize = 20_000;

pub struct TaskRow {
    pub id: String,
    pub class: &'static str,
    pub sign: &'static str,
    pub outcome: &'static str,
    pub score: String,
    pub latency: String,
    pub cost: String,
    pub reason: String,
}

impl TaskRow {
    pub fn of(numbers: &TaskSummary, task: &TaskReport) -> Self {
        let is_judged = task.outcome != TaskOutcome::Unjudged;
        Self {
            id: plain(task.task_id.as_str()),
            class: class_of(task.outcome),
            sign: sign(task.outcome),
            outcome: outcome(task.outcome),
            score: match is_judged {
                true => format!("{:.2}", numbers.score),
                false => "–".to_owned(),
            },
            latency: numbers.latency_ms.map(duration).unwrap_or_default(),
            cost: cost_of(numbers, task),
            reason: reason_of(numbers, task),
        }
    }
}

const fn class_of(outcome: TaskOutcome) -> &'static str {
    match outcome {
        TaskOutcome::Passed => "good",
        TaskOutcome::Failed => "bad",
        TaskOutcome::Unjudged => "doubtful",
    }
}

/// The first tasks of a run by outcome, in suite order: at least [`LISTED`] of each, unless there are
/// fewer.
#[derive(Clone, Debug, Default)]
pub struct FirstTasks {
    pub failed: Vec<DocumentRow>,
    pub unjudged: Vec<DocumentRow>,
    pub passed: Vec<DocumentRow>,
}

fn listed(tasks: &[DocumentRow]) -> impl Iterator<Item = TaskRow> {
    let rows = tasks.iter().take(LISTED);
    rows.map(|(numbers, task)| TaskRow::of(numbers, task))
}

/// The passed tasks.
pub fn passed(tasks: &FirstTasks) -> Vec<TaskRow> {
    listed(&tasks.passed).collect()
}

/// Failed tasks, then unjudged ones; and how many more there are.
pub fn not_passed(counted: OutcomeCounts, tasks: &FirstTasks) -> (Vec<TaskRow>, usize) {
    let rows = listed(&tasks.failed).chain(listed(&tasks.unjudged));
    let rows: Vec<TaskRow> = rows.take(LISTED).collect();
    let left_out = (counted.failed + counted.unjudged).saturating_sub(rows.len());
    (rows, left_out)
}

/// A task with its content.
pub struct FailureDetails {
    pub id: String,
    pub class: &'static str,
    pub sign: &'static str,
    pub is_open: bool,
    pub facts: String,
    pub input: String,
    pub expected_title: &'static str,
    /// Empty if there is no single expected value.
    pub expected: String,
    pub actual: String,
    /// Both texts in one, if they have words in common; empty otherwise.
    pub words: Vec<Word>,
    pub differences: Vec<DifferenceRow>,
    pub criteria: Vec<CriterionRow>,
    pub assertions: Vec<AssertionRow>,
    pub findings: Vec<String>,
    pub steps: Vec<StepRow>,
    pub note: &'static str,
}

pub struct Word {
    /// `both`, `expected` or `actual`.
    pub kind: &'static str,
    pub text: String,
}

pub struct DifferenceRow {
    pub path: String,
    pub expected: String,
    pub actual: String,
}

pub struct CriterionRow {
    pub class: &'static str,
    pub sign: &'static str,
    pub met: &'static str,
    pub text: String,
    pub weight: f64,
    pub reason: String,
}

pub struct AssertionRow {
    pub class: &'static str,
    pub sign: &'static str,
    pub text: String,
    /// The finding, if it does not hold.
    pub found: String,
    /// How deep it is nested in others.
    pub depth: usize,
}

pub struct StepRow {
    pub after: String,
    pub title: String,
    pub content: String,
}

impl FailureDetails {
    /// The details of the `n`th task of the page.
    pub fn of(n: usize, details: &TaskDetails) -> Self {
        let expected = details.expected.as_ref();
        let differences = details.differences.iter();
        Self {
            id: plain(details.task_id.as_str()),
            class: class_of(details.outcome),
            sign: sign(details.outcome),
            is_open: n < OPEN,
            facts: facts(details).join(" · "),
            input: shown(&input(details)),
            expected_title: match expected.map(|it| it.strategy) {
                Some(MatchStrategy::Exact) => "Expected exactly",
                Some(MatchStrategy::Contains) => "Expected to contain",
                Some(MatchStrategy::JsonMatch) | None => "Expected",
            },
            expected: expected.map(|it| shown(&it.value)).unwrap_or_default(),
            actual: match &details.actual {
                Some(actual) => shown(&structured(actual)),
                None => "no answer".to_owned(),
            },
            words: words(details),
            differences: differences
                .filter(|it| !it.path().is_empty())
                .map(DifferenceRow::of)
                .collect(),
            criteria: criteria(details),
            assertions: assertions(details),
            findings: findings(details),
            steps: steps(details),
            note: match (details.content_deleted, details.transcript_incomplete) {
                (true, _) => "The content of this task was deleted.",
                (false, true) => "Parts of the transcript are missing.",
                (false, false) => "",
            },
        }
    }
}

impl DifferenceRow {
    fn of(difference: &Difference) -> Self {
        let value = |value: Option<&Value>| value.map(shown).unwrap_or_default();
        let (expected, actual) = match difference.kind() {
            DifferenceKind::Changed => (value(difference.expected()), value(difference.actual())),
            DifferenceKind::Missing => (value(difference.expected()), "missing".to_owned()),
            DifferenceKind::Unexpected => ("nothing".to_owned(), value(difference.actual())),
        };
        Self {
            path: plain(difference.path()),
            expected,
            actual,
        }
    }
}

fn words(details: &TaskDetails) -> Vec<Word> {
    let parts = word_difference(details).unwrap_or_default();
    let word = |part: TextPart| {
        let (kind, text) = match part {
            TextPart::Both(text) => ("both", text),
            TextPart::OnlyExpected(text) => ("expected", text),
            TextPart::OnlyActual(text) => ("actual", text),
        };
        let text = lines(&text);
        Word { kind, text }
    };
    parts.into_iter().map(word).collect()
}

fn criteria(details: &TaskDetails) -> Vec<CriterionRow> {
    let row = |it: &crate::rules::eval::task_details::CriterionDetails| {
        let (class, sign, met) = match it.met {
            Some(true) => ("good", "✓", "met"),
            Some(false) => ("bad", "✗", "not met"),
            None => ("doubtful", "?", "not decided"),
        };
        CriterionRow {
            class,
            sign,
            met,
            text: plain(&it.criterion),
            weight: it.weight,
            reason: plain(it.reason.as_deref().unwrap_or_default()),
        }
    };
    details.criteria.iter().map(row).collect()
}

fn assertions(details: &TaskDetails) -> Vec<AssertionRow> {
    fn add(rows: &mut Vec<AssertionRow>, it: &AssertionResult, depth: usize) {
        rows.push(AssertionRow {
            class: match (it.is_left_out || it.is_undecided, it.holds) {
                (true, _) => "doubtful",
                (false, true) => "good",
                (false, false) => "bad",
            },
            sign: assertion_sign(it),
            text: plain(&format!("{}: {}", it.kind, it.expected)),
            found: match (&it.found, it.holds) {
                (Some(found), false) => plain(&found.replace('\n', "; ")),
                _ => String::new(),
            },
            depth,
        });
        for nested in &it.assertions {
            add(rows, nested, depth + 1);
        }
    }
    let mut rows = Vec::new();
    for it in &details.assertions {
        add(&mut rows, it, 0);
    }
    rows
}

fn steps(details: &TaskDetails) -> Vec<StepRow> {
    let entries = &details.transcript;
    let start = entries.first().map(|entry| entry.at).unwrap_or_default();
    let row = |entry: &crate::rules::eval::task_details::transcript::Entry| {
        let StepText { title, content } = step(&entry.step);
        StepRow {
            after: format!("{} ms", entry.at.duration_since(start).as_millis()),
            title,
            content: content.as_ref().map(shown).unwrap_or_default(),
        }
    };
    entries.iter().map(row).collect()
}

/// A value as text or indented JSON, of limited length.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Object(_) | Value::Array(_) => {
            serde_json::to_string_pretty(value).unwrap_or_default()
        }
        _ => value.to_string(),
    };
    match text.char_indices().nth(MAX_CHARS) {
        Some((at, _)) => {
            let left = text.chars().count() - MAX_CHARS;
            let kept = text.get(..at).unwrap_or_default();
            format!("{}\n… {left} more characters", lines(kept))
        }
        None => lines(&text),
    }
}

/// The text without control characters, with its line breaks.
fn lines(text: &str) -> String {
    let safe: Vec<String> = text.split('\n').map(plain).collect();
    safe.join("\n")
}
