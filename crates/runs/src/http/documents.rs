//! Documents about a run as response bodies, which are written while its tasks are read. So their
//! size does not depend on the memory of the host. While the run is in progress, the host keeps the
//! facts of its tasks at that moment.

use std::error::Error;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};

use crate::render::document::{Next, RunDocument, TaskRow};
use crate::rules::eval::report::{RunTotals, ScoredTask, Verdict};
use crate::rules::eval::task_list::{PageStart, TaskListQuery, TaskOrder};
use crate::service::runs::Runs;
use crate::service::runs::reading::moment::RunMoment;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TaskId, TenantId};

/// Tasks of a part of the body.
const PAGE: usize = 1000;

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
    let (document, source) = if totals.report.verdict == Verdict::Pending {
        // Between two pages, more tasks are scored.
        let moment = runs.moment(tenant, run).await?;
        let document = of(&moment.totals);
        let moment = Box::new(moment);
        (document, Source::Moment { moment, from: 0 })
    } else {
        let source = Source::Ended {
            runs: runs.clone(),
            tenant: tenant.clone(),
            run: run.clone(),
            after: None,
        };
        (of(&totals.report), source)
    };
    let mut document = document.map_err(|cause| internal(&cause))?;
    let mut head = Vec::new();
    document
        .begin(&mut head)
        .map_err(|cause| internal(&cause))?;
    let mut tasks = Tasks { document, source };
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
    document: D,
    source: Source,
}

/// Where the tasks come from.
enum Source {
    /// A run that has ended. The last task that was read is `after`.
    Ended {
        runs: Arc<Runs>,
        tenant: TenantId,
        run: RunId,
        after: Option<TaskId>,
    },
    /// A run in progress. The next task has the place `from` in the suite.
    Moment { moment: Box<RunMoment>, from: usize },
}

impl Source {
    /// The next tasks, and whether others follow. After the last ones, it starts again.
    async fn page(&mut self) -> Result<(Vec<TaskRow>, bool), Problem> {
        match self {
            Self::Ended {
                runs,
                tenant,
                run,
                after,
            } => {
                let query = TaskListQuery {
                    name: String::new(),
                    outcome: None,
                    order: TaskOrder::Suite,
                    start: after.take().map_or(PageStart::At(0), PageStart::After),
                    limit: PAGE,
                };
                let page = runs.results(tenant, run, &query).await?;
                *after = page.next_cursor;
                let rows = page.results.into_iter().map(ScoredTask::into_row);
                Ok((rows.collect(), after.is_some()))
            }
            Self::Moment { moment, from } => {
                let rows = moment.rows(*from, PAGE);
                *from = rows.as_ref().map_or(0, |_| *from + PAGE);
                let has_more = rows.is_some();
                Ok((rows.unwrap_or_default(), has_more))
            }
        }
    }
}

/// The next part of the document; `None` after the last one.
async fn part<D: RunDocument>(
    tasks: Option<Tasks<D>>,
) -> Result<Option<(Bytes, Option<Tasks<D>>)>, Problem> {
    let Some(mut tasks) = tasks else {
        return Ok(None);
    };
    let mut text = Vec::new();
    let mut next = tasks.write_page(&mut text).await?;
    while text.is_empty() && next != Some(Next::Done) {
        next = tasks.write_page(&mut text).await?;
    }
    let rest = (next != Some(Next::Done)).then_some(tasks);
    Ok(Some((text.into(), rest)))
}

impl<D: RunDocument> Tasks<D> {
    /// Writes one page; after the last one, the end, and returns what the document needs.
    async fn write_page(&mut self, out: &mut Vec<u8>) -> Result<Option<Next>, Problem> {
        let (rows, has_more) = self.source.page().await?;
        let mut write = || {
            self.document.add(&rows, out)?;
            match has_more {
                true => Ok(None),
                false => self.document.end(out).map(Some),
            }
        };
        write().map_err(|cause: std::io::Error| internal(&cause))
    }
}
