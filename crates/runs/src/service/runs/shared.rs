//! The report of a run with its statistics, built once and shared by all its readers.
//!
//! The statistics of 5,000 tasks take longer to build than a page takes to show. So they are kept until
//! something that they depend on changes: the run's log, its annotations and tags, declarations that runs
//! are void, the calibration of its judge, and the other runs that count as attempts.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use tokio::sync::Mutex;

use crate::rules::eval::comparison::{ExcludedTask, RunComparison, TaskChange};
use crate::rules::eval::report::RunTotals;
use crate::rules::eval::rubric::calibration::Calibration;
use crate::rules::eval::statistics::decision::account_for_chance;
use crate::rules::eval::statistics::{Statistics, TaskFigures};
use crate::rules::run::record::EvalSpec;
use crate::service::runs::Runs;
use crate::store;
use crate::store::attempts::AttemptCounts;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TenantId};

/// Size of the cache of comparisons in bytes, estimated.
const CACHED_BYTES: u64 = 64 * 1024 * 1024;
/// The same for reports.
const TOTALS_BYTES: u64 = 16 * 1024 * 1024;
/// Estimated size of a report, or of a comparison without tasks.
const REPORT_BYTES: usize = 16 * 1024;
/// Estimated size of what the statistics have of each pooled run.
const RUN_BYTES: usize = 1024;
/// Estimated size of the reason of a changed task.
const REASON_BYTES: usize = 64;
/// A baseline that was deleted may be part of the statistics for so long.
const HOLDS: Duration = Duration::from_secs(300);
/// How long statistics are kept while another attempt is in progress.
const UNSETTLED: Duration = Duration::from_secs(5);

/// The report of a run, whose verdict accounts for chance, and the statistics of its scores.
pub struct Assessed {
    pub report: RunTotals,
    pub statistics: Statistics,
    pub figures: TaskFigures,
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
type Entry = Arc<(Revision, Arc<Assessed>)>;
type PairEntry = Arc<(PairRevision, Arc<RunComparison>)>;
/// A run, or a run with its baseline.
type Turn = (RunId, Option<RunId>);

/// Reports and comparisons in memory.
pub struct Reports {
    totals: Cache<RunId, Entry>,
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
        let weight_of_totals = |_: &RunId, entry: &Entry| {
            let runs = entry.1.statistics.run_ids.len();
            u32::try_from(REPORT_BYTES + RUN_BYTES * runs).unwrap_or(u32::MAX)
        };
        let weight_of_pair = |_: &(RunId, RunId), entry: &PairEntry| {
            let changed = (size_of::<TaskChange>() + REASON_BYTES) * entry.1.changes.len();
            let left_out = size_of::<ExcludedTask>() * entry.1.left_out.len();
            let unchanged = entry.1.unchanged.bytes();
            let bytes = REPORT_BYTES + changed + left_out + unchanged;
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        Self {
            totals: Cache::builder()
                .max_capacity(TOTALS_BYTES)
                .weigher(weight_of_totals)
                .time_to_live(HOLDS)
                .build(),
            pairs: Cache::builder()
                .max_capacity(CACHED_BYTES)
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
    /// The report of a run without its tasks, and its statistics, shared with other readers, with the
    /// verdict that accounts for chance. If there are more attempts than can be pooled, the statistics are
    /// those of the run alone, and a note says so.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn shared_totals(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<Arc<Assessed>, Problem> {
        // The cache does not know tenants.
        let (record, eval) = self.eval_record(tenant, run).await?;
        let turn = self.reports.turn(run, None).await;
        let _turn = turn.lock().await;
        // Read before the report, so that a change in between is noticed by the next reader.
        let revision = self.revision(tenant, run, &eval).await?;
        let kept = self.reports.totals.get(run).await;
        if let Some(entry) = kept.filter(|entry| entry.0 == revision) {
            return Ok(entry.1.clone());
        }
        let named = self.evidence_run(&record, &eval).await?;
        let (mut named, statistics) = self.assessed(&record, &eval, named).await?;
        account_for_chance(self.library.kinds, &mut named.report, &statistics);
        let found = Arc::new(Assessed {
            figures: named.figures().clone(),
            report: named.report,
            statistics,
        });
        let entry = Arc::new((revision, found.clone()));
        self.reports.totals.insert(run.clone(), entry).await;
        Ok(found)
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
        let (sequence, _) = self.end_of(run).await?;
        let (agent, version) = (&eval.agent_id, &eval.agent_version);
        let counts = store::attempts::counts(&self.store, tenant, agent, version).await;
        Ok((sequence, counts.map_err(|cause| internal(&cause))?))
    }

    /// The sequence of the last event, and whether the run has ended.
    async fn end_of(&self, run: &RunId) -> Result<(u64, bool), Problem> {
        if let Some(sequence) = self.projections.ended_at(run).await {
            return Ok((sequence, true));
        }
        self.with_state(run, |state| (state.sequence, state.status.is_terminal()))
            .await
    }

    async fn revision(
        &self,
        tenant: &TenantId,
        run: &RunId,
        eval: &EvalSpec,
    ) -> Result<Revision, Problem> {
        let (sequence, has_ended) = self.end_of(run).await?;
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
