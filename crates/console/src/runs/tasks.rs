//! The tasks of a run in the chosen order.

use crate::live::view::Linked;
use crate::page::choice::{Choice, choices};
use crate::page::text::count;
use crate::runs::task_page;
use touchstone_host::http::extract::Query;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::RunId;
use touchstone_runs::render::report_page::failures::TaskRow;
use touchstone_runs::rules::eval::report::{EvalReport, TaskOutcome};

/// Tasks of a page.
const TASKS: usize = 100;

const OUTCOMES: [(&str, &str); 4] = [
    ("", "All tasks"),
    ("failed", "Failed"),
    ("unjudged", "Not judged"),
    ("passed", "Passed"),
];
const SORTS: [(&str, &str); 5] = [
    ("", "Suite order"),
    ("score", "Lowest score first"),
    ("latency", "Slowest first"),
    ("cost", "Most expensive first"),
    ("task", "Name"),
];

/// A part of the tasks of a run.
pub struct TaskList {
    pub rows: Vec<Linked>,
    /// Which tasks these are, in words.
    pub found: String,
    pub outcome: String,
    pub next: Option<String>,
    pub previous: Option<String>,
    pub outcomes: Vec<Choice>,
    pub sorts: Vec<Choice>,
}

impl TaskList {
    /// The part that a query names.
    ///
    /// # Errors
    /// `validation_error` that names the parameter.
    pub fn of(run: &RunId, report: &EvalReport, query: &Query) -> Result<Self, Problem> {
        let outcome = query.get("outcome").unwrap_or_default();
        let sort = query.get("sort").unwrap_or_default();
        let from = query.whole("from", 0, 10_000_000)?.unwrap_or_default();
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let selected = selected(report, outcome, sort);
        let all = selected.len();
        let tasks = report.tasks.iter();
        let numbers: Vec<_> = tasks.zip(&report.summary.tasks).collect();
        let shown = selected.into_iter().skip(from).take(TASKS);
        let rows: Vec<Linked> = shown
            .filter_map(|at| numbers.get(at))
            .map(|(task, numbers)| Linked {
                href: task_page(run, &task.task_id),
                row: TaskRow::of(numbers, task),
            })
            .collect();
        let kept = query.without(&["from", "done"]);
        let address = |from: usize| {
            let from = (from > 0).then(|| format!("from={from}"));
            let kept = Some(kept.clone()).filter(|it| !it.is_empty());
            let parts: Vec<String> = kept.into_iter().chain(from).collect();
            format!("/console/runs/{run}?{}#tasks", parts.join("&"))
        };
        Ok(Self {
            found: match rows.len() {
                0 => String::new(),
                shown => format!(
                    "{} to {} of {}",
                    count(from + 1),
                    count(from + shown),
                    count(all)
                ),
            },
            next: (from + rows.len() < all).then(|| address(from + TASKS)),
            previous: (from > 0).then(|| address(from.saturating_sub(TASKS))),
            rows,
            outcomes: choices(&OUTCOMES, outcome),
            sorts: choices(&SORTS, sort),
            outcome: outcome.to_owned(),
        })
    }
}

/// The places in the report of the tasks with this outcome, in this order.
fn selected(report: &EvalReport, outcome: &str, sort: &str) -> Vec<usize> {
    let wanted = |found: TaskOutcome| match outcome {
        "failed" => found == TaskOutcome::Failed,
        "unjudged" => found == TaskOutcome::Unjudged,
        "passed" => found == TaskOutcome::Passed,
        _ => true,
    };
    let pairs = report.summary.tasks.iter().zip(&report.tasks).enumerate();
    let mut pairs: Vec<_> = pairs
        .filter(|(_, (_, task))| wanted(task.outcome))
        .collect();
    match sort {
        "score" => pairs.sort_by(|(_, (a, _)), (_, (b, _))| a.score.total_cmp(&b.score)),
        "latency" => pairs.sort_by_key(|(_, (it, _))| std::cmp::Reverse(it.latency_ms)),
        "cost" => pairs.sort_by_key(|(_, (it, _))| std::cmp::Reverse(it.cost_usd)),
        "task" => pairs.sort_by(|(_, (_, a)), (_, (_, b))| a.task_id.cmp(&b.task_id)),
        _ => {}
    }
    pairs.into_iter().map(|(at, _)| at).collect()
}
