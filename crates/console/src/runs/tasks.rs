//! The tasks of a run in the chosen order.

use crate::live::view::Linked;
use crate::page::choice::{Choice, choices};
use crate::page::text::count;
use touchstone_host::http::extract::Query;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_runs::rules::eval::report::{TaskOutcome, Verdict};
use touchstone_runs::rules::eval::task_list::{PageStart, TaskListQuery, TaskOrder};
use touchstone_runs::service::runs::Runs;

/// Tasks of a page.
const TASKS: usize = 100;

const OUTCOMES: [(&str, &str); 4] = [
    ("", "All tasks"),
    ("failed", "Failed"),
    ("unjudged", "Not judged"),
    ("passed", "Passed"),
];
const OUTCOMES_BY_NAME: [(&str, TaskOutcome); 3] = [
    ("failed", TaskOutcome::Failed),
    ("unjudged", TaskOutcome::Unjudged),
    ("passed", TaskOutcome::Passed),
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
    /// The text that the ids contain.
    pub name: String,
    /// The baseline of the page, which the form keeps.
    pub baseline: String,
    /// Why there are no rows.
    pub none: &'static str,
    /// The first page, from one behind the last task.
    pub first: Option<String>,
    pub next: Option<String>,
    pub previous: Option<String>,
    pub outcomes: Vec<Choice>,
    pub sorts: Vec<Choice>,
}

impl TaskList {
    /// The part that a query names, of a run with this verdict.
    ///
    /// # Errors
    /// `validation_error` that names the parameter; `not_found`.
    pub async fn of(
        runs: &Runs,
        tenant: &TenantId,
        run: &RunId,
        verdict: Verdict,
        query: &Query,
    ) -> Result<Self, Problem> {
        let outcome = query.get("outcome").unwrap_or_default();
        let sort = query.get("sort").unwrap_or_default();
        let name = query.get("q").map(str::trim).unwrap_or_default();
        let from = query.whole("from", 0, 10_000_000)?.unwrap_or_default();
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let asked = TaskListQuery {
            name: name.to_owned(),
            outcome: OUTCOMES_BY_NAME
                .iter()
                .find(|(name, _)| *name == outcome)
                .map(|(_, found)| *found),
            order: TaskOrder::parse(sort).unwrap_or_default(),
            start: PageStart::At(from),
            limit: TASKS,
        };
        let page = runs.results(tenant, run, &asked).await?;
        let all = page.total;
        let shown = page.results.into_iter();
        let rows: Vec<Linked> = shown.map(|it| Linked::of(run, it)).collect();
        let kept = query.without(&["from", "done"]);
        let address = |from: usize| {
            let from = (from > 0).then(|| format!("from={from}"));
            let kept = Some(kept.clone()).filter(|it| !it.is_empty());
            let parts: Vec<String> = kept.into_iter().chain(from).collect();
            format!("/console/runs/{run}?{}#tasks", parts.join("&"))
        };
        Ok(Self {
            none: match (from, name, outcome, verdict) {
                (1.., ..) if all > 0 => "There are no more tasks.",
                (_, "", "", Verdict::Pending) => "No task has been scored yet.",
                (_, "", "", _) => "No task was scored.",
                (_, "", ..) => "No task has this outcome.",
                _ => "No task matches.",
            },
            first: (rows.is_empty() && all > 0).then(|| address(0)),
            name: name.to_owned(),
            baseline: query.get("baseline").unwrap_or_default().to_owned(),
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
        })
    }
}
