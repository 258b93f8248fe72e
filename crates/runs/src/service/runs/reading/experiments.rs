//! Runs that are pooled, and the statistics of their scores.

use crate::rules::eval::attempts::Attempt;
use crate::rules::eval::report::{EvalReport, Verdict};
use crate::rules::eval::statistics::{Evidence, Statistics, statistics};
use crate::rules::run::trials::counting_trials;
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_packs::rules::build::local::is_local;

/// A run with the other trials of its experiment.
pub struct Experiment {
    /// The named run.
    pub run: EvalReport,
    further: Vec<EvalReport>,
    missing: usize,
    attempts: Vec<Attempt>,
}

impl Experiment {
    /// The pooled evidence.
    pub fn evidence(&self) -> Evidence<'_> {
        Evidence {
            run: &self.run,
            further: &self.further,
            missing: self.missing,
            attempts: &self.attempts,
        }
    }
}

/// Maximum number of runs read per experiment: a hundred trials, each with some retries.
const MOST_TRIALS: u32 = 1000;

impl Runs {
    /// A run with the other trials of its experiment, if it is a trial.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn experiment(&self, tenant: &TenantId, run: &RunId) -> Result<Experiment, Problem> {
        let named = self.report(tenant, run).await?;
        let (_, eval) = self.eval_record(tenant, run).await?;
        let Some(trial) = &eval.trial else {
            return Ok(Experiment {
                run: named,
                further: Vec::new(),
                missing: 0,
                attempts: Vec::new(),
            });
        };
        let created = store::runs::trials(&self.store, tenant, &trial.experiment_id, MOST_TRIALS)
            .await
            .map_err(|cause| internal(&cause))?;
        let counting = counting_trials(&eval, &created);
        let (mut further, mut deleted) = (Vec::new(), 0);
        let mut counted = false;
        for record in counting.runs {
            if record.run_id == *run {
                counted = true;
            } else if let Some(report) = self.report_if_kept(tenant, &record.run_id).await? {
                further.push(report);
            } else {
                deleted += 1;
            }
        }
        Ok(Experiment {
            run: named,
            further,
            // A run that does not count, because another one has its trial number, is not evidence.
            missing: counting.missing + deleted + usize::from(!counted),
            attempts: Vec::new(),
        })
    }

    /// The report of another run; `None` if that run was deleted.
    async fn report_if_kept(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<Option<EvalReport>, Problem> {
        match self.report(tenant, run).await {
            Err(problem) if problem.code == ErrorCode::NotFound => Ok(None),
            report => report.map(Some),
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
    ) -> Result<Experiment, Problem> {
        let (record, eval) = self.eval_record(tenant, run).await?;
        Ok(Experiment {
            attempts: self.attempts_of(&record, &eval).await?,
            ..self.experiment(tenant, run).await?
        })
    }

    /// The statistics of a finished run's scores.
    ///
    /// # Errors
    /// `not_found`; `conflict` before the run has ended.
    pub async fn statistics(&self, tenant: &TenantId, run: &RunId) -> Result<Statistics, Problem> {
        let (report, statistics) = self.assessed(tenant, run).await?;
        if report.verdict == Verdict::Pending {
            return Err(Problem::new(
                ErrorCode::Conflict,
                "the eval run has not ended; read its statistics once it has",
            ));
        }
        Ok(statistics)
    }

    /// The report of a run with the statistics of its scores: of those so far, while the run is in
    /// progress.
    ///
    /// # Errors
    /// `not_found`; `conflict` for more attempts than can be pooled.
    pub async fn assessed(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<(EvalReport, Statistics), Problem> {
        let (_, eval) = self.eval_record(tenant, run).await?;
        let has_ended = self.with_state(run, |state| state.status.is_terminal());
        if !has_ended.await? {
            let report = self.report(tenant, run).await?;
            let so_far = statistics(Evidence::of(&report), None, None);
            return Ok((report, so_far));
        }
        // Local work is changed between its runs, also where its version stays the same because a
        // command answers. So each run stands for itself; no gate relies on this.
        let experiment = if is_local(&eval.agent_version) {
            self.experiment(tenant, run).await?
        } else {
            self.pooled_evidence(tenant, run).await?
        };
        let report = &experiment.run;
        let baseline = match &report.summary.regression {
            Some(regression) => {
                self.report_if_kept(tenant, &regression.baseline_run_id)
                    .await?
            }
            None => None,
        };
        let found = statistics(experiment.evidence(), baseline.as_ref(), None);
        Ok((experiment.run, found))
    }
}
