//! The results of the tasks of eval runs, page by page. Free of task content.

use std::collections::HashMap;

use serde::Serialize;

use crate::rules::eval::report::ScoredTask;
use crate::rules::eval::statistics::TaskResultRow;
use crate::rules::eval::task_list::{TaskListPage, TaskListQuery, page_of, places_of};
use crate::rules::run::fold::TaskFacts;
use crate::rules::run::record::EvalSpec;
use crate::rules::run::task_ids::TaskIds;
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_openwop::annotation::Annotation;

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

/// The result of a task at a place, which has these facts.
fn placed(
    tasks: &TaskIds,
    (place, task): (usize, &TaskId),
    facts: &TaskFacts,
    is_scored: impl Fn(usize) -> bool,
) -> PlacedResult {
    let is_scored = |place: &usize| is_scored(*place);
    let previous = (0..place).rev().find(is_scored);
    let next = (place + 1..tasks.len()).find(is_scored);
    PlacedResult {
        result: ScoredTask::of(task, facts),
        previous: previous.and_then(|place| tasks.get(place)),
        next: next.and_then(|place| tasks.get(place)),
    }
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
        let found = match self.result_of_ended(tenant, run, task).await? {
            Some(found) => found,
            None => {
                self.with_eval_state(tenant, run, |spec, state| {
                    let place = spec.tasks.position(task)?;
                    let facts = state.eval.scored(task)?;
                    let is_scored =
                        |place| state.eval.scored_task(spec.tasks.text(place)).is_some();
                    Some(placed(&spec.tasks, (place, task), &facts, is_scored))
                })
                .await?
            }
        };
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
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let mut results: Vec<ScoredTask> = self
            .with_eval_state(tenant, run, |_, state| {
                let result = |id| Some(ScoredTask::of(id, &*state.eval.scored(id)?));
                tasks.iter().filter_map(result).collect()
            })
            .await?;
        self.add_annotations(run, &mut results).await?;
        Ok(results)
    }

    /// As [`page_of_ended`](Self::page_of_ended), for one task.
    async fn result_of_ended(
        &self,
        tenant: &TenantId,
        run: &RunId,
        task: &TaskId,
    ) -> Result<Option<Option<PlacedResult>>, Problem> {
        let (_, eval) = self.eval_record(tenant, run).await?;
        let Some(place) = eval.tasks.position(task) else {
            return Ok(Some(None));
        };
        let Some(facts) = self.facts_of_ended(run, &eval, place..=place).await else {
            return Ok(None);
        };
        let Some(ended) = self.projections.ended_results(run, &eval.tasks).await else {
            return Ok(None);
        };
        let is_scored = |place| ended.results.results.row(place).is_some();
        let found = facts.first();
        Ok(Some(found.map(|(_, facts)| {
            placed(&eval.tasks, (place, task), facts, is_scored)
        })))
    }

    async fn add_annotations(
        &self,
        run: &RunId,
        results: &mut [ScoredTask],
    ) -> Result<(), Problem> {
        let tasks: Vec<&TaskId> = results.iter().map(|it| &it.task.task_id).collect();
        let annotations = store::annotations::of_tasks(&self.store, run, &tasks).await;
        let annotations = annotations.map_err(|cause| internal(&cause))?;
        if annotations.is_empty() {
            return Ok(());
        }
        let mut by_task: HashMap<TaskId, Vec<Annotation>> = HashMap::new();
        for record in annotations {
            let Some(task) = record.task else { continue };
            by_task.entry(task).or_default().push(record.annotation);
        }
        for result in results {
            let annotations = by_task.remove(&result.task.task_id);
            result
                .task
                .annotations
                .extend(annotations.unwrap_or_default());
        }
        Ok(())
    }

    /// A page of an ended run whose state is not in memory, read from its stored results and from the
    /// parts of its state with the tasks of the page; `None` if they cannot be read.
    async fn page_of_ended(
        &self,
        tenant: &TenantId,
        run: &RunId,
        query: &TaskListQuery,
    ) -> Result<Option<Option<TaskListPage>>, Problem> {
        let (_, eval) = self.eval_record(tenant, run).await?;
        if self.projections.is_cached(run) {
            return Ok(None);
        }
        let ended = self.projections.ended_results(run, &eval.tasks).await;
        let Some(ended) = ended else { return Ok(None) };
        let results = &ended.results.results;
        let listed = |place| results.row(place).map(TaskResultRow::listed);
        let all = ended.state.eval.scored_count;
        let Some(page) = places_of(&eval.tasks, all, listed, query) else {
            return Ok(Some(None));
        };
        let tasks = self.facts_of_ended(run, &eval, page.places.into_iter());
        Ok(tasks.await.map(|tasks| {
            Some(TaskListPage {
                tasks,
                all: page.all,
                has_more: page.has_more,
            })
        }))
    }

    /// The scored tasks at these places of an ended run whose state is not in memory; `None` if they
    /// cannot be read without it.
    pub(in crate::service::runs) async fn facts_of_ended(
        &self,
        run: &RunId,
        eval: &EvalSpec,
        places: impl Iterator<Item = usize>,
    ) -> Option<Vec<(TaskId, TaskFacts)>> {
        let numbered = self.numbers_of_ended(run, eval, places).await?;
        let numbers: Vec<u32> = numbered.iter().map(|(_, number)| *number).collect();
        let mut facts = self.projections.stored_facts(run, &numbers).await?;
        let tasks = numbered.into_iter();
        tasks
            .map(|(id, number)| Some((id, facts.remove(&number)?)))
            .collect()
    }

    /// The scored tasks at these places of an ended run whose state is not in memory, with their numbers
    /// in its stored state.
    pub(in crate::service::runs) async fn numbers_of_ended(
        &self,
        run: &RunId,
        eval: &EvalSpec,
        places: impl Iterator<Item = usize>,
    ) -> Option<Vec<(TaskId, u32)>> {
        if self.projections.is_cached(run) {
            return None;
        }
        let ended = self.projections.ended_results(run, &eval.tasks).await?;
        let rows = places.filter_map(|place| ended.results.results.row(place));
        let numbered = rows.filter_map(|row| Some((eval.tasks.get(row.place())?, row.number)));
        Some(numbered.collect())
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
        let page = match self.page_of_ended(tenant, run, query).await? {
            Some(page) => page,
            None => {
                self.with_eval_state(tenant, run, |spec, state| page_of(spec, &state.eval, query))
                    .await?
            }
        };
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
