//! Comparison of two runs, or of the experiments they belong to.

use std::collections::BTreeMap;

use crate::rules::eval::comparison::comparable::{TaskDigester, TaskDigests, decide_alike};
use crate::rules::eval::comparison::{ComparisonSide, RunComparison, compare};
use crate::rules::eval::report::Verdict;
use crate::rules::run::record::EvalSpec;
use crate::service::projections::computing::computed;
use crate::service::runs::{Runs, unreadable_suite};
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_openwop::suite::Thresholds;

impl Runs {
    /// What makes the results of the run's tasks comparable with those of another host.
    ///
    /// # Errors
    /// The suite cannot be read.
    pub async fn task_digests(
        &self,
        eval: &EvalSpec,
    ) -> Result<BTreeMap<TaskId, TaskDigests>, Problem> {
        let suite = self.suite_index(eval).await?;
        let scoring = self.scoring_of(eval).await?;
        let mut digester = TaskDigester::new(eval, scoring.as_deref());
        for number in 0..suite.chunk_count() {
            let tasks = self.library.chunk(&suite, number).await;
            digester.add(&tasks.map_err(unreadable_suite)?);
        }
        Ok(digester.finish())
    }

    /// The changes from `baseline` to `candidate`, task by task.
    ///
    /// # Errors
    /// `not_found` if either does not exist; `conflict` before both have ended; `validation_error`
    /// if they have no task in common.
    pub async fn comparison(
        &self,
        tenant: &TenantId,
        candidate: &RunId,
        baseline: &RunId,
    ) -> Result<RunComparison, Problem> {
        let (_, now) = self.eval_record(tenant, candidate).await?;
        let (_, before) = self.eval_record(tenant, baseline).await?;
        let now_runs = self.experiment(tenant, candidate).await?;
        let before_runs = self.experiment(tenant, baseline).await?;
        for runs in [&now_runs, &before_runs] {
            if let Some(run) = runs.reports().find(|run| run.verdict == Verdict::Pending) {
                return Err(Problem::new(
                    ErrorCode::Conflict,
                    format!(
                        "eval run `{}` has not ended; compare the runs once both have",
                        run.run_id
                    ),
                )
                .with("runId", run.run_id.as_str()));
            }
        }
        // The suite is read only if tasks may differ.
        let digests = match decide_alike(&before, &now) {
            true => None,
            false => Some((
                self.task_digests(&before).await?,
                self.task_digests(&now).await?,
            )),
        };
        let [was, is] = match before.suite_digest == now.suite_digest {
            true => [Thresholds::default(); 2],
            false => [
                self.thresholds(&before).await?,
                self.thresholds(&now).await?,
            ],
        };
        let runs = now_runs.trials().len() + before_runs.trials().len();
        let compared = computed(now.tasks.len().saturating_mul(runs), move || {
            compare(
                ComparisonSide {
                    evidence: &before_runs,
                    spec: &before,
                    thresholds: was,
                    digests: digests.as_ref().map(|(before, _)| before),
                },
                ComparisonSide {
                    evidence: &now_runs,
                    spec: &now,
                    thresholds: is,
                    digests: digests.as_ref().map(|(_, now)| now),
                },
            )
        });
        let compared = compared.await.map_err(|cause| internal(&cause))?;
        compared.map_err(|cause| Problem::validation("baseline", cause.to_string()))
    }
}
