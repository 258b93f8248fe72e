//! Tasks of eval runs with their content, read from the log. Every read is in the audit log.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::ports::storage::ContentKept;
use crate::rules::eval::judged::parts::JudgedParts;
use crate::rules::eval::report::{TaskOutcome, outcome_of};
use crate::rules::eval::task_details::transcript::TaskLog;
use crate::rules::eval::task_details::{Measure, TaskDetails, task_details};
use crate::rules::run::fold::{RunState, TaskFacts};
use crate::rules::run::record::RunRecord;
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_openwop::events::EventDocument;

/// Events read at a time.
const PAGE: u32 = 1024;
/// Content of one task, and of one page of tasks, in bytes of its events. The rest of a task's
/// transcript is left out; a page ends early.
const MAX_TASK_BYTES: usize = 2 * 1024 * 1024;
pub const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of tasks of one page.
pub const MAX_TASKS: u64 = 100;
/// The same for answers that are read together.
const PAGE_TASKS: usize = 100;

/// Which tasks to read.
#[derive(Clone, Debug, Default)]
pub struct TaskQuery {
    /// Only tasks with this outcome.
    pub outcome: Option<TaskOutcome>,
    /// Only tasks after this one, in suite order.
    pub after: Option<TaskId>,
    /// 1..=[`MAX_TASKS`].
    pub limit: usize,
}

/// Tasks in suite order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskPage {
    pub tasks: Vec<TaskDetails>,
    /// The cursor of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<TaskId>,
}

impl Runs {
    /// One scored task of an eval run.
    ///
    /// # Errors
    /// `not_found` for an unknown run or task, and for a task that has not been scored.
    pub async fn task(
        &self,
        caller: &Caller,
        run: &RunId,
        task: &TaskId,
    ) -> Result<TaskDetails, Problem> {
        let tenant = &caller.tenant;
        let (_, eval) = self.eval_record(tenant, run).await?;
        let place = eval.tasks.position(task);
        let facts = match self.facts_of_ended(run, &eval, place.into_iter()).await {
            Some(found) => found.into_iter().next().map(|(_, facts)| facts),
            None => {
                let scored = |state: &RunState| state.eval.scored(task).map(Cow::into_owned);
                self.with_state(run, scored).await?
            }
        };
        let Some(facts) = facts else {
            return Err(Problem::new(
                ErrorCode::NotFound,
                "this run has no scored task with this id",
            ));
        };
        let scored = vec![(task.clone(), facts)];
        let mut page = self.details(caller, run, scored).await?;
        page.tasks.pop().ok_or_else(|| {
            Problem::new(
                ErrorCode::NotFound,
                "the suite of this run has no task with this id",
            )
        })
    }

    /// The scored tasks of an eval run, also while it is in progress.
    ///
    /// # Errors
    /// `not_found` for an unknown run; `validation_error` if it has no task `after`.
    pub async fn tasks(
        &self,
        caller: &Caller,
        run: &RunId,
        query: &TaskQuery,
    ) -> Result<TaskPage, Problem> {
        let (scored, has_more) = self
            .with_eval_state(&caller.tenant, run, |spec, state| {
                let start = match &query.after {
                    Some(after) => spec.tasks.position(after)? + 1,
                    None => 0,
                };
                let ids = spec.tasks.from_place(start);
                let scored = ids.filter_map(|id| Some((state.eval.scored(&id)?, id)));
                let wanted = scored
                    .filter(|(facts, _)| query.outcome.is_none_or(|it| it == outcome_of(facts)));
                let mut page: Vec<(TaskId, TaskFacts)> = wanted
                    .take(query.limit + 1)
                    .map(|(facts, id)| (id, facts.into_owned()))
                    .collect();
                let has_more = page.len() > query.limit;
                page.truncate(query.limit);
                Some((page, has_more))
            })
            .await?
            .ok_or_else(|| {
                Problem::validation(
                    "cursor",
                    "`cursor` is not from a page of this run; omit it to start with the first task",
                )
            })?;
        let last = scored.last().map(|(id, _)| id.clone());
        let mut page = self.details(caller, run, scored).await?;
        if page.next_cursor.is_none() && has_more {
            page.next_cursor = last;
        }
        Ok(page)
    }

