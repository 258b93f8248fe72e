//! Runs that are pooled, and the statistics of their scores.

use crate::rules::eval::attempts::Attempt;
use crate::rules::eval::report::additions::Additions;
use crate::rules::eval::report::{Verdict, totals_of};
use crate::rules::eval::statistics::ended::EndedResults;
use crate::rules::eval::statistics::{Evidence, EvidenceRun, Statistics, statistics};
use crate::rules::run::fold::RunState;
use crate::rules::run::record::{EvalSpec, RunRecord};
use crate::rules::run::trials::counting_trials;
use crate::service::projections::computing::computed;
use crate::service::projections::ended;
use crate::service::projections::stored::LONG_LOG;
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_packs::rules::build::local::is_local;

/// Maximum number of runs read per experiment: a hundred trials, each with some retries.
const MOST_TRIALS: u32 = 1000;

const TOO_MANY_ATTEMPTS: &str = "the agent has too many eval runs of this suite and model to \
    pool; the interval covers this run alone";

impl Runs {
    /// A run as evidence, also while it is in progress.
    ///
    /// # Errors
    /// `not_found`.
    pub(in crate::service::runs) async fn evidence_run(
        &self,
        record: &RunRecord,
        eval: &EvalSpec,
    ) -> Result<EvidenceRun, Problem> {
        let run = &record.run_id;
        let additions = self.additions(&record.tenant, run, Some(eval)).await?;
        let mut found = match self.projections.ended_results(run, &eval.tasks).await {
            Some(ended) => self.evidence_from(record, eval, &ended.state, &ended.results),
            None => self.evidence_of_state(record, eval, |_| ()).await?.0,
        };
        found.add(&additions);
        Ok(found)
    }

    /// As [`evidence_run`](Self::evidence_run), with what people added, and what `read` returns of the
    /// same state of the run, which has its tasks.
    pub(super) async fn evidence_with<T>(
        &self,
        record: &RunRecord,
        eval: &EvalSpec,
        read: impl FnOnce(&RunState) -> T,
    ) -> Result<(EvidenceRun, Additions, T), Problem> {
        let (tenant, run) = (&record.tenant, &record.run_id);
        let additions = self.additions(tenant, run, Some(eval)).await?;
        let (mut found, of_state) = self.evidence_of_state(record, eval, read).await?;
        found.add(&additions);
        Ok((found, additions, of_state))
    }

    /// Evidence from the state of a run, and what `read` returns of it. The results of an ended run are
    /// stored for the next reader.
    async fn evidence_of_state<T>(
        &self,
        record: &RunRecord,
        eval: &EvalSpec,
        read: impl FnOnce(&RunState) -> T,
    ) -> Result<(EvidenceRun, T), Problem> {
        let run = &record.run_id;
        let thresholds = self.thresholds(eval).await?;
        let (found, of_state, to_store) = self
            .with_state(run, |state| {
                let results = EndedResults::of(eval, &thresholds, &state.eval);
                let is_stored = state.status.is_terminal()
                    && state.sequence >= LONG_LOG
                    && self.library.kinds.of(eval).is_none();
                let found = self.evidence_from(record, eval, state, &results);
                let to_store = is_stored.then_some((state.sequence, results));
                (found, read(state), to_store)
            })
            .await?;
        if let Some((at, results)) = to_store {
            ended::store(&self.store, run, at, results).await;
        }
        Ok((found, of_state))
    }

    /// Evidence from the results of a run. The state needs no facts of tasks.
    fn evidence_from(
        &self,
        record: &RunRecord,
        eval: &EvalSpec,
        state: &RunState,
        found: &EndedResults,
    ) -> EvidenceRun {
        let (thresholds, tally) = (&found.thresholds, &found.tally);
        EvidenceRun {
            report: totals_of(self.library.kinds, record, eval, thresholds, state, tally),
            results: found.results.clone(),
        }
    }

