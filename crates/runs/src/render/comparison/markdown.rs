//! The comparison as Markdown, for a pull request or a job summary.

use std::fmt::Write as _;

use crate::render::comparison::{
    Tone, by, change_kind, in_short, left_out, measures, signed_ms, signed_usd, task_result,
    verdict, why,
};
use crate::render::markdown::escaped;
use crate::rules::eval::comparison::{CHANGES, ShortComparison};
use crate::rules::eval::scoring::tasks;

/// Maximum number of tasks listed; a job summary is limited in size.
const LISTED: usize = 100;
const _: () = assert!(LISTED <= CHANGES, "a short comparison has further tasks");

pub fn markdown(found: &ShortComparison) -> String {
    let mut text = title(found);
    let (was, is) = (&found.baseline, &found.candidate);
    let _ = writeln!(
        text,
        "`{}@{}` (run `{}`) against `{}@{}` (run `{}`), over {} of `{}@{}`, paired.\n",
        is.agent_id,
        is.agent_version,
        is.run_id,
        was.agent_id,
        was.agent_version,
        was.run_id,
        tasks(found.n_tasks),
        is.suite_id,
        is.suite_version
    );
    results(&mut text, found);
    text
}

/// The verdict.
pub fn title(found: &ShortComparison) -> String {
    let (tone, word, because) = verdict(found);
    let sign = match tone {
        Tone::Good => "✅",
        Tone::Bad => "❌",
        Tone::Doubtful => "⚠️",
    };
    format!("## {sign} {word}{because}\n\n")
}

/// Everything but the names of the two runs.
pub fn results(text: &mut String, found: &ShortComparison) {
    let mut items = Vec::new();
    items.extend(found.notes.iter().map(|note| escaped(note)));
    for (reason, ids) in left_out(&found.left_out) {
        items.push(format!("Skipped, {reason}: {}", escaped(&ids)));
    }
    for difference in &found.differences {
        items.push(format!("Differs: {}", escaped(&in_short(difference))));
    }
    for item in &items {
        let _ = writeln!(text, "- {item}");
    }
    if !items.is_empty() {
        text.push('\n');
    }
    let measures = measures(found);
    if !measures.is_empty() {
        text.push_str("|  |  |\n| --- | --- |\n");
        for (name, line) in measures {
            let _ = writeln!(text, "| {name} | {} |", escaped(&line));
        }
        text.push('\n');
    }
    changes(text, found);
}

fn changes(text: &mut String, found: &ShortComparison) {
    if found.changes.count == 0 {
        return;
    }
    text.push_str("| Task |  | Was | Is | Latency | Cost | Reason |\n");
    text.push_str("| --- | --- | ---: | ---: | ---: | ---: | --- |\n");
    for change in found.changes.first.iter().take(LISTED) {
        let _ = writeln!(
            text,
            "| `{}` | **{}** | {} | {} | {} | {} | {} |",
            change.task_id,
            change_kind(change.turn),
            task_result(&change.baseline),
            task_result(&change.candidate),
            by(change, |it| it.latency_ms, signed_ms),
            escaped(&by(change, |it| it.cost_usd, signed_usd)),
            escaped(&why(change))
        );
    }
    if let Some(more) = found.changes.count.checked_sub(LISTED + 1) {
        let _ = writeln!(text, "\nAnd {} more.", more + 1);
    }
}
