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
use crate::cli::saved::{Items, SavedList, SavedResponse};
use crate::render::document::{Next, Out, RunDocument, TaskRow};
use crate::render::flips::{Flips, OutcomePairs};
use crate::render::words::rows;
use crate::rules::eval::report::{
    EvalReport, RunTotals, ScoredTask, TaskCounter, TaskOutcome, TaskReport, TaskTotals, Verdict,
};
use crate::rules::eval::statistics::{
    CollectedResults, Evidence, FigureSums, ListedRun, Statistics, TaskFigures, statistics,
};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::exit::Failure;
use touchstone_kit::error::ErrorCode;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::summary::TaskSummary;

/// Number of tasks in a request. Smaller runs are kept in memory.
const PAGE: usize = 1000;

/// Waits in milliseconds before a failed request is repeated.
const WAITS_MS: [u64; 5] = [250, 500, 1000, 2000, 4000];

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
    /// Those of one moment, while the run is in progress.
    Saved(SavedTasks),
}

#[derive(Clone, Debug)]
struct SavedTasks {
    numbers: SavedList<TaskSummary>,
    tasks: SavedList<TaskReport>,
}

/// The report of a run whose tasks are not kept in memory.
type SavedReport = EvalReport<SavedList<TaskReport>, SavedList<TaskSummary>>;

impl SavedTasks {
    fn rows(&self) -> SavedRows {
        self.numbers.items().zip(self.tasks.items())
    }

    fn totals(&self) -> io::Result<TaskTotals> {
        let mut counter = TaskCounter::default();
        for (numbers, task) in self.rows() {
            counter.add_numbers(&numbers?);
            counter.add(&task?);
        }
        Ok(counter.totals())
    }
}

type SavedRows = std::iter::Zip<Items<TaskSummary>, Items<TaskReport>>;

/// The next rows, at most `most`.
fn next_rows(rows: &mut SavedRows, most: usize) -> io::Result<Vec<TaskRow>> {
    let rows = rows.take(most);
    rows.map(|(numbers, task)| Ok((numbers?, task?))).collect()
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
    /// Reads the report of a run. The tasks of small runs are kept in memory, and those of large runs in
    /// progress in temporary files: the next request would return others, and the totals must agree with
    /// them.
    ///
    /// # Errors
    /// The host's error response; no temporary file can be written.
    pub async fn fetch(client: &Client, run: &str) -> Result<Self, Failure> {
        Self::fetch_holding(client, run, PAGE).await
    }

    /// The same with at most `most` tasks of a run in progress in memory.
    async fn fetch_holding(client: &Client, run: &str, most: usize) -> Result<Self, Failure> {
        let report: EvalReport = client
            .get(&format!("{RUNS}/{run}/report?tasks=none"))
            .await?;
        let totals = report.totals();
        if report.task_totals.is_none() {
            // A host of an earlier version answers with the whole report.
            return Ok(Self::held(&report));
        }
        if totals.verdict == Verdict::Pending {
            return Self::fetch_moment(client, run, most).await;
        }
        let page = ResultsPage::after(client, run, None).await?;
        if page.next_cursor.is_some() {
            let tasks = Tasks::Paged;
            return Ok(Self { totals, tasks });
        }
        Ok(Self::held(&totals.with_tasks(page.rows())))
    }

    /// The report of a run in progress, in one response.
    async fn fetch_moment(client: &Client, run: &str, most: usize) -> Result<Self, Failure> {
        let mut response = SavedResponse::get(client, &format!("{RUNS}/{run}/report")).await?;
        let report: SavedReport = response.parse()?;
        let tasks = SavedTasks {
            numbers: report.summary.tasks.clone(),
            tasks: report.tasks.clone(),
        };
        let counted = tasks.totals().map_err(|cause| draft_not_written(&cause))?;
        let totals = report.without_tasks(counted);
        if counted.judged() + counted.unjudged > most {
            let tasks = Tasks::Saved(tasks);
            return Ok(Self { totals, tasks });
        }
        let rows = next_rows(&mut tasks.rows(), most);
        Ok(Self {
            totals,
            tasks: Tasks::Held(rows.map_err(|cause| draft_not_written(&cause))?),
        })
    }

    fn held(report: &EvalReport) -> Self {
        let rows = rows(report).map(|(numbers, task)| (numbers.clone(), task.clone()));
        Self {
            totals: report.totals(),
            tasks: Tasks::Held(rows.collect()),
        }
    }

    /// The results of all tasks, without their documents.
    ///
    /// # Errors
    /// The host's error response.
    pub async fn listed(&self, client: &Client) -> Result<ListedRun, Failure> {
        let mut tasks = CollectedResults::default();
        let mut pages = self.pages(client);
        while let Some(page) = pages.next().await? {
            page.iter()
                .for_each(|(numbers, task)| tasks.add(numbers, task));
        }
        Ok(ListedRun::collected(self.totals.clone(), tasks))
    }

    /// The tasks in suite order.
    pub const fn pages<'a>(&'a self, client: &'a Client) -> Pages<'a> {
        Pages {
            client,
            report: self,
            after: None,
            saved: None,
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
        if !matches!(self.tasks, Tasks::Paged) {
            let mut first = Vec::new();
            let mut pages = self.pages(client);
            while let Some(page) = pages.next().await? {
                let of = page.iter().filter(|(_, task)| task.outcome == outcome);
                first.extend(of.take(most - first.len()).cloned());
            }
            return Ok(first);
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
        let run = match &self.tasks {
            // The host has further tasks by now.
            Tasks::Held(_) | Tasks::Saved(_) => self.listed(client).await?.run,
            Tasks::Paged => return self.fetch_own_statistics(client).await,
        };
        let before = match baseline {
            None => None,
            Some(it) => Some(it.listed(client).await?.run),
        };
        Ok(statistics(&Evidence::of_run(run), before.as_ref(), None))
    }

    async fn fetch_own_statistics(&self, client: &Client) -> Result<Statistics, Failure> {
        let run = &self.totals.run_id;
        repeated(client, &format!("{RUNS}/{run}/statistics?pool=none")).await
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
    saved: Option<SavedRows>,
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
        match &self.report.tasks {
            Tasks::Held(tasks) => {
                self.is_done = true;
                return Ok(Some(Cow::Borrowed(tasks)));
            }
            Tasks::Saved(tasks) => {
                let rows = self.saved.get_or_insert_with(|| tasks.rows());
                let page = next_rows(rows, PAGE).map_err(|cause| draft_not_written(&cause))?;
                self.is_done = page.len() < PAGE;
                return Ok(Some(Cow::Owned(page)));
            }
            Tasks::Paged => {}
        }
        let run = self.report.totals.run_id.as_str();
        let mut page = ResultsPage::after(self.client, run, self.after.as_ref()).await?;
        self.after = page.next_cursor.take();
        self.is_done = self.after.is_none();
        Ok(Some(Cow::Owned(page.rows())))
    }
}
