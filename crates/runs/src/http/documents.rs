//! Documents about a run as response bodies, which are written while its tasks are read. So their
//! size does not depend on the memory of the host, once the run has ended.

use std::error::Error;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};

use crate::render::document::{Next, RunDocument, TaskRow, written};
use crate::rules::eval::report::{RunTotals, ScoredTask, Verdict};
use crate::rules::eval::task_list::{PageStart, TaskListQuery, TaskOrder};
use crate::service::runs::Runs;
use crate::service::runs::reading::results::MAX_RESULTS;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TaskId, TenantId};

/// The body of the document that `of` makes of the report of a run, with the verdict that accounts
/// for chance.
///
/// # Errors
/// `not_found`; the first page cannot be read; `of` fails.
pub async fn document<D: RunDocument + 'static, E: Error + Send + Sync + 'static>(
    runs: &Arc<Runs>,
    tenant: &TenantId,
    run: &RunId,
    of: impl FnOnce(&RunTotals) -> Result<D, E>,
) -> Result<Body, Problem> {
    let totals = runs.shared_totals(tenant, run).await?;
    if totals.report.verdict == Verdict::Pending {
        // Between two pages, more tasks are scored. The report in memory has those of one moment.
        let assessed = runs.shared(tenant, run).await?;
        let mut document = of(&assessed.report.totals()).map_err(|cause| internal(&cause))?;
        let text = written(&mut document, &assessed.report);
        return Ok(Body::from(text.map_err(|cause| internal(&cause))?));
    }
    let mut document = of(&totals.report).map_err(|cause| internal(&cause))?;
    let mut head = Vec::new();
    document
        .begin(&mut head)
        .map_err(|cause| internal(&cause))?;
    let mut tasks = Tasks {
        runs: runs.clone(),
        tenant: tenant.clone(),
        run: run.clone(),
        document,
        after: None,
    };
    // A failure to read the first page is an error response; later ones only break the body off.
    let mut next = tasks.write_page(&mut head).await?;
    if next == Some(Next::Again) {
        next = tasks.write_page(&mut head).await?;
    }
    if next == Some(Next::Done) {
        return Ok(Body::from(head));
    }
    let head = stream::once(async { Ok(Bytes::from(head)) });
    Ok(Body::from_stream(
        head.chain(stream::try_unfold(Some(tasks), part)),
    ))
}

/// The rest of a document.
struct Tasks<D> {
    runs: Arc<Runs>,
    tenant: TenantId,
    run: RunId,
    document: D,
    /// The last task that was read.
    after: Option<TaskId>,
}

/// The next part of the document; `None` after the last one.
async fn part<D: RunDocument>(
    tasks: Option<Tasks<D>>,
) -> Result<Option<(Bytes, Option<Tasks<D>>)>, Problem> {
    let Some(mut tasks) = tasks else {
        return Ok(None);
    };
    let mut text = Vec::new();
    let next = tasks.write_page(&mut text).await?;
    let rest = (next != Some(Next::Done)).then_some(tasks);
    Ok(Some((text.into(), rest)))
}

impl<D: RunDocument> Tasks<D> {
    /// Writes one page; after the last one, the end, and returns what the document needs.
    async fn write_page(&mut self, out: &mut Vec<u8>) -> Result<Option<Next>, Problem> {
        let query = TaskListQuery {
            name: String::new(),
            outcome: None,
            order: TaskOrder::Suite,
            start: self.after.take().map_or(PageStart::At(0), PageStart::After),
            limit: usize::try_from(MAX_RESULTS).unwrap_or(usize::MAX),
        };
        let page = self.runs.results(&self.tenant, &self.run, &query).await?;
        let rows: Vec<TaskRow> = page.results.into_iter().map(ScoredTask::into_row).collect();
        let mut write = || {
            self.document.add(&rows, out)?;
            match page.next_cursor {
                Some(_) => Ok(None),
                None => self.document.end(out).map(Some),
            }
        };
        let next = write().map_err(|cause: std::io::Error| internal(&cause))?;
        self.after = page.next_cursor;
        Ok(next)
    }
}
