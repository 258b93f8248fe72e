//! A task with its content, for people: expected and actual side by side, what decided the score,
//! and the transcript.

pub mod parts;

use std::fmt::Write as _;

use comfy_table::{Attribute, Cell};
use serde_json::Value;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::render::task::parts::{
    StepText, clipped, facts, findings, input, step, structured, word_difference,
};
use crate::render::words::{assertion_sign, fitted, sign};
use crate::rules::eval::assertions::{AssertionResult, JUDGES};
use crate::rules::eval::report::TaskOutcome;
use crate::rules::eval::scoring_document::checks::JUDGED;
use crate::rules::eval::task_details::difference::{Difference, DifferenceKind, TextPart};
use crate::rules::eval::task_details::transcript::Entry;
use crate::rules::eval::task_details::{CriterionDetails, TaskDetails};
use touchstone_host::render::colors::Colors;
use touchstone_host::render::table::{BAD, GOOD, Style, begin};
use touchstone_host::render::words::plain;
use touchstone_openwop::suite::MatchStrategy;

/// How much of a task is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The facts that show why it failed.
    Summary,
    /// With input and transcript.
    Full,
}

impl Extent {
    /// Maximum number of characters of one value.
    const fn max_chars(self) -> usize {
        match self {
            Self::Summary => 600,
            Self::Full => 20_000,
        }
    }

    const fn max_differences(self) -> usize {
        match self {
            Self::Summary => 5,
            Self::Full => 50,
        }
    }
}

/// Narrower terminals show the expected value above the actual one.
const SIDE_BY_SIDE: u16 = 60;
/// Columns before a nested table.
const INDENT: u16 = 2;
/// Shorter JSON is on one line in a summary, in bytes.
const ONE_LINE: usize = 76;
/// Maximum number of characters of a value in a list of differences.
const VALUE_WIDTH: usize = 80;

pub fn task(details: &TaskDetails, style: Style, extent: Extent) -> String {
    let mut text = String::new();
    let colors = style.colors;
    heading(&mut text, details, colors);
    section(&mut text, colors, "input", &shown(&input(details), extent));
    answer(&mut text, details, style, extent);
    differences(&mut text, details, colors, extent);
    if let Some(violation) = &details.schema_violation {
        section(&mut text, colors, "return schema", &plain(violation));
    }
    criteria(&mut text, details, colors);
    assertions(&mut text, details, colors);
    for finding in findings(details) {
        let _ = writeln!(text, "  {} {finding}", colors.bad("unsafe"));
    }
    if extent == Extent::Full {
        transcript(&mut text, &details.transcript, colors, extent);
    }
    if details.content_deleted {
        let _ = writeln!(
            text,
            "  {}",
            colors.doubtful("content of this task was deleted")
        );
    }
    if details.transcript_incomplete {
        let note = "parts of the transcript are missing; `run events` prints every event";
        let _ = writeln!(text, "  {}", colors.doubtful(note));
    }
    fitted(&text, style)
}

/// A task in two runs: the answers beside each other.
pub fn answers(before: &TaskDetails, after: &TaskDetails, style: Style) -> String {
    let extent = Extent::Summary;
    let colors = style.colors;
    let mut text = String::new();
    heading(&mut text, after, colors);
    section(&mut text, colors, "input", &shown(&input(after), extent));
    if let Some(expected) = &after.expected {
        section(
            &mut text,
            colors,
            "expected",
            &shown(&expected.value, extent),
        );
    }
    let of = |details: &TaskDetails| match &details.actual {
        Some(actual) => shown(&structured(actual), extent),
        None => "no answer".to_owned(),
    };
    let titles = ["answer in the baseline", "answer in the candidate"];
    if style.table && style.width.is_none_or(|width| width >= SIDE_BY_SIDE) {
        text.push_str(&side_by_side(titles, &of(before), &of(after), style));
    } else {
        section(&mut text, colors, titles[0], &of(before));
        section(&mut text, colors, titles[1], &of(after));
    }
    criteria(&mut text, after, colors);
    assertions(&mut text, after, colors);
    fitted(&text, style)
}

fn heading(text: &mut String, details: &TaskDetails, colors: Colors) {
    let paint = |it: &str| match details.outcome {
        TaskOutcome::Passed => colors.good(it),
        TaskOutcome::Failed => colors.bad(it),
        TaskOutcome::Unjudged => colors.doubtful(it),
    };
    let facts = facts(details);
    let _ = writeln!(
        text,
        "{} {}  {}",
        paint(sign(details.outcome)),
        colors.strong(&plain(details.task_id.as_str())),
        colors.faint(&facts.join(" · "))
    );
}

