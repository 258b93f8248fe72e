//! Tasks of a run with their content: `touchstone run show RUN --task TASK`, and the failures at
//! the end of a scorecard.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::next_steps::main_step;
use crate::cli::results::RunReport;
use crate::cli::watch::fetch_totals;
use crate::render::task::{Extent, answers as render_answers, task as render};
use crate::render::words::counts;
use crate::rules::eval::report::{RunTotals, TaskOutcome, TaskReport, Verdict};
use crate::rules::eval::task_details::TaskDetails;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::{Context, Session};
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_kit::error::ErrorCode;
use touchstone_kit::ids::TaskId;
use touchstone_kit::near::{did_you_mean, near};

/// Failures shown below a scorecard, and broken tasks below a comparison.
pub const SHOWN: usize = 3;
/// The code for a task that the run does not have.
pub const NO_SUCH_TASK: &str = "no_such_task";
/// The outcomes of tasks that did not pass, as parameters of a request.
const NOT_PASSED: [&str; 2] = ["failed", "unjudged"];
/// Tasks requested at a time.
const PAGE: usize = 50;

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tasks: Vec<TaskDetails>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_cursor: Option<TaskId>,
}

/// Prints one task in full.
///
/// # Errors
/// The host's error response.
pub async fn show_task(
    context: &Context<'_>,
    client: &Client,
    run: &str,
    task: &str,
) -> Result<Exit, Failure> {
    let details = match fetch(client, run, task).await {
        Err(failure) => return Err(suggested(client, run, task, failure).await),
        found => found?,
    };
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&details);
    } else {
        terminal.print(&render(&details, terminal.style(), Extent::Full));
    }
    Ok(Exit::Good)
}

/// Prints every task that did not pass, in full; under `--json` one document per line. A run that
/// has not ended may have more of them.
///
/// # Errors
/// The host's error response.
pub async fn show_failed(
    context: &Context<'_>,
    session: &Session,
    run: &str,
) -> Result<Exit, Failure> {
    let (terminal, client) = (context.terminal(), session.client());
    let report = fetch_totals(client, run).await?;
    let mut none = true;
    for outcome in NOT_PASSED {
        let mut after = None;
        loop {
            let page = fetch_page(client, run, outcome, after.as_ref()).await?;
            none &= page.tasks.is_empty();
            for details in &page.tasks {
                if terminal.json() {
                    terminal.line(details);
                } else {
                    terminal.print(&render(details, terminal.style(), Extent::Full));
                    terminal.print("\n");
                }
            }
            after = page.next_cursor;
            if after.is_none() {
                break;
            }
        }
    }
    if report.verdict == Verdict::Pending {
        terminal.note(&unfinished(&report));
        if let Some(step) = main_step(context, session, &report, true) {
            terminal.note(&step);
        }
        return Ok(Exit::Inconclusive);
    }
    if none && !terminal.json() {
        terminal.print("every scored task passed\n");
    }
    Ok(Exit::Good)
}

/// How far a run is that has not ended.
fn unfinished(report: &RunTotals) -> String {
    let counted = counts(report);
    let judged = counted.judged();
    format!(
        "run {} has not ended (it is {}): {judged} of its {} tasks have a result",
        report.run_id,
        report.status,
        counted.all()
    )
}

/// The first tasks that did not pass, failed ones first.
///
/// # Errors
/// The host's error response.
pub async fn not_passed(
    client: &Client,
    run: &str,
    most: usize,
) -> Result<Vec<TaskDetails>, Failure> {
    let mut tasks = Vec::new();
    for outcome in NOT_PASSED {
        let mut after = None;
        while tasks.len() < most {
            let page = fetch_page(client, run, outcome, after.as_ref()).await?;
            tasks.extend(page.tasks);
            after = page.next_cursor;
            if after.is_none() {
                break;
            }
        }
    }
    tasks.truncate(most);
    Ok(tasks)
}

async fn fetch_page(
    client: &Client,
    run: &str,
    outcome: &str,
    after: Option<&TaskId>,
) -> Result<Page, Failure> {
    let cursor = after.map_or_else(String::new, |last| {
        format!("&cursor={}", encoded(last.as_str()))
    });
    let path =
        format!("/v1/host/touchstone/runs/{run}/tasks?outcome={outcome}&limit={PAGE}{cursor}");
    client.get(&path).await
}

/// Prints the failures that say most, each with the command that shows all of it. The scorecard above
/// them is complete without them, and a key may have no access to content; so a failure is a note.
pub async fn show_main_failures(context: &Context<'_>, client: &Client, report: &RunReport) {
    if let Err(failure) = print_main_failures(context, client, report).await {
        let note = format!("failed tasks are not shown: {failure}");
        context.terminal().note(&note);
    }
}

async fn print_main_failures(
    context: &Context<'_>,
    client: &Client,
    report: &RunReport,
) -> Result<(), Failure> {
    if report.has_only_passed() {
        return Ok(());
    }
    let mut failures = MainFailures::default();
    let mut pages = report.pages(client);
    while let Some(page) = pages.next().await? {
        page.iter().for_each(|(_, task)| failures.add(task));
    }
    let (terminal, run) = (context.terminal(), &report.totals.run_id);
    for task in failures.found() {
        let details = fetch(client, run.as_str(), task.as_str()).await?;
        terminal.print(&render(&details, terminal.style(), Extent::Summary));
        let command = format!(
            "{} run show {run} --task {}",
            context.program(),
            details.task_id
        );
        terminal.print(&format!("  {}\n\n", terminal.colors().command(&command)));
    }
    Ok(())
}

