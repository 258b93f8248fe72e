//! Differences between two runs, for people.

use std::fmt::Write as _;

use serde_json::Value;

use touchstone_host::render::colors::Colors;
use touchstone_openwop::diff::{DiffOp, EventDiff, RunDiff};

/// Maximum number of differences shown; the document has more.
const LISTED: usize = 20;
/// Maximum number of characters shown of an event.
const EVENT_WIDTH: usize = 160;

pub fn diff(found: &RunDiff, colors: Colors) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "a       {}", found.a);
    let _ = writeln!(text, "b       {}", found.b);
    for (member, sides) in &found.state_diff {
        let side = |name: &str| match sides.get(name) {
            Some(Value::String(word)) => word.clone(),
            Some(value) => value.to_string(),
            None => "-".to_owned(),
        };
        let _ = writeln!(text, "{member:<7} {} → {}", side("a"), side("b"));
    }
    for entry in found.event_diffs.iter().take(LISTED) {
        event(&mut text, entry, colors);
    }
    if let Some(more) = found.event_diffs.len().checked_sub(LISTED + 1) {
        let _ = writeln!(
            text,
            "{}",
            colors.faint(&format!("        and {} more; --json lists them", more + 1))
        );
    }
    if found.truncated {
        let _ = writeln!(
            text,
            "note    {}",
            colors.doubtful(
                "the comparison is incomplete: a run has not ended, or there are too many differences"
            )
        );
    }
    let count = |op| {
        let of_op = |entry: &&EventDiff| entry.op == op;
        found.event_diffs.iter().filter(of_op).count()
    };
    let line = match found.diverged_at_seq {
        None if found.state_diff.is_empty() => colors.good("no difference"),
        None => colors.bad("the logs are equal, but the states differ"),
        Some(seq) => colors.bad(&format!(
            "diverged at event {seq}: {} changed, {} only in a, {} only in b",
            count(DiffOp::Changed),
            count(DiffOp::Removed),
            count(DiffOp::Added)
        )),
    };
    let _ = writeln!(text, "{line}");
    text
}

fn event(text: &mut String, entry: &EventDiff, colors: Colors) {
    let sides = [
        (
            "-",
            &entry.a_event,
            Colors::bad as fn(Colors, &str) -> String,
        ),
        ("+", &entry.b_event, Colors::good),
    ];
    for (sign, event, colour) in sides {
        if let Some(event) = event {
            let line = format!("{sign}{:>6}  {}", entry.seq, shown(event));
            let _ = writeln!(text, "{}", colour(colors, &line));
        }
    }
}

fn shown(event: &Value) -> String {
    let member = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
    let payload = event.get("payload").unwrap_or(&Value::Null).to_string();
    let mut line = format!("{:<26}", member("type"));
    if !member("nodeId").is_empty() {
        let _ = write!(line, "  {}", member("nodeId"));
    }
    let _ = write!(line, "  ");
    let room = EVENT_WIDTH.saturating_sub(line.chars().count());
    let whole = payload.chars().count() <= room;
    line.extend(payload.chars().take(room));
    if !whole {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(event_diffs: Vec<EventDiff>) -> RunDiff {
        RunDiff {
            a: "run_a".into(),
            b: "run_b".into(),
            diverged_at_seq: event_diffs.first().map(|entry| entry.seq),
            event_diffs,
            state_diff: serde_json::Map::new(),
            truncated: false,
        }
    }

    fn scored(seq: u64, text: &str) -> Value {
        json!({"type": "eval.scored", "nodeId": "task-1", "sequence": seq, "payload": {"text": text}})
    }

    #[test]
    fn every_kind_of_difference_has_its_sign() {
        let mut found = found(vec![
            EventDiff {
                seq: 4,
                op: DiffOp::Changed,
                a_event: Some(scored(4, "yes")),
                b_event: Some(scored(4, &"no".repeat(200))),
            },
            EventDiff {
                seq: 5,
                op: DiffOp::Removed,
                a_event: Some(scored(5, "yes")),
                b_event: None,
            },
        ]);
        found.state_diff.insert(
            "status".to_owned(),
            json!({"a": "completed", "b": "failed"}),
        );
        found.truncated = true;
        insta::assert_snapshot!(diff(&found, Colors::default()));
    }

    #[test]
    fn an_empty_diff_prints_no_difference() {
        let text = diff(&found(Vec::new()), Colors::default());
        assert_eq!(text.lines().last(), Some("no difference"));
    }

    #[test]
    fn a_long_diff_is_truncated() {
        let many = (1..=50).map(|seq| EventDiff {
            seq,
            op: DiffOp::Added,
            a_event: None,
            b_event: Some(scored(seq, "x")),
        });
        let text = diff(&found(many.collect()), Colors::default());
        assert_eq!(
            text.lines().filter(|line| line.starts_with('+')).count(),
            LISTED
        );
        assert!(text.contains("and 30 more"), "{text}");
        assert!(text.contains("50 only in b"), "{text}");
    }
}
