//! The results of the tasks of eval runs, page by page. Free of task content.

use serde::Serialize;

use crate::rules::eval::report::ScoredTask;
use crate::rules::eval::task_list::{TaskListQuery, page_of};
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TaskId, TenantId};

/// Maximum number of results of one page.
pub const MAX_RESULTS: u64 = 1000;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultsPage {
    pub results: Vec<ScoredTask>,
    /// Number of results on all pages.
    pub total: usize,
    /// The cursor of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<TaskId>,
}

/// The result of a task, and the scored tasks before and after it in suite order.
#[derive(Debug)]
pub struct PlacedResult {
    pub result: ScoredTask,
    pub previous: Option<TaskId>,
    pub next: Option<TaskId>,
}

impl Runs {
    /// The result of a scored task of an eval run.
    ///
    /// # Errors
    /// `not_found` for an unknown run or task, and for a task that has not been scored.
    pub async fn result(
        &self,
        tenant: &TenantId,
        run: &RunId,
        task: &TaskId,
    ) -> Result<PlacedResult, Problem> {
        let found = self
            .with_eval_state(tenant, run, |spec, state| {
                let place = spec.tasks.iter().position(|id| id == task)?;
                let facts = state.eval.scored(task)?;
                let is_scored = |id: &&TaskId| state.eval.scored(id).is_some();
                let (before, after) = (spec.tasks.get(..place)?, spec.tasks.get(place + 1..)?);
                Some(PlacedResult {
                    result: ScoredTask::of(task, &facts),
                    previous: before.iter().rev().find(is_scored).cloned(),
                    next: after.iter().find(is_scored).cloned(),
                })
            })
            .await?;
        let mut found = found.ok_or_else(|| {
            Problem::new(
                ErrorCode::NotFound,
                format!("run `{run}` has no scored task with this id"),
            )
        })?;
        self.add_annotations(run, std::slice::from_mut(&mut found.result))
            .await?;
        Ok(found)
    }

    /// The results of these tasks of an eval run that are scored, in this order.
    ///
    /// # Errors
    /// `not_found` for an unknown run.
    pub async fn some_results(
        &self,
        tenant: &TenantId,
        run: &RunId,
        tasks: &[TaskId],
    ) -> Result<Vec<ScoredTask>, Problem> {
        let mut results: Vec<ScoredTask> = self
            .with_eval_state(tenant, run, |_, state| {
                let result = |id| Some(ScoredTask::of(id, &*state.eval.scored(id)?));
                tasks.iter().filter_map(result).collect()
            })
            .await?;
        self.add_annotations(run, &mut results).await?;
        Ok(results)
    }

    async fn add_annotations(
        &self,
        run: &RunId,
        results: &mut [ScoredTask],
    ) -> Result<(), Problem> {
        let annotations = store::annotations::list(&self.store, run, 0).await;
        for record in annotations.map_err(|cause| internal(&cause))? {
            let of_task = |it: &&mut ScoredTask| Some(&it.task.task_id) == record.task.as_ref();
            if let Some(result) = results.iter_mut().find(of_task) {
                result.task.annotations.push(record.annotation);
            }
        }
        Ok(())
    }

    /// The results of the scored tasks of an eval run, also while it is in progress.
    ///
    /// # Errors
    /// `not_found` for an unknown run; `validation_error` if the page starts after a task that is
    /// not scored.
    pub async fn results(
        &self,
        tenant: &TenantId,
        run: &RunId,
        query: &TaskListQuery,
    ) -> Result<ResultsPage, Problem> {
        let page = self
            .with_eval_state(tenant, run, |spec, state| page_of(spec, &state.eval, query))
            .await?;
        let page = page.ok_or_else(|| {
            Problem::validation(
                "cursor",
                "`cursor` is not from a page of this run; omit it to start with the first task",
            )
        })?;
        let tasks = page.tasks.iter();
        let mut results: Vec<ScoredTask> =
            tasks.map(|(id, facts)| ScoredTask::of(id, facts)).collect();
        self.add_annotations(run, &mut results).await?;
        let last = results.last().map(|it| it.task.task_id.clone());
        Ok(ResultsPage {
            results,
            total: page.all,
            next_cursor: last.filter(|_| page.has_more),
        })
    }
}