    /// These scored tasks of an eval run, in suite order.
    ///
    /// # Errors
    /// `not_found` for an unknown run.
    pub async fn answers(
        &self,
        caller: &Caller,
        run: &RunId,
        tasks: &HashSet<TaskId>,
    ) -> Result<Vec<TaskDetails>, Problem> {
        let mut left = self
            .with_eval_state(&caller.tenant, run, |spec, state| {
                let mut places: Vec<usize> = tasks
                    .iter()
                    .filter_map(|id| spec.tasks.position(id))
                    .collect();
                places.sort_unstable();
                let wanted = places.into_iter().filter_map(|place| spec.tasks.get(place));
                let scored = wanted.filter_map(|id| Some((state.eval.scored(&id)?, id)));
                let owned = scored.map(|(facts, id)| (id, facts.into_owned()));
                owned.collect::<Vec<(TaskId, TaskFacts)>>()
            })
            .await?;
        let mut found = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let rest = left.split_off(left.len().min(PAGE_TASKS));
            let page = self.details(caller, run, left.clone()).await?;
            // A page ends early at its maximum size.
            let last = page.next_cursor.as_ref();
            let read = last.and_then(|last| left.iter().position(|(id, _)| id == last));
            let unread = read.map_or_else(Vec::new, |read| left.split_off(read + 1));
            found.extend(page.tasks);
            left = unread.into_iter().chain(rest).collect();
        }
        Ok(found)
    }

    /// The tasks of an eval run that a judge decides.
    ///
    /// # Errors
    /// `not_found` for an unknown run.
    pub async fn judged_tasks(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<HashSet<TaskId>, Problem> {
        let (_, spec) = self.eval_record(tenant, run).await?;
        let suite = self.suite_index(&spec).await?;
        let scoring = self.scoring_of(&spec).await?;
        let mut judged = HashSet::new();
        for number in 0..suite.chunk_count() {
            let tasks = self.library.chunk(&suite, number).await;
            let tasks = tasks.map_err(|cause| internal(&cause))?;
            let of_chunk = tasks
                .iter()
                .filter(|task| !JudgedParts::of(task, scoring.as_deref()).is_empty());
            judged.extend(of_chunk.map(|task| task.task_id.clone()));
        }
        Ok(judged)
    }

    async fn details(
        &self,
        caller: &Caller,
        run: &RunId,
        scored: Vec<(TaskId, TaskFacts)>,
    ) -> Result<TaskPage, Problem> {
        let (_, spec) = self.eval_record(&caller.tenant, run).await?;
        let suite = self.suite_index(&spec).await?;
        let scoring = self.scoring_of(&spec).await?;
        let agent = self
            .library
            .agent(&spec.pack_integrity, &spec.agent_id)
            .await;
        let agent = agent.map_err(|cause| internal(&cause))?;
        // The pack may have been removed.
        let agent = agent.as_ref();
        let prompt = agent.map_or_else(Default::default, |agent| agent.definition.prompt.clone());
        let return_schema =
            agent.and_then(|agent| Some(&agent.definition.return_schema.as_ref()?.1));
        let embeddings = spec.deciders.embeddings.as_ref();
        let measure = Measure {
            ignore: &spec.ignore,
            thresholds: suite.thresholds(),
            scoring: scoring.as_deref(),
            compares_answers: spec.compares_answers,
            prompt: &prompt,
            return_schema,
            embeddings: embeddings.map(|it| it.model.model.as_str()),
        };
        let mut logs = self.task_logs(caller, run, &scored).await?;
        let mut page = TaskPage {
            tasks: Vec::new(),
            next_cursor: None,
        };
        let mut bytes = 0;
        for (id, facts) in &scored {
            let definition = self.library.task(&suite, id).await;
            let Some(definition) = definition.map_err(|cause| internal(&cause))? else {
                continue;
            };
            let log = logs.remove(id).unwrap_or_default();
            bytes += log.bytes;
            if bytes > MAX_PAGE_BYTES && !page.tasks.is_empty() {
                page.next_cursor = page.tasks.last().map(|last| last.task_id.clone());
                break;
            }
            page.tasks
                .push(task_details(run, &definition, facts, log, measure));
        }
        self.record_read(caller, run, &page.tasks).await?;
        Ok(page)
    }

    /// The parts of the log of these tasks; those of reused tasks are in the run that executed
    /// them.
    async fn task_logs(
        &self,
        caller: &Caller,
        run: &RunId,
        scored: &[(TaskId, TaskFacts)],
    ) -> Result<HashMap<TaskId, TaskLog>, Problem> {
        let mut by_run: HashMap<&RunId, HashSet<&TaskId>> = HashMap::new();
        for (id, facts) in scored {
            let executed_in = facts.reused_from.as_ref().unwrap_or(run);
            by_run.entry(executed_in).or_default().insert(id);
        }
        let mut logs = HashMap::new();
        for (executed_in, tasks) in by_run {
            let record = match self.record(&caller.tenant, executed_in).await {
                Ok(record) => record,
                // It was deleted, with its content.
                Err(problem) if problem.code == ErrorCode::NotFound => {
                    logs.extend(tasks.into_iter().map(|id| (id.clone(), TaskLog::deleted())));
                    continue;
                }
                Err(problem) => return Err(problem),
            };
            let span = self.span_of(&record, &tasks).await?;
            let span = span.unwrap_or((1, u64::MAX));
            self.read_task_logs(executed_in, span, &tasks, &mut logs)
                .await
                .map_err(|cause| internal(&cause))?;
            let kept = store::storage::content_kept(&self.store, executed_in).await;
            let kept = kept.map_err(|cause| internal(&cause))?;
            let passed = scored.iter().filter(|(_, facts)| facts.passed);
            let is_passed: HashSet<&TaskId> = passed.map(|(id, _)| id).collect();
            for task in tasks {
                let is_kept = match kept {
                    Some(ContentKept::All) => true,
                    Some(ContentKept::Failures) => !is_passed.contains(task),
                    Some(ContentKept::None) | None => false,
                };
                if !is_kept {
                    logs.entry(task.clone()).or_default().drop_content();
                }
            }
        }
        Ok(logs)
    }

    /// The part of the log of a run with all events of these tasks; `None` if any event may belong to
    /// them.
    async fn span_of(
        &self,
        record: &RunRecord,
        tasks: &HashSet<&TaskId>,
    ) -> Result<Option<(u64, u64)>, Problem> {
        let run = &record.run_id;
        if let Some(eval) = record.spec.eval() {
            let places = tasks.iter().filter_map(|id| eval.tasks.position(id));
            let numbered = self.numbers_of_ended(run, eval, places).await;
            let numbers = numbered.map(|it| it.into_iter().map(|(_, number)| number).collect());
            let numbers: Vec<u32> = numbers.unwrap_or_default();
            // Tasks that were not scored have events too.
            if numbers.len() == tasks.len()
                && let Some(span) = self.projections.stored_span(run, &numbers).await
            {
                return Ok(Some(span));
            }
        }
        self.with_state(run, |state| state.span_of(tasks.iter().copied()))
            .await
    }

    async fn read_task_logs(
        &self,
        run: &RunId,
        (first, last): (u64, u64),
        tasks: &HashSet<&TaskId>,
        logs: &mut HashMap<TaskId, TaskLog>,
    ) -> Result<(), StoreError> {
        let (mut after, mut has_unreadable) = (first.saturating_sub(1), false);
        while after < last {
            let limit = u32::try_from(last - after).unwrap_or(PAGE).min(PAGE);
            let page = store::runs::read(&self.store, run, after, limit).await?;
            let Some(newest) = page.last() else { break };
            after = newest.sequence;
            for stored in &page {
                let Ok(document) = EventDocument::read(&stored.body) else {
                    // It may belong to any task.
                    has_unreadable = true;
                    continue;
                };
                let Some(task) = document.node_id.as_ref().filter(|id| tasks.contains(id)) else {
                    continue;
                };
                let log = logs.entry(task.clone()).or_default();
                match document.event() {
                    Ok(Some(event)) => {
                        let bytes = stored.body.len();
                        log.add(document.timestamp, &event, bytes, MAX_TASK_BYTES);
                    }
                    // An event of a later version, or a damaged one.
                    Ok(None) | Err(_) => log.is_incomplete = true,
                }
            }
        }
        for task in tasks.iter().filter(|_| has_unreadable) {
            logs.entry((*task).clone()).or_default().is_incomplete = true;
        }
        Ok(())
    }

    /// Reading content is a decision that the tenant can review, whoever reads.
    async fn record_read(
        &self,
        caller: &Caller,
        run: &RunId,
        tasks: &[TaskDetails],
    ) -> Result<(), Problem> {
        let ids: Vec<&str> = tasks.iter().map(|task| task.task_id.as_str()).collect();
        let decision = Decision {
            at: self.clock.now(),
            principal: caller.principal.clone(),
            action: "runs:content".to_owned(),
            resource: run.to_string(),
            outcome: Outcome::Done,
            reasons: vec![format!("tasks: {}", ids.join(", "))],
            decided_on: None,
            run_id: Some(run.clone()),
        };
        let recorded = async {
            let mut transaction = self.store.begin_write().await?;
            touchstone_host::store::audit::record(&mut transaction, &caller.tenant, &decision)
                .await?;
            transaction.commit().await
        };
        recorded.await.map_err(|cause| internal(&cause))
    }
}
