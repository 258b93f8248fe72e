//! The report of a run, whose tasks are read from the host page by page.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cli::output::draft_not_written;
use crate::cli::run::tasks::encoded;
use crate::render::document::{Next, Out, RunDocument, TaskRow};
use crate::render::flips::{Flips, OutcomePairs};
use crate::render::words::rows;
use crate::rules::eval::report::{EvalReport, RunTotals, ScoredTask, TaskOutcome, Verdict};
use crate::rules::eval::statistics::{
    Evidence, EvidenceRun, FigureSums, Statistics, TaskFigures, statistics,
};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::exit::Failure;
use touchstone_kit::error::ErrorCode;
use touchstone_kit::ids::TaskId;

/// Number of tasks in a request. Smaller runs are kept in memory.
const PAGE: usize = 1000;

/// Waits in milliseconds before a failed request is repeated.
const WAITS_MS: [u64; 5] = [250, 500, 1000, 2000, 4000];

/// The code for a response that is too large for a command.
const TOO_LARGE: &str = "answer_too_large";

const RUNS: &str = "/v1/host/touchstone/runs";

/// The report of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    pub totals: RunTotals,
    tasks: Tasks,
}

#[derive(Clone, Debug)]
enum Tasks {
    Held(Vec<TaskRow>),
    /// Read from the host each time that they are needed.
    Paged,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultsPage {
    results: Vec<ScoredTask>,
    #[serde(default)]
    next_cursor: Option<TaskId>,
}

impl ResultsPage {
    async fn fetch(client: &Client, run: &str, query: &str) -> Result<Self, Failure> {
        repeated(client, &format!("{RUNS}/{run}/results?{query}")).await
    }

    async fn after(client: &Client, run: &str, last: Option<&TaskId>) -> Result<Self, Failure> {
        let cursor = last.map_or_else(String::new, |last| {
            format!("&cursor={}", encoded(last.as_str()))
        });
        Self::fetch(client, run, &format!("limit={PAGE}{cursor}")).await
    }

