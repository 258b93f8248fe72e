//! The report of a run with its statistics, built once and shared by all its readers.
//!
//! A report of 5,000 tasks takes longer to build than a page takes to show. So it is kept until
//! something it depends on changes: the run's log, its annotations and tags, declarations that runs
//! are void, the calibration of its judge, and the other runs that count as attempts.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use tokio::sync::Mutex;

use crate::rules::eval::comparison::RunComparison;
use crate::rules::eval::report::{EvalReport, RunTotals, Verdict, totals};
use crate::rules::eval::rubric::calibration::Calibration;
use crate::rules::eval::statistics::decision::account_for_chance;
use crate::rules::eval::statistics::{
    Evidence, Statistics, judged_by_id, run_statistics, statistics,
};
use crate::rules::run::fold::RunState;
use crate::rules::run::record::{EvalSpec, RunRecord};
use crate::service::runs::Runs;
use crate::store;
use crate::store::attempts::AttemptCounts;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_packs::rules::build::local::is_local;

/// Size of the cache in bytes, estimated.
const CACHED_BYTES: u64 = 64 * 1024 * 1024;
/// Estimated size of a report without tasks, and of each task.
const REPORT_BYTES: usize = 16 * 1024;
const TASK_BYTES: usize = 1024;
/// A baseline that was deleted may be part of the statistics for so long.
const HOLDS: Duration = Duration::from_secs(300);
/// How long statistics are kept while another attempt is in progress.
const UNSETTLED: Duration = Duration::from_secs(5);

const TOO_MANY_ATTEMPTS: &str = "the agent has too many eval runs of this suite and model to \
    pool; the interval covers this run alone";

/// The report of a run, whose verdict accounts for chance, and the statistics of its scores.
pub struct Assessed<R = EvalReport> {
    pub report: R,
    pub statistics: Statistics,
}

/// Everything that a report depends on and that can change.
#[derive(Debug, PartialEq)]
struct Revision {
    /// The log up to here.
    sequence: u64,
    annotations: u64,
    tags: Vec<String>,
    calibration: Option<Calibration>,
    /// `None` while the run is in progress: then it counts alone.
    attempts: Option<AttemptCounts>,
    /// Changes every few seconds while another attempt is in progress.
    period: i64,
}

/// What the comparison of two runs depends on: the logs, and the trials of their experiments.
type PairRevision = [(u64, AttemptCounts); 2];
type Entry<R = EvalReport> = Arc<(Revision, Arc<Assessed<R>>)>;
type PairEntry = Arc<(PairRevision, Arc<RunComparison>)>;
/// A run, or a run with its baseline.
type Turn = (RunId, Option<RunId>);

/// Reports and comparisons in memory.
pub struct Reports {
    kept: Cache<RunId, Entry>,
    totals: Cache<RunId, Entry<RunTotals>>,
    pairs: Cache<(RunId, RunId), PairEntry>,
    /// Only one reader builds the report of a run.
    turns: Cache<Turn, Arc<Mutex<()>>>,
}

impl Reports {
    async fn turn(&self, run: &RunId, baseline: Option<&RunId>) -> Arc<Mutex<()>> {
        let key = (run.clone(), baseline.cloned());
        self.turns.get_with(key, async { Arc::default() }).await
    }
}