    /// A run with the other trials of its experiment, if it is a trial.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn experiment(&self, tenant: &TenantId, run: &RunId) -> Result<Evidence, Problem> {
        let (record, eval) = self.eval_record(tenant, run).await?;
        let named = self.evidence_run(&record, &eval).await?;
        self.experiment_of(&record, &eval, named).await
    }

    async fn experiment_of(
        &self,
        record: &RunRecord,
        eval: &EvalSpec,
        named: EvidenceRun,
    ) -> Result<Evidence, Problem> {
        let mut evidence = Evidence::of_run(named);
        let Some(trial) = &eval.trial else {
            return Ok(evidence);
        };
        let tenant = &record.tenant;
        let created = store::runs::trials(&self.store, tenant, &trial.experiment_id, MOST_TRIALS)
            .await
            .map_err(|cause| internal(&cause))?;
        let counting = counting_trials(eval, &created);
        evidence.missing = counting.missing;
        let mut counted = false;
        for other in counting.runs {
            if other.run_id == record.run_id {
                counted = true;
            } else if let Some(run) = self.evidence_if_kept(tenant, &other.run_id).await? {
                evidence.further.push(run);
            } else {
                evidence.missing += 1;
            }
        }
        // A run that does not count, because another one has its trial number, is not evidence.
        evidence.missing += usize::from(!counted);
        Ok(evidence)
    }

    /// Another run as evidence; `None` if that run was deleted.
    async fn evidence_if_kept(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<Option<EvidenceRun>, Problem> {
        let read = async {
            let (record, eval) = self.eval_record(tenant, run).await?;
            self.evidence_run(&record, &eval).await
        };
        match read.await {
            Err(problem) if problem.code == ErrorCode::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// A run with the other trials of its experiment, and every attempt of the same agent, suite
    /// and model.
    ///
    /// # Errors
    /// `not_found`; `conflict` for more attempts than can be pooled.
    pub async fn pooled_evidence(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<Evidence, Problem> {
        let (record, eval) = self.eval_record(tenant, run).await?;
        Ok(Evidence {
            attempts: self.attempts_of(&record, &eval).await?,
            ..self.experiment(tenant, run).await?
        })
    }

    /// The statistics of a finished run's scores.
    ///
    /// # Errors
    /// `not_found`; `conflict` before the run has ended, and for more attempts than can be pooled.
    pub async fn statistics(&self, tenant: &TenantId, run: &RunId) -> Result<Statistics, Problem> {
        let (record, eval) = self.eval_record(tenant, run).await?;
        let named = self.evidence_run(&record, &eval).await?;
        if named.report.verdict == Verdict::Pending {
            return Err(Problem::new(
                ErrorCode::Conflict,
                "the eval run has not ended; read its statistics once it has",
            ));
        }
        let attempts = self.pooled_attempts(&record, &eval).await?;
        let (_, found) = self
            .with_statistics(&record, &eval, named, attempts)
            .await?;
        Ok(found)
    }

    /// The run with the statistics of its scores: of those so far, while the run is in progress. If
    /// there are more attempts than can be pooled, the run stands for itself, and a note says so.
    ///
    /// # Errors
    /// The store failed.
    pub(in crate::service::runs) async fn assessed(
        &self,
        record: &RunRecord,
        eval: &EvalSpec,
        named: EvidenceRun,
    ) -> Result<(EvidenceRun, Statistics), Problem> {
        if named.report.verdict == Verdict::Pending {
            return alone(eval, named).await;
        }
        match self.pooled_attempts(record, eval).await {
            Ok(attempts) => self.with_statistics(record, eval, named, attempts).await,
            Err(problem) if problem.code == ErrorCode::Conflict => {
                let (mut named, found) = alone(eval, named).await?;
                named.report.notes.push(TOO_MANY_ATTEMPTS.to_owned());
                Ok((named, found))
            }
            Err(problem) => Err(problem),
        }
    }

    /// The attempts that statistics pool.
    async fn pooled_attempts(
        &self,
        record: &RunRecord,
        eval: &EvalSpec,
    ) -> Result<Vec<Attempt>, Problem> {
        // Local work is changed between its runs, also where its version stays the same because a
        // command answers. So each run stands for itself; no gate relies on this.
        match is_local(&eval.agent_version) {
            true => Ok(Vec::new()),
            false => self.attempts_of(record, eval).await,
        }
    }

    async fn with_statistics(
        &self,
        record: &RunRecord,
        eval: &EvalSpec,
        named: EvidenceRun,
        attempts: Vec<Attempt>,
    ) -> Result<(EvidenceRun, Statistics), Problem> {
        let evidence = Evidence {
            attempts,
            ..self.experiment_of(record, eval, named).await?
        };
        let baseline = self.baseline_of(&record.tenant, &evidence.run).await?;
        statistics_of(eval, evidence, baseline).await
    }

    /// The baseline that the run names; `None` if it was deleted.
    async fn baseline_of(
        &self,
        tenant: &TenantId,
        run: &EvidenceRun,
    ) -> Result<Option<EvidenceRun>, Problem> {
        match &run.report.summary.regression {
            Some(regression) => {
                let baseline = &regression.baseline_run_id;
                self.evidence_if_kept(tenant, baseline).await
            }
            None => Ok(None),
        }
    }

    /// The statistics of the scores of this run alone, without other trials and attempts, and with
    /// its baseline; also while it is in progress.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn own_statistics(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<Statistics, Problem> {
        let (record, eval) = self.eval_record(tenant, run).await?;
        let named = self.evidence_run(&record, &eval).await?;
        let baseline = self.baseline_of(tenant, &named).await?;
        let evidence = Evidence::of_run(named);
        let (_, found) = statistics_of(&eval, evidence, baseline).await?;
        Ok(found)
    }
}

async fn alone(eval: &EvalSpec, named: EvidenceRun) -> Result<(EvidenceRun, Statistics), Problem> {
    statistics_of(eval, Evidence::of_run(named), None).await
}

/// The named run of the evidence and the statistics.
async fn statistics_of(
    eval: &EvalSpec,
    evidence: Evidence,
    baseline: Option<EvidenceRun>,
) -> Result<(EvidenceRun, Statistics), Problem> {
    let runs = 1 + evidence.further.len() + evidence.attempts.len();
    let computed = computed(eval.tasks.len().saturating_mul(runs), move || {
        let found = statistics(&evidence, baseline.as_ref(), None);
        (evidence.run, found)
    });
    computed.await.map_err(|cause| internal(&cause))
}
