//! The change from one run to the next, while a person works on an agent.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::render::flips::flips;
use crate::rules::eval::report::EvalReport;
use touchstone_host::render::colors::Colors;
use touchstone_host::render::words::plain;
use touchstone_kit::ids::TaskId;

/// Tasks named per line.
const NAMED: usize = 8;

/// The scores of both runs, the tasks that broke or were fixed, and the number of tasks in one run
/// only.
pub fn change(earlier: &EvalReport, later: &EvalReport, colors: Colors) -> String {
    let (before, now) = (&earlier.summary, &later.summary);
    let mut text = format!(
        "\nsince the previous run: score {:.3} → {:.3}\n",
        before.aggregate_score, now.aggregate_score
    );
    let found = flips(later, earlier);
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
    let ids = |report: &EvalReport| -> HashSet<TaskId> {
        report
            .tasks
            .iter()
            .map(|task| task.task_id.clone())
            .collect()
    };
    let (before, now) = (ids(earlier), ids(later));
    if before != now {
        let (added, removed) = (now.difference(&before), before.difference(&now));
        let _ = writeln!(
            text,
            "  {} tasks are new, {} did not run again",
            added.count(),
            removed.count()
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
    use crate::render::sample;

    #[test]
    fn a_change_names_scores_and_tasks() {
        let (before, mut after) = (sample::baseline(), sample::mixed());
        insta::assert_snapshot!(change(&before, &after, Colors::default()));
        after.tasks.truncate(1);
        insta::assert_snapshot!(change(&after, &after, Colors::default()));
        insta::assert_snapshot!(change(&before, &after, Colors::default()));
    }
}
