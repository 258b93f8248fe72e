//! The parts of a run's page that change while the run is in progress.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::api::ConsoleApi;
use crate::page::text::count;
use crate::runs::task_page;
use crate::runs::words::{Badge, is_open, status};
use touchstone_host::render::words::duration;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_runs::render::report_page::ReportView;
use touchstone_runs::render::report_page::failures::TaskRow;
use touchstone_runs::render::words::counts;
use touchstone_runs::rules::eval::report::ScoredTask;
use touchstone_runs::rules::run::fold::RunState;
use touchstone_runs::service::runs::Assessed;

/// Number of tasks in the list of those scored last.
const LATEST: usize = 10;

/// A task and the address of its page.
pub struct Linked {
    pub href: String,
    pub row: TaskRow,
}

impl Linked {
    pub fn of(run: &RunId, result: ScoredTask) -> Self {
        let (numbers, task) = result.into_row();
        Self {
            href: task_page(run, &task.task_id),
            row: TaskRow::of(&numbers, &task),
        }
    }
}

pub struct Progress {
    pub scored: usize,
    pub all: usize,
    pub text: String,
}

/// The parts of the page that are replaced while the run is in progress.
pub struct LiveView {
    pub view: ReportView,
    pub status: Badge,
    pub is_open: bool,
    pub progress: Progress,
    /// The tasks scored last, newest first.
    pub latest: Vec<Linked>,
    /// The parts show at least the log up to here.
    pub sequence: u64,
}

/// A run with its report.
pub struct Watched {
    pub live: LiveView,
    pub assessed: Arc<Assessed>,
}

/// Values that are read from the state before the report, so that the report is never older.
struct Standing {
    sequence: u64,
    started_at: Option<Timestamp>,
    last_at: Option<Timestamp>,
    latest: Vec<TaskId>,
}

impl Standing {
    fn of(state: &RunState) -> Self {
        // Only the page of an open run shows them.
        let latest = match state.status.is_terminal() {
            true => Vec::new(),
            false => state.eval.tasks.latest_scored(LATEST),
        };
        Self {
            sequence: state.sequence,
            started_at: state.started_at,
            last_at: state.last_at,
            latest,
        }
    }
}

/// Reads a run.
///
/// # Errors
/// `not_found` for a run that is not an eval run of the tenant.
pub async fn watched(api: &ConsoleApi, tenant: &TenantId, run: &RunId) -> Result<Watched, Problem> {
    let runs = &api.runs.runs;
    let (record, eval) = runs.eval_record(tenant, run).await?;
    let standing = runs.with_sums(&record, Standing::of).await?;
    let snapshot = runs.snapshot(tenant, run).await?;
    let state = snapshot.get("status").and_then(Value::as_str);
    let state = state.unwrap_or_default().to_owned();
    let assessed = runs.shared_totals(tenant, run).await?;
    let (report, now) = (&assessed.report, api.host.clock.now());
    let view = ReportView::of(report, &assessed.figures, &assessed.statistics, now);
    let scored = counts(report).all();
    let latest = runs.some_results(tenant, run, &standing.latest).await?;
    let live = LiveView {
        view,
        status: status(&state),
        is_open: is_open(&state),
        progress: progress(scored, eval.tasks.len(), &standing),
        latest: latest.into_iter().map(|it| Linked::of(run, it)).collect(),
        sequence: standing.sequence,
    };
    Ok(Watched { live, assessed })
}

fn progress(scored: usize, all: usize, standing: &Standing) -> Progress {
    let mut text = format!("{} of {} tasks scored", count(scored), count(all));
    let elapsed = standing
        .started_at
        .zip(standing.last_at)
        .and_then(|(from, to)| Duration::try_from(to.duration_since(from)).ok());
    if let Some(left) = elapsed.and_then(|elapsed| left(elapsed, scored, all)) {
        let ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        text.push_str(&format!(", about {} left", duration(ms)));
    }
    Progress { scored, all, text }
}

/// The time that the other tasks take if they are as fast as those scored; `None` before the first
/// and when little is left.
fn left(elapsed: Duration, scored: usize, all: usize) -> Option<Duration> {
    let scored = u32::try_from(scored).ok().filter(|it| *it > 0)?;
    let to_come = u32::try_from(all).ok()?.checked_sub(scored)?;
    let left = elapsed.checked_mul(to_come)? / scored;
    (left >= Duration::from_secs(1)).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(10, 0, 10, None)]
    #[case(10, 5, 10, Some(10))]
    #[case(90, 9, 10, Some(10))]
    #[case(10, 10, 10, None)]
    #[case(10, 11, 10, None)]
    fn the_remaining_time_follows_from_the_scored_tasks(
        #[case] elapsed: u64,
        #[case] scored: usize,
        #[case] all: usize,
        #[case] expected: Option<u64>,
    ) {
        let found = left(Duration::from_secs(elapsed), scored, all);
        assert_eq!(found, expected.map(Duration::from_secs));
    }
}