fn section(text: &mut String, colors: Colors, title: &str, content: &str) {
    let _ = writeln!(text, "  {}", colors.faint(title));
    for line in content.lines() {
        let _ = writeln!(text, "    {line}");
    }
}

/// A value as text or indented JSON, of limited length and safe for a terminal.
fn shown(value: &Value, extent: Extent) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Object(_) | Value::Array(_) => {
            let short = value.to_string();
            match extent {
                Extent::Summary if short.len() <= ONE_LINE => short,
                _ => serde_json::to_string_pretty(value).unwrap_or_default(),
            }
        }
        _ => value.to_string(),
    };
    let most = extent.max_chars();
    let (kept, left) = match text.char_indices().nth(most) {
        Some((at, _)) => (
            text.get(..at).unwrap_or_default(),
            text.chars().count() - most,
        ),
        None => (text.as_str(), 0),
    };
    let mut lines: Vec<String> = kept.lines().map(plain).collect();
    if left > 0 {
        lines.push(format!("… {left} more characters"));
    }
    lines.join("\n")
}

fn answer(text: &mut String, details: &TaskDetails, style: Style, extent: Extent) {
    let colors = style.colors;
    let expected = details.expected.as_ref();
    let title = expected.map(|expected| match expected.strategy {
        MatchStrategy::Exact => "expected exactly",
        MatchStrategy::Contains => "expected to contain",
        MatchStrategy::JsonMatch => "expected",
    });
    match (title, expected, &details.actual) {
        (Some(title), Some(expected), Some(actual)) => {
            let wanted = shown(&expected.value, extent);
            let given = shown(&structured(actual), extent);
            let has_words = word_difference(details).is_some();
            if style.table && !has_words && style.width.is_none_or(|width| width >= SIDE_BY_SIDE) {
                text.push_str(&side_by_side([title, "actual"], &wanted, &given, style));
                return;
            }
            section(text, colors, title, &wanted);
            section(text, colors, "actual", &given);
        }
        (title, expected, actual) => {
            if let (Some(title), Some(expected)) = (title, expected) {
                section(text, colors, title, &shown(&expected.value, extent));
            }
            let given = match actual {
                Some(actual) => shown(&structured(actual), extent),
                None if details.content_deleted => "deleted".to_owned(),
                None => "no answer".to_owned(),
            };
            section(text, colors, "actual", &given);
        }
    }
}

/// Two columns in which equal lines are next to each other.
fn side_by_side(titles: [&str; 2], left: &str, right: &str, style: Style) -> String {
    let mut table = begin(Style {
        width: style.width.map(|width| width.saturating_sub(INDENT)),
        ..style
    });
    let heading = |name: &str| Cell::new(name).add_attribute(Attribute::Dim);
    table.set_header(titles.map(heading));
    let left: Vec<&str> = left.lines().collect();
    let right: Vec<&str> = right.lines().collect();
    // The last member of an object has no comma.
    let member = |line: &&str| line.strip_suffix(',').unwrap_or(line).to_owned();
    let old: Vec<String> = left.iter().map(member).collect();
    let new: Vec<String> = right.iter().map(member).collect();
    for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
        let is_equal = matches!(op, DiffOp::Equal { .. });
        let cell = |line: Option<&&str>, color| {
            let cell = Cell::new(line.copied().unwrap_or_default());
            if is_equal { cell } else { cell.fg(color) }
        };
        let olds = left.get(op.old_range()).unwrap_or_default();
        let news = right.get(op.new_range()).unwrap_or_default();
        for n in 0..olds.len().max(news.len()) {
            table.add_row([cell(olds.get(n), GOOD), cell(news.get(n), BAD)]);
        }
    }
    let mut text = String::new();
    for line in table.to_string().lines() {
        let _ = writeln!(text, "  {}", line.trim_end());
    }
    text
}

fn differences(text: &mut String, details: &TaskDetails, colors: Colors, extent: Extent) {
    if let Some(parts) = word_difference(details) {
        section(
            text,
            colors,
            "difference",
            &in_words_of(&parts, colors, extent),
        );
        return;
    }
    let nested: Vec<&Difference> = details
        .differences
        .iter()
        .filter(|difference| !difference.path().is_empty())
        .collect();
    let lines: Vec<String> = nested
        .iter()
        .take(extent.max_differences())
        .map(|difference| difference_line(difference, colors))
        .collect();
    if lines.is_empty() {
        return;
    }
    section(text, colors, "differences", &lines.join("\n"));
    if let Some(more) = nested
        .len()
        .checked_sub(lines.len())
        .filter(|more| *more > 0)
    {
        let _ = writeln!(text, "    {}", colors.faint(&format!("and {more} more")));
    }
}