    fn rows(self) -> Vec<TaskRow> {
        let results = self.results.into_iter();
        results.map(ScoredTask::into_row).collect()
    }
}

/// As [`Client::get`], but repeats the request if a later one may succeed: a document about many tasks
/// needs thousands of requests, and one that fails must not end it.
async fn repeated<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, Failure> {
    let mut waits = WAITS_MS.into_iter();
    loop {
        match client.get(path).await {
            Err(failure) if is_temporary(&failure) => {
                let Some(wait) = waits.next() else {
                    return Err(failure);
                };
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
            answer => return answer,
        }
    }
}

/// Whether the same request may succeed later.
fn is_temporary(failure: &Failure) -> bool {
    [
        "server_unreachable",
        "connection_broken",
        ErrorCode::RateLimited.as_str(),
        ErrorCode::Unavailable.as_str(),
    ]
    .contains(&&*failure.code)
}

/// Why a document was not written.
#[derive(Debug)]
pub enum NotWritten {
    /// The host did not send the tasks.
    Host(Failure),
    Output(io::Error),
}

impl NotWritten {
    /// The failure to write a draft.
    pub fn of_draft(self) -> Failure {
        match self {
            Self::Host(failure) => failure,
            Self::Output(cause) => draft_not_written(&cause),
        }
    }
}

impl From<Failure> for NotWritten {
    fn from(failure: Failure) -> Self {
        Self::Host(failure)
    }
}

impl From<io::Error> for NotWritten {
    fn from(cause: io::Error) -> Self {
        Self::Output(cause)
    }
}

impl RunReport {
    /// Reads the report of a run. The tasks of small runs and of runs in progress are kept in memory. In
    /// a run in progress, the next request would return others, and the totals must agree with them.
    ///
    /// # Errors
    /// The host's error response.
    pub async fn fetch(client: &Client, run: &str) -> Result<Self, Failure> {
        let report: EvalReport = client
            .get(&format!("{RUNS}/{run}/report?tasks=none"))
            .await?;
        let totals = report.totals();
        if report.task_totals.is_none() {
            // A host of an earlier version answers with the whole report.
            return Ok(Self::held(&report));
        }
        let is_pending = totals.verdict == Verdict::Pending;
        if is_pending {
            match client.get(&format!("{RUNS}/{run}/report")).await {
                Ok(whole) => return Ok(Self::held(&whole)),
                Err(failure) if failure.code == TOO_LARGE => {}
                Err(failure) => return Err(failure),
            }
        }
        let mut page = ResultsPage::after(client, run, None).await?;
        if page.next_cursor.is_some() && !is_pending {
            let tasks = Tasks::Paged;
            return Ok(Self { totals, tasks });
        }
        let mut held = Vec::new();
        loop {
            let next = page.next_cursor.take();
            held.extend(page.rows());
            if next.is_none() {
                break;
            }
            page = ResultsPage::after(client, run, next.as_ref()).await?;
        }
        // Tasks that were scored since the totals were read are counted, too.
        Ok(Self::held(&totals.with_tasks(held)))
    }

    fn held(report: &EvalReport) -> Self {
        let rows = rows(report).map(|(numbers, task)| (numbers.clone(), task.clone()));
        Self {
            totals: report.totals(),
            tasks: Tasks::Held(rows.collect()),
        }
    }

    /// The report with all tasks in memory.
    ///
    /// # Errors
    /// The host's error response.
    pub async fn whole(&self, client: &Client) -> Result<EvalReport, Failure> {
        let mut all = Vec::new();
        let mut pages = self.pages(client);
        while let Some(page) = pages.next().await? {
            all.extend(page.into_owned());
        }
        Ok(self.totals.with_tasks(all))
    }

    /// The tasks in suite order.
    pub const fn pages<'a>(&'a self, client: &'a Client) -> Pages<'a> {
        Pages {
            client,
            report: self,
            after: None,
            is_done: false,
        }
    }

    /// Whether all tasks passed, so that no page has a task to show.
    pub fn has_only_passed(&self) -> bool {
        let tasks = self.totals.task_totals;
        tasks.is_some_and(|tasks| tasks.failed == 0 && tasks.unjudged == 0)
    }

    /// The first tasks with this outcome, at most `most`.
    ///
    /// # Errors
    /// The host's error response.
    pub async fn first(
        &self,
        client: &Client,
        outcome: TaskOutcome,
        most: usize,
    ) -> Result<Vec<TaskRow>, Failure> {
        if let Tasks::Held(tasks) = &self.tasks {
            let of = tasks.iter().filter(|(_, task)| task.outcome == outcome);
            return Ok(of.take(most).cloned().collect());
        }
        let outcome = crate::render::words::outcome(outcome);
        let query = format!("outcome={outcome}&limit={}", most.clamp(1, PAGE));
        let page = ResultsPage::fetch(client, self.totals.run_id.as_str(), &query).await?;
        Ok(page.rows())
    }

    /// The statistics of the run alone, with its baseline.
    ///
    /// # Errors
    /// The host's error response.
    pub async fn own_statistics(
        &self,
        client: &Client,
        baseline: Option<&Self>,
    ) -> Result<Statistics, Failure> {
        let in_memory = |it: &Self| match &it.tasks {
            Tasks::Held(tasks) => Some(it.totals.with_tasks(tasks.iter().cloned())),
            Tasks::Paged => None,
        };
        let before = baseline.map(in_memory);
        match (in_memory(self), before) {
            (Some(run), None) => Ok(statistics(&Evidence::of(&run), None, None)),
            (Some(run), Some(Some(before))) => {
                let before = EvidenceRun::of(&before);
                Ok(statistics(&Evidence::of(&run), Some(&before), None))
            }
            _ => {
                let run = &self.totals.run_id;
                repeated(client, &format!("{RUNS}/{run}/statistics?pool=none")).await
            }
        }
    }

    /// The changes since another run, found by reading a page of both runs in turn.
    ///
    /// # Errors
    /// The host's error response.
    pub async fn flips(&self, client: &Client, baseline: &Self) -> Result<Flips, Failure> {
        let mut pairs = OutcomePairs::default();
        let (mut now, mut before) = (self.pages(client), baseline.pages(client));
        loop {
            let (now, before) = (now.next().await?, before.next().await?);
            if now.is_none() && before.is_none() {
                break;
            }
            let (now, before) = (now.unwrap_or_default(), before.unwrap_or_default());
            now.iter().for_each(|(_, task)| pairs.add_now(task));
            before.iter().for_each(|(_, task)| pairs.add_before(task));
        }
        Ok(pairs.flips(&self.totals, &baseline.totals))
    }

    /// The figures over all tasks.
    ///
    /// # Errors
    /// The host's error response.
    pub async fn figures(&self, client: &Client) -> Result<TaskFigures, Failure> {
        let mut sums = FigureSums::default();
        let mut pages = self.pages(client);
        while let Some(page) = pages.next().await? {
            page.iter()
                .for_each(|(numbers, task)| sums.add(numbers, task));
        }
        let mut pages = self.pages(client);
        while let Some(page) = pages.next().await? {
            page.iter()
                .for_each(|(numbers, _)| sums.add_latency(numbers));
        }
        Ok(sums.figures())
    }

    /// Writes a document while the tasks are read.
    ///
    /// # Errors
    /// The host's error response, or the output cannot be written.
    pub async fn write(
        &self,
        client: &Client,
        document: &mut dyn RunDocument,
        out: &mut Out<'_>,
    ) -> Result<(), NotWritten> {
        document.begin(out)?;
        loop {
            let mut pages = self.pages(client);
            while let Some(page) = pages.next().await? {
                document.add(&page, out)?;
            }
            if document.end(out)? == Next::Done {
                return Ok(out.flush()?);
            }
        }
    }
}

/// The tasks of a report, page by page.
pub struct Pages<'a> {
    client: &'a Client,
    report: &'a RunReport,
    after: Option<TaskId>,
    is_done: bool,
}

impl<'a> Pages<'a> {
    /// The next tasks; `None` after the last ones.
    ///
    /// # Errors
    /// The host's error response.
    pub async fn next(&mut self) -> Result<Option<Cow<'a, [TaskRow]>>, Failure> {
        if self.is_done {
            return Ok(None);
        }
        if let Tasks::Held(tasks) = &self.report.tasks {
            self.is_done = true;
            return Ok(Some(Cow::Borrowed(tasks)));
        }
        let run = self.report.totals.run_id.as_str();
        let mut page = ResultsPage::after(self.client, run, self.after.as_ref()).await?;
        self.after = page.next_cursor.take();
        self.is_done = self.after.is_none();
        Ok(Some(Cow::Owned(page.rows())))
    }
}
