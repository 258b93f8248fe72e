//! Views of a run, folded from its log.

use std::sync::Arc;

use serde_json::Value;

use crate::rules::eval::report::additions::{AddedAnnotation, Additions};
use crate::rules::eval::report::{EvalReport, report};
use crate::rules::eval::scoring::summary;
use crate::rules::run::fold::RunState;
use crate::rules::run::record::EvalSpec;
use crate::rules::run::snapshot::snapshot;
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::summary::EvalSummary;

impl Runs {
    /// The run's snapshot.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn snapshot(&self, tenant: &TenantId, run: &RunId) -> Result<Value, Problem> {
        let record = self.record(tenant, run).await?;
        let cancelling = self.cancelling(run).await?;
        let document = self
            .with_state(run, |state| {
                serde_json::to_value(snapshot(self.library.kinds, &record, state, cancelling))
            })
            .await?;
        document.map_err(|cause| internal(&cause))
    }

    /// The run's `EvalSummary`.
    ///
    /// # Errors
    /// `not_found`; `conflict` before the run has ended.
    pub async fn summary(&self, tenant: &TenantId, run: &RunId) -> Result<EvalSummary, Problem> {
        let (record, eval) = self.eval_record(tenant, run).await?;
        let thresholds = self.thresholds(&eval).await?;
        let found = self
            .with_state(run, |state| {
                state.status.is_terminal().then(|| {
                    summary(
                        self.library.kinds,
                        record.facts_of(),
                        &eval,
                        &thresholds,
                        &state.eval,
                    )
                })
            })
            .await?;
        found.ok_or_else(|| {
            Problem::new(
                ErrorCode::Conflict,
                "the eval run has not ended; read its summary once it has",
            )
        })
    }

    /// The run's report, also while it is in progress.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn report(&self, tenant: &TenantId, run: &RunId) -> Result<EvalReport, Problem> {
        let (mut report, eval) = self.recorded(tenant, run).await?;
        let additions = self.additions(tenant, run, Some(&eval)).await?;
        additions.add_to(&mut report);
        Ok(report)
    }

    /// What people added to a run after it was recorded.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn additions(
        &self,
        tenant: &TenantId,
        run: &RunId,
        eval: Option<&EvalSpec>,
    ) -> Result<Additions, Problem> {
        let judge = eval.and_then(|eval| eval.judge.as_ref());
        let calibration = match judge {
            Some(judge) => store::calibrations::find(&self.store, tenant, &judge.identity).await,
            None => Ok(None),
        };
        let voided = match eval {
            Some(eval) => self.voided(tenant, run, eval).await?,
            None => None,
        };
        let annotations = store::annotations::list(&self.store, run, 0).await;
        let annotations = annotations.map_err(|cause| internal(&cause))?;
        let tags = store::run_list::tags_of(&self.store, run).await;
        Ok(Additions {
            tags: tags.map_err(|cause| internal(&cause))?,
            annotations: annotations
                .into_iter()
                .map(|record| AddedAnnotation {
                    task_id: record.task,
                    annotation: record.annotation,
                })
                .collect(),
            voided,
            calibration: calibration.map_err(|cause| internal(&cause))?,
        })
    }

    /// Reads the spec and the folded state of an eval run.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn with_eval_state<T>(
        &self,
        tenant: &TenantId,
        run: &RunId,
        read: impl FnOnce(&EvalSpec, &RunState) -> T,
    ) -> Result<T, Problem> {
        let (_, eval) = self.eval_record(tenant, run).await?;
        self.with_state(run, |state| read(&eval, state)).await
    }

    /// The run's report as recorded, without later annotations and declarations, and its spec.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn recorded(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<(EvalReport, Arc<EvalSpec>), Problem> {
        let (record, eval) = self.eval_record(tenant, run).await?;
        let thresholds = self.thresholds(&eval).await?;
        let report = self
            .with_state(run, |state| {
                report(self.library.kinds, &record, &eval, &thresholds, state)
            })
            .await?;
        Ok((report, eval))
    }
}