impl Default for Reports {
    fn default() -> Self {
        let weight = |_: &RunId, entry: &Entry| {
            let tasks = entry.1.report.tasks.len() + entry.1.statistics.run_ids.len();
            u32::try_from(REPORT_BYTES + TASK_BYTES * tasks).unwrap_or(u32::MAX)
        };
        let weight_of_totals = |_: &RunId, entry: &Entry<RunTotals>| {
            let runs = entry.1.statistics.run_ids.len();
            u32::try_from(REPORT_BYTES + TASK_BYTES * runs).unwrap_or(u32::MAX)
        };
        let weight_of_pair = |_: &(RunId, RunId), entry: &PairEntry| {
            let tasks = entry.1.changes.len() + entry.1.left_out.len();
            u32::try_from(REPORT_BYTES + TASK_BYTES * tasks).unwrap_or(u32::MAX)
        };
        Self {
            kept: Cache::builder()
                .max_capacity(CACHED_BYTES)
                .weigher(weight)
                .time_to_live(HOLDS)
                .build(),
            totals: Cache::builder()
                .max_capacity(CACHED_BYTES / 4)
                .weigher(weight_of_totals)
                .time_to_live(HOLDS)
                .build(),
            pairs: Cache::builder()
                .max_capacity(CACHED_BYTES / 4)
                .weigher(weight_of_pair)
                .time_to_live(HOLDS)
                .build(),
            turns: Cache::builder()
                .max_capacity(1024)
                .time_to_idle(Duration::from_secs(60))
                .build(),
        }
    }
}