fn difference_line(difference: &Difference, colors: Colors) -> String {
    let value = |value: Option<&Value>| {
        let text = value.map(Value::to_string).unwrap_or_default();
        clipped(&plain(&text), VALUE_WIDTH)
    };
    let (expected, actual) = (value(difference.expected()), value(difference.actual()));
    let what = match difference.kind() {
        DifferenceKind::Changed => format!(
            "expected {}, got {}",
            colors.good(&expected),
            colors.bad(&actual)
        ),
        DifferenceKind::Missing => format!("missing, expected {}", colors.good(&expected)),
        DifferenceKind::Unexpected => format!("not expected: {}", colors.bad(&actual)),
    };
    format!("{}  {what}", plain(difference.path()))
}

/// Both texts in one: words that only one of them has are marked.
fn in_words_of(parts: &[TextPart], colors: Colors, extent: Extent) -> String {
    let marked = |text: &str, open: &str, close: &str| format!("{open}{text}{close}");
    let mut all = String::new();
    for part in parts {
        let next = match part {
            TextPart::Both(text) => clipped_inside(text, extent),
            TextPart::OnlyExpected(text) => colors.good(&marked(text, "[-", "-]")),
            TextPart::OnlyActual(text) => colors.bad(&marked(text, "{+", "+}")),
        };
        all.push_str(&next);
    }
    all
}

/// Leaves out the middle of a long common part.
fn clipped_inside(text: &str, extent: Extent) -> String {
    const AROUND: usize = 80;
    if extent == Extent::Full || text.chars().count() <= 3 * AROUND {
        return text.to_owned();
    }
    let start: String = text.chars().take(AROUND).collect();
    let mut end: Vec<char> = text.chars().rev().take(AROUND).collect();
    end.reverse();
    format!("{start} … {}", end.into_iter().collect::<String>())
}

fn criteria(text: &mut String, details: &TaskDetails, colors: Colors) {
    if details.criteria.is_empty() {
        return;
    }
    let lines: Vec<String> = details
        .criteria
        .iter()
        .map(|it| criterion(it, colors))
        .collect();
    section(text, colors, "criteria", &lines.join("\n"));
}

fn criterion(it: &CriterionDetails, colors: Colors) -> String {
    let mark = match it.met {
        Some(true) => colors.good("✓"),
        Some(false) => colors.bad("✗"),
        None => colors.doubtful("?"),
    };
    let reason = match it.reason.as_deref() {
        Some(reason) if !reason.is_empty() => format!("\n    {}", colors.faint(&plain(reason))),
        _ => String::new(),
    };
    format!(
        "{mark} {} {}{reason}",
        plain(&it.criterion),
        colors.faint(&format!("(weight {})", it.weight))
    )
}

fn assertions(text: &mut String, details: &TaskDetails, colors: Colors) {
    if details.assertions.is_empty() {
        return;
    }
    let mut lines = Vec::new();
    for it in &details.assertions {
        assertion(&mut lines, it, 0, colors);
    }
    section(text, colors, "assertions", &lines.join("\n"));
}

/// An assertion with what was found if that says why it fails, and the nested ones below it. What a
/// judge says is always shown.
fn assertion(lines: &mut Vec<String>, it: &AssertionResult, depth: usize, colors: Colors) {
    let sign = assertion_sign(it);
    let is_counted = !(it.is_left_out || it.is_undecided);
    let mark = match (is_counted, it.holds) {
        (true, true) => colors.good(sign),
        (true, false) => colors.bad(sign),
        (false, _) => colors.doubtful(sign),
    };
    let mut notes = Vec::new();
    if is_counted && (it.weight - 1.0).abs() > f64::EPSILON {
        notes.push(format!("weight {}", it.weight));
    }
    if let Some(metric) = &it.metric {
        notes.push(format!("{} {:.2}", plain(metric), it.value));
    }
    let notes = match notes.is_empty() {
        true => String::new(),
        false => format!(" {}", colors.faint(&format!("({})", notes.join(", ")))),
    };
    let indent = "  ".repeat(depth);
    let (kind, expected) = (plain(&it.kind), plain(&it.expected));
    lines.push(format!("{indent}{mark} {kind}: {expected}{notes}"));
    let is_judged = JUDGED.contains(&it.kind.as_str()) && is_counted;
    if let Some(found) = it.found.as_ref().filter(|_| is_judged || !it.holds) {
        let word = if is_judged { "judge" } else { "found" };
        for (n, line) in found.lines().enumerate() {
            let line = match n {
                0 if !is_counted || line.starts_with(JUDGES) => plain(line),
                0 => format!("{word} {}", plain(line)),
                _ => format!("  {}", plain(line)),
            };
            lines.push(format!("{indent}  {}", colors.faint(&line)));
        }
    }
    for nested in &it.assertions {
        assertion(lines, nested, depth + 1, colors);
    }
}

