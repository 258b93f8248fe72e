//! Workflow commands of GitHub Actions: annotations for the verdict and the tasks that did not
//! pass.

use crate::render::document::TaskRow;
use crate::render::words::{counts, reason_of, verdict};
use crate::rules::eval::report::{RunTotals, Verdict};

/// Maximum number of annotations per level and step that GitHub shows; it drops the others
/// silently.
pub const MOST_OF_A_LEVEL: usize = 10;

/// One line per annotation: the verdict unless it is a pass, and the tasks that did not pass, up to
/// the maximum. `failed` and `unjudged` have the first tasks with these outcomes, at least
/// [`MOST_OF_A_LEVEL`] unless there are fewer.
pub fn annotations(report: &RunTotals, failed: &[TaskRow], unjudged: &[TaskRow]) -> Vec<String> {
    let mut lines = Vec::new();
    let name = format!("{}@{}", report.agent.agent_id, report.agent.version);
    let level = match report.verdict {
        Verdict::Pass | Verdict::Pending => None,
        Verdict::Fail => Some("error"),
        Verdict::Inconclusive => Some("warning"),
    };
    if let Some(level) = level {
        let title = format!("{}: {name}", verdict(report.verdict));
        lines.push(command(level, &title, &report.reasons.join("\n")));
    }
    let counted = counts(report);
    for (tasks, all, level) in [
        (failed, counted.failed, "error"),
        (unjudged, counted.unjudged, "warning"),
    ] {
        let begun = format!("::{level} ");
        let taken = lines.iter().filter(|line| line.starts_with(&begun)).count();
        let room = MOST_OF_A_LEVEL.saturating_sub(taken);
        // The last annotation counts the remaining ones.
        let shown = match all > room {
            true => room.saturating_sub(1),
            false => all,
        };
        for (numbers, task) in tasks.iter().take(shown) {
            let reason = reason_of(numbers, task);
            lines.push(command(level, task.task_id.as_str(), &reason));
        }
        if shown < all {
            let rest = format!("{} more tasks; see the job summary", all - shown);
            lines.push(command(level, &name, &rest));
        }
    }
    lines
}

fn command(level: &str, title: &str, message: &str) -> String {
    let title = data(title).replace(':', "%3A").replace(',', "%2C");
    format!("::{level} title={title}::{}", data(message))
}

/// Escapes text, so that a command stays on one line.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;
    use crate::render::words::rows;
    use crate::rules::eval::report::{EvalReport, TaskOutcome};

    fn annotations(report: &EvalReport) -> Vec<String> {
        let first = |outcome| -> Vec<TaskRow> {
            rows(report)
                .filter(|(_, task)| task.outcome == outcome)
                .take(MOST_OF_A_LEVEL)
                .map(|(numbers, task)| (numbers.clone(), task.clone()))
                .collect()
        };
        let (failed, unjudged) = (first(TaskOutcome::Failed), first(TaskOutcome::Unjudged));
        super::annotations(&report.totals(), &failed, &unjudged)
    }

    #[test]
    fn failed_and_unjudged_tasks_get_annotations() {
        let lines = annotations(&sample::mixed());
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(
            lines[0].starts_with("::warning title=INCONCLUSIVE%3A "),
            "{lines:?}"
        );
        assert!(
            lines[0].ends_with("::1 task could not be judged"),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("::error title=refund-twice::"),
            "{lines:?}"
        );
        assert!(
            lines[2].starts_with("::warning title=slow-report::"),
            "{lines:?}"
        );
    }

    #[test]
    fn annotations_are_limited_and_the_rest_is_counted() {
        let mut report = sample::large();
        report.verdict = Verdict::Fail;
        for task in report.tasks.iter_mut().take(30) {
            task.outcome = TaskOutcome::Failed;
        }
        let lines = annotations(&report);
        assert_eq!(lines.len(), MOST_OF_A_LEVEL);
        let failed = report
            .tasks
            .iter()
            .filter(|task| task.outcome == TaskOutcome::Failed);
        let rest = format!("::{} more tasks;", failed.count() - (MOST_OF_A_LEVEL - 2));
        assert!(lines[9].contains(&rest), "{lines:?}");
    }

    #[test]
    fn workflow_commands_are_escaped_to_one_line() {
        assert_eq!(
            command("error", "a:b,c", "100 %\r\n::warning::x"),
            "::error title=a%3Ab%2Cc::100 %25%0D%0A::warning::x"
        );
    }
}
