//! Views of a run, folded from its log.

use std::sync::Arc;

use serde_json::Value;

use crate::rules::eval::report::additions::{AddedAnnotation, Additions};
use crate::rules::eval::report::{EvalReport, NoTasks, report};
use crate::rules::eval::scoring::{summary_from, summary_of, task_summaries, task_summary};
use crate::rules::run::fold::{EvalFacts, RunState};
use crate::rules::run::record::{EvalSpec, RunRecord};
use crate::rules::run::snapshot::snapshot;
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::summary::{EvalSummary, TaskSummary};

impl Runs {
    /// The run's snapshot.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn snapshot(&self, tenant: &TenantId, run: &RunId) -> Result<Value, Problem> {
        let record = self.record(tenant, run).await?;
        let cancelling = self.cancelling(run).await?;
        let document = self
            .with_sums(&record, |state| {
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
        self.summary_with(tenant, run, task_summaries).await
    }

    /// The run's `EvalSummary` without its tasks.
    ///
    /// # Errors
    /// `not_found`; `conflict` before the run has ended.
    pub async fn summary_totals(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<EvalSummary<NoTasks>, Problem> {
        let (record, eval) = self.eval_record(tenant, run).await?;
        let Some(ended) = self.projections.ended_results(run, &eval.tasks).await else {
            return self.summary_with(tenant, run, |_, _| NoTasks).await;
        };
        let (kinds, facts_of) = (self.library.kinds, record.facts_of());
        let (facts, found) = (&ended.state.eval, &ended.results);
        let (thresholds, tally) = (&found.thresholds, &found.tally);
        Ok(summary_from(
            kinds, facts_of, &eval, thresholds, facts, tally, NoTasks,
        ))
    }

    async fn summary_with<T>(
        &self,
        tenant: &TenantId,
        run: &RunId,
        tasks: impl FnOnce(&EvalSpec, &EvalFacts) -> T,
    ) -> Result<EvalSummary<T>, Problem> {
        let (record, eval) = self.eval_record(tenant, run).await?;
        let thresholds = self.thresholds(&eval).await?;
        let (kinds, facts_of) = (self.library.kinds, record.facts_of());
        self.with_state(run, |state| {
            if !state.status.is_terminal() {
                return Err(Problem::new(
                    ErrorCode::RunStateConflict,
                    "the eval run has not ended; read its summary once it has",
                )
                .with("runStatus", state.status.as_str()));
            }
            let tasks = tasks(&eval, &state.eval);
            Ok(summary_of(
                kinds,
                facts_of,
                &eval,
                &thresholds,
                &state.eval,
                tasks,
            ))
        })
        .await?
    }

    /// The tasks of the run's `EvalSummary` that are among `most` tasks of the suite from the place
    /// `from` on; `None` after the last task.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn summary_tasks(
        &self,
        tenant: &TenantId,
        run: &RunId,
        from: usize,
        most: usize,
    ) -> Result<Option<Vec<TaskSummary>>, Problem> {
        let (_, eval) = self.eval_record(tenant, run).await?;
        let places = from..eval.tasks.len().min(from.saturating_add(most));
        if let Some(tasks) = self.facts_of_ended(run, &eval, places).await {
            let tasks = tasks.iter();
            let tasks = tasks.map(|(id, facts)| task_summary(id, facts)).collect();
            return Ok((from < eval.tasks.len()).then_some(tasks));
        }
        self.with_eval_state(tenant, run, |spec, state| {
            (from < spec.tasks.len()).then_some(())?;
            let tasks = spec.tasks.from_place(from).take(most);
            let scored = tasks.filter_map(|id| Some(task_summary(&id, &*state.eval.scored(&id)?)));
            Some(scored.collect())
        })
        .await
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

    /// Reads a state of the run that may lack its tasks, but not the sums over them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn with_sums<T>(
        &self,
        record: &RunRecord,
        read: impl FnOnce(&RunState) -> T,
    ) -> Result<T, Problem> {
        let run = &record.run_id;
        if let Some(eval) = record.spec.eval()
            && !self.projections.is_cached(run)
            && let Some(ended) = self.projections.ended_results(run, &eval.tasks).await
        {
            return Ok(read(&ended.state));
        }
        self.with_state(run, read).await
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
