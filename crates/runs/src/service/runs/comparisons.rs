//! Comparison of two runs, or of the experiments they belong to.

use crate::rules::eval::comparison::{ComparisonSide, RunComparison, compare};
use crate::rules::eval::report::Verdict;
use crate::service::runs::Runs;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};

impl Runs {
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
        let now_suite = self.suite_of(&now).await?;
        let before_suite = self.suite_of(&before).await?;
        let now_runs = self.experiment(tenant, candidate).await?;
        let before_runs = self.experiment(tenant, baseline).await?;
        for runs in [&now_runs, &before_runs] {
            let trials = runs.evidence().trials();
            if let Some(run) = trials.iter().find(|run| run.verdict == Verdict::Pending) {
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
        let side = |runs, spec, suite| ComparisonSide {
            evidence: runs,
            spec,
            suite,
        };
        compare(
            side(before_runs.evidence(), &before, &before_suite),
            side(now_runs.evidence(), &now, &now_suite),
        )
        .map_err(|cause| Problem::validation("baseline", cause.to_string()))
    }
}