fn transcript(text: &mut String, entries: &[Entry], colors: Colors, extent: Extent) {
    if entries.is_empty() {
        return;
    }
    let start = entries.first().map(|entry| entry.at).unwrap_or_default();
    let _ = writeln!(text, "  {}", colors.faint("transcript"));
    for entry in entries {
        let after = entry.at.duration_since(start).as_millis();
        let StepText { title, content } = step(&entry.step);
        let content = content.map(|it| shown(&it, extent));
        let at = format!("{after:>7} ms");
        let _ = writeln!(text, "  {}  {}", colors.faint(&at), title);
        for line in content.iter().flat_map(|content| content.lines()) {
            let _ = writeln!(text, "              {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::sample::{TERMINAL, coloured};

    fn details(value: Value) -> TaskDetails {
        let mut document = json!({
            "runId": "run_1", "taskId": "refund-twice", "outcome": "failed", "score": 0.0,
            "input": {"message": "I was charged twice."},
            "expected": {"strategy": "json-match", "value": {"queue": "billing", "urgent": true}},
            "actual": "{\"queue\": \"sales\", \"urgent\": true}",
            "differences": [
                {"path": "/queue", "kind": "changed", "expected": "billing", "actual": "sales"}
            ],
            "transcript": [
                {"at": "2026-01-01T00:00:00Z", "step": "started", "model": "m", "provider": "openai"},
                {"at": "2026-01-01T00:00:00.2Z", "step": "toolCalled", "tool": "crm:find",
                    "callId": "c1", "arguments": {"id": 7}},
                {"at": "2026-01-01T00:00:00.2Z", "step": "toolReturned", "tool": "crm:find",
                    "callId": "c1", "status": "ok", "result": {"name": "Ann"}},
            ],
            "costUsd": 0.0012, "tokens": 340, "latencyMs": 812,
        });
        let Value::Object(members) = value else {
            panic!("not an object");
        };
        document.as_object_mut().unwrap().extend(members);
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn a_terminal_shows_expected_and_actual_side_by_side() {
        let text = task(&details(json!({})), TERMINAL, Extent::Full);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_pipe_shows_expected_above_actual() {
        let text = task(&details(json!({})), Style::default(), Extent::Summary);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_text_is_compared_by_word() {
        let text = task(
            &details(json!({
                "expected": {"strategy": "exact", "value": "Your refund takes three days."},
                "actual": "Your refund takes five days.",
                "differences": [{"path": "", "kind": "changed",
                    "expected": "Your refund takes three days.",
                    "actual": "Your refund takes five days."}],
            })),
            TERMINAL,
            Extent::Summary,
        );
        insta::assert_snapshot!(text);
    }

    #[test]
    fn criteria_show_the_reasons_of_the_judge() {
        let mut rubric = details(json!({
            "score": 0.5, "differences": [], "actual": "No.",
            "criteria": [
                {"criterion": "Names the queue", "weight": 0.5, "met": false, "reason": "No queue."},
                {"criterion": "Is polite", "weight": 0.5, "met": true},
            ],
        }));
        rubric.expected = None;
        insta::assert_snapshot!(task(&rubric, TERMINAL, Extent::Summary));
    }

    #[test]
    fn content_cannot_control_the_terminal() {
        let text = task(
            &details(json!({"input": "a\u{1b}[2Jb\u{202e}c", "actual": "\u{1b}]0;x\u{7}"})),
            coloured(),
            Extent::Full,
        );
        assert!(
            !text.contains("\u{1b}[2J") && !text.contains("\u{1b}]0"),
            "{text}"
        );
        assert!(!text.contains('\u{202e}'), "{text}");
    }

    #[test]
    fn a_long_value_is_clipped_in_a_summary() {
        let text = task(
            &details(json!({"input": "x".repeat(5_000)})),
            TERMINAL,
            Extent::Summary,
        );
        assert!(text.contains("… 4400 more characters"), "{text}");
    }
}