/// Prints a task of two runs with both answers.
///
/// # Errors
/// The host's error response.
pub async fn show_answers(
    context: &Context<'_>,
    client: &Client,
    [baseline, candidate]: [&str; 2],
    task: &str,
) -> Result<(), Failure> {
    let before = fetch(client, baseline, task).await?;
    let after = fetch(client, candidate, task).await?;
    let terminal = context.terminal();
    terminal.print(&render_answers(&before, &after, terminal.style()));
    Ok(())
}

/// Prints a task of a run with its answer and an answer of another source.
///
/// # Errors
/// The host's error response.
pub async fn show_answers_beside(
    context: &Context<'_>,
    client: &Client,
    answer: Option<&str>,
    run: &str,
    task: &str,
) -> Result<(), Failure> {
    let after = fetch(client, run, task).await?;
    let before = TaskDetails {
        actual: answer.map(|answer| Value::String(answer.to_owned())),
        ..after.clone()
    };
    let terminal = context.terminal();
    terminal.print(&render_answers(&before, &after, terminal.style()));
    Ok(())
}

/// Similar ids are searched in this many pages of a run. Each page is a request.
const SEARCHED_PAGES: usize = 20;

/// For a task that the run does not have, a failure with similar ids.
pub async fn suggested(client: &Client, run: &str, task: &str, failure: Failure) -> Failure {
    if ![ErrorCode::NotFound.as_str(), NO_SUCH_TASK].contains(&&*failure.code) {
        return failure;
    }
    let Ok(report) = RunReport::fetch(client, run).await else {
        return failure;
    };
    let mut similar: Vec<String> = Vec::new();
    let mut pages = report.pages(client);
    for _ in 0..SEARCHED_PAGES {
        let page = match pages.next().await {
            Ok(Some(page)) => page,
            Ok(None) => break,
            Err(_) => return failure,
        };
        let ids = page.iter().map(|(_, it)| it.task_id.as_str());
        if ids.clone().any(|it| it == task) {
            return failure;
        }
        // The most similar ones of this page and of those before it.
        let known = similar.iter().map(String::as_str);
        let nearest = near(task, known.chain(ids));
        similar = nearest.into_iter().map(str::to_owned).collect();
    }
    let mut message = format!("run {run} has no scored task {task}");
    if let Some(similar) = did_you_mean(task, similar.iter().map(String::as_str)) {
        message = format!("{message}; {similar}");
    }
    Failure { message, ..failure }
}

/// A task with its content.
///
/// # Errors
/// The host's error response.
pub async fn fetch(client: &Client, run: &str, task: &str) -> Result<TaskDetails, Failure> {
    let path = format!("/v1/host/touchstone/runs/{run}/tasks/{}", encoded(task));
    client.get(&path).await
}

/// The id as a part of a URL.
pub(crate) fn encoded(id: &str) -> String {
    url::form_urlencoded::byte_serialize(id.as_bytes())
        .collect::<String>()
        .replace('+', "%20")
}

/// The first tasks with different reasons, then the first others: three failures for the same
/// reason say less than one each for three reasons. Unjudged tasks come last.
#[derive(Default)]
struct MainFailures {
    reasons: HashSet<(TaskOutcome, Option<String>)>,
    /// By whether they are unjudged and repeat a reason; at most [`SHOWN`] of each.
    tasks: BTreeMap<(bool, bool), Vec<TaskId>>,
}

impl MainFailures {
    fn add(&mut self, task: &TaskReport) {
        if task.outcome == TaskOutcome::Passed {
            return;
        }
        let repeats = !self.reasons.insert((task.outcome, task.reason.clone()));
        let is_unjudged = task.outcome == TaskOutcome::Unjudged;
        let alike = self.tasks.entry((is_unjudged, repeats)).or_default();
        if alike.len() < SHOWN {
            alike.push(task.task_id.clone());
        }
    }

    fn found(self) -> impl Iterator<Item = TaskId> {
        self.tasks.into_values().flatten().take(SHOWN)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tasks(all: &[(&str, &str, Option<&str>)]) -> Vec<TaskReport> {
        let task = |(id, outcome, reason): &(&str, &str, Option<&str>)| {
            let document = json!({"taskId": id, "outcome": outcome, "reason": reason});
            serde_json::from_value(document).unwrap()
        };
        all.iter().map(task).collect()
    }

    #[test]
    fn failures_with_different_reasons_come_first_and_unjudged_tasks_last() {
        let tasks = tasks(&[
            ("down", "unjudged", Some("connect")),
            ("fine", "passed", None),
            ("wrong-1", "failed", None),
            ("wrong-2", "failed", None),
            ("invalid", "failed", Some("output_not_json")),
        ]);
        let mut failures = MainFailures::default();
        tasks.iter().for_each(|task| failures.add(task));
        let shown: Vec<TaskId> = failures.found().collect();
        assert_eq!(shown, ["wrong-1", "invalid", "wrong-2"].map(TaskId::from));
    }

    #[test]
    fn an_id_is_encoded_as_one_segment_of_a_path() {
        assert_eq!(encoded("a/b c?+"), "a%2Fb%20c%3F%2B");
    }
}