impl Runs {
    /// As [`assessed`](Self::assessed), shared with other readers, with the verdict that accounts for
    /// chance. If there are more attempts than
    /// can be pooled, the statistics are those of the run alone, and a note says so.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn shared(&self, tenant: &TenantId, run: &RunId) -> Result<Arc<Assessed>, Problem> {
        // The cache does not know tenants.
        let (_, eval) = self.eval_record(tenant, run).await?;
        let turn = self.reports.turn(run, None).await;
        let _turn = turn.lock().await;
        // Read before the report, so that a change in between is noticed by the next reader.
        let revision = self.revision(tenant, run, &eval).await?;
        let kept = self.reports.kept.get(run).await;
        if let Some(entry) = kept.filter(|entry| entry.0 == revision) {
            return Ok(entry.1.clone());
        }
        let mut found = self.assessed_or_alone(tenant, run).await?;
        account_for_chance(self.library.kinds, &mut found.report, &found.statistics);
        let found = Arc::new(found);
        let entry = Arc::new((revision, found.clone()));
        self.reports.kept.insert(run.clone(), entry).await;
        Ok(found)
    }

    /// As [`shared`](Self::shared), without the tasks.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn shared_totals(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<Arc<Assessed<RunTotals>>, Problem> {
        let (record, eval) = self.eval_record(tenant, run).await?;
        let turn = self.reports.turn(run, None).await;
        let _turn = turn.lock().await;
        let revision = self.revision(tenant, run, &eval).await?;
        let kept = self.reports.totals.get(run).await;
        if let Some(entry) = kept.filter(|entry| entry.0 == revision) {
            return Ok(entry.1.clone());
        }
        let mut found = self.assessed_totals(tenant, &record, &eval).await?;
        account_for_chance(self.library.kinds, &mut found.report, &found.statistics);
        let found = Arc::new(found);
        let entry = Arc::new((revision, found.clone()));
        self.reports.totals.insert(run.clone(), entry).await;
        Ok(found)
    }

    async fn assessed_totals(
        &self,
        tenant: &TenantId,
        record: &RunRecord,
        eval: &EvalSpec,
    ) -> Result<Assessed<RunTotals>, Problem> {
        let run = &record.run_id;
        // Their statistics pair the tasks of several runs.
        if eval.trial.is_some() || eval.baseline.is_some() {
            let Assessed { report, statistics } = self.assessed_or_alone(tenant, run).await?;
            let report = report.without_tasks();
            return Ok(Assessed { report, statistics });
        }
        let thresholds = self.thresholds(eval).await?;
        let additions = self.additions(tenant, run, Some(eval)).await?;
        let annotated = additions.annotated_tasks();
        let is_scored = |state: &RunState, id: &TaskId| state.eval.scored(id).is_some();
        let (mut report, tasks, annotated) = self
            .with_state(run, |state| {
                (
                    totals(self.library.kinds, record, eval, &thresholds, state),
                    judged_by_id(eval, &state.eval),
                    annotated.iter().filter(|id| is_scored(state, id)).count(),
                )
            })
            .await?;
        additions.add_to_totals(&mut report, annotated);
        // As for a whole report: local work and a run in progress stand for themselves.
        let is_pooled = report.verdict != Verdict::Pending && !is_local(&eval.agent_version);
        let attempts = match is_pooled {
            true => match self.attempts_of(record, eval).await {
                Ok(attempts) => attempts,
                Err(problem) if problem.code == ErrorCode::Conflict => {
                    report.notes.push(TOO_MANY_ATTEMPTS.to_owned());
                    Vec::new()
                }
                Err(problem) => return Err(problem),
            },
            false => Vec::new(),
        };
        let statistics = run_statistics(&report, &tasks, &attempts);
        Ok(Assessed { report, statistics })
    }

    async fn assessed_or_alone(&self, tenant: &TenantId, run: &RunId) -> Result<Assessed, Problem> {
        match self.assessed(tenant, run).await {
            Ok((report, statistics)) => Ok(Assessed { report, statistics }),
            Err(problem) if problem.code == ErrorCode::Conflict => self.alone(tenant, run).await,
            Err(problem) => Err(problem),
        }
    }

    /// As [`comparison`](Self::comparison), shared with other readers.
    ///
    /// # Errors
    /// As for a comparison.
    pub async fn shared_comparison(
        &self,
        tenant: &TenantId,
        candidate: &RunId,
        baseline: &RunId,
    ) -> Result<Arc<RunComparison>, Problem> {
        let now = self.trials_revision(tenant, candidate).await?;
        let before = self.trials_revision(tenant, baseline).await?;
        let turn = self.reports.turn(candidate, Some(baseline)).await;
        let _turn = turn.lock().await;
        let key = (candidate.clone(), baseline.clone());
        let kept = self.reports.pairs.get(&key).await;
        if let Some(entry) = kept.filter(|entry| entry.0 == [now, before]) {
            return Ok(entry.1.clone());
        }
        let found = Arc::new(self.comparison(tenant, candidate, baseline).await?);
        let entry = Arc::new(([now, before], found.clone()));
        self.reports.pairs.insert(key, entry).await;
        Ok(found)
    }

    async fn trials_revision(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<(u64, AttemptCounts), Problem> {
        let (_, eval) = self.eval_record(tenant, run).await?;
        let sequence = self.with_state(run, |state| state.sequence).await?;
        let (agent, version) = (&eval.agent_id, &eval.agent_version);
        let counts = store::attempts::counts(&self.store, tenant, agent, version).await;
        Ok((sequence, counts.map_err(|cause| internal(&cause))?))
    }

    async fn alone(&self, tenant: &TenantId, run: &RunId) -> Result<Assessed, Problem> {
        let mut report = self.report(tenant, run).await?;
        let statistics = statistics(Evidence::of(&report), None, None);
        report.notes.push(TOO_MANY_ATTEMPTS.to_owned());
        Ok(Assessed { report, statistics })
    }

    async fn revision(
        &self,
        tenant: &TenantId,
        run: &RunId,
        eval: &EvalSpec,
    ) -> Result<Revision, Problem> {
        let state = self.with_state(run, |state| (state.sequence, state.status.is_terminal()));
        let (sequence, has_ended) = state.await?;
        let read = async {
            let counts =
                store::attempts::counts(&self.store, tenant, &eval.agent_id, &eval.agent_version);
            let counts = counts.await?;
            let calibration = match &eval.judge {
                Some(judge) => {
                    store::calibrations::find(&self.store, tenant, &judge.identity).await?
                }
                None => None,
            };
            Ok::<_, StoreError>(Revision {
                sequence,
                annotations: store::annotations::last_number(&self.store, run).await?,
                tags: store::run_list::tags_of(&self.store, run).await?,
                calibration,
                period: match has_ended && counts.all > counts.ended {
                    true => self.clock.now().as_second() / UNSETTLED.as_secs().cast_signed(),
                    false => 0,
                },
                attempts: has_ended.then_some(counts),
            })
        };
        read.await.map_err(|cause| internal(&cause))
    }
}
