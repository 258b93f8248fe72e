//! The change from one run to the next, while a person works on an agent.

use std::fmt::Write as _;

use crate::render::flips::Flips;
use crate::rules::eval::report::RunTotals;
use touchstone_host::render::colors::Colors;
use touchstone_host::render::words::plain;
use touchstone_kit::ids::TaskId;

/// Tasks named per line.
const NAMED: usize = 8;

/// The scores of both runs, the tasks that broke or were fixed, and the number of tasks in one run
/// only. `found` are the changes from the earlier run to the later one.
pub fn change(earlier: &RunTotals, later: &RunTotals, found: &Flips, colors: Colors) -> String {
    let (before, now) = (&earlier.summary, &later.summary);
    let mut text = format!(
        "\nsince the previous run: score {:.3} → {:.3}\n",
        before.aggregate_score, now.aggregate_score
    );
    if !found.broke.is_empty() {
        let line = format!("broke {}", names(&found.broke));
        let _ = writeln!(text, "  {}", colors.bad(&line));
    }
    if !found.fixed.is_empty() {
        let line = format!("fixed {}", names(&found.fixed));
        let _ = writeln!(text, "  {}", colors.good(&line));
    }
    if found.broke.is_empty() && found.fixed.is_empty() {
        text.push_str("  no task broke or was fixed\n");
    }
    if found.added + found.removed > 0 {
        let _ = writeln!(
            text,
            "  {} tasks are new, {} did not run again",
            found.added, found.removed
        );
    }
    text
}

fn names(tasks: &[TaskId]) -> String {
    let shown: Vec<String> = tasks
        .iter()
        .take(NAMED)
        .map(|task| plain(task.as_str()))
        .collect();
    let shown = shown.join(", ");
    match tasks.len().saturating_sub(NAMED) {
        0 => format!("({}): {shown}", tasks.len()),
        more => format!("({}): {shown} and {more} more", tasks.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::flips::flips;
    use crate::render::sample;
    use crate::rules::eval::report::EvalReport;

    fn text(before: &EvalReport, after: &EvalReport) -> String {
        let found = flips(after, before);
        change(&before.totals(), &after.totals(), &found, Colors::default())
    }

    #[test]
    fn a_change_names_scores_and_tasks() {
        let (before, mut after) = (sample::baseline(), sample::mixed());
        insta::assert_snapshot!(text(&before, &after));
        after.tasks.truncate(1);
        insta::assert_snapshot!(text(&after, &after));
        insta::assert_snapshot!(text(&before, &after));
    }
}
