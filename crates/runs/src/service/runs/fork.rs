//! Forking a run (OpenWOP replay): a new run that starts with the recorded events of another.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::ports::storage::ContentKept;
use crate::rules::kind::{Action, Kinds};
use crate::rules::run::fold::RunStatus;
use crate::rules::run::fork::{Fork, ForkMode, ForkRequest, Overlay, history, partial_rerun};
use crate::rules::run::record::{EvalSpec, RunRecord, RunSpec, Work, WorkflowSpec};
use crate::rules::run::request::{AgentFacts, Request, SuiteFacts, check_at_host, parse, plan};
use crate::service::runs::Runs;
use crate::service::runs::create::{Created, NewRun};
use crate::service::runs::plan::{FoundBaseline, first, pin_labels_of};
use crate::service::runs::retry::earlier;
use crate::store;
use touchstone_host::ports::idempotency::IdempotencyClaim;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_openwop::events::{Event, EventDocument};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::LogMark;

/// Events read per page; the first task is judged early.
const PAGE: u32 = 256;
/// The event that judges a task.
const SCORED: &str = "eval.scored";

/// The tasks that the history of a branch has judged.
struct Judged {
    tasks: HashSet<TaskId>,
    /// When the last event of the history was recorded.
    at: Timestamp,
}

fn check_forkable(record: &RunRecord) -> Result<(), Problem> {
    if !record.spec.work.is_claimable() {
        return Err(Problem::new(
            ErrorCode::NotOfThisRun,
            "this run records a decision of the host and was not executed, so it cannot be forked",
        ));
    }
    if record.is_approval_gate() {
        return Err(Problem::new(
            ErrorCode::NotOfThisRun,
            "an approval gate cannot be forked, because an answer in the fork would have no \
             effect; request the promotion again",
        ));
    }
    Ok(())
}

fn check_replay(status: RunStatus) -> Result<(), Problem> {
    if status.is_terminal() {
        return Ok(());
    }
    Err(Problem::new(
        ErrorCode::RunStateConflict,
        "the run has not ended, so its log is incomplete; wait for it or cancel it first",
    )
    .with("runStatus", status.as_str()))
}

fn check_branch(kinds: Kinds, record: &RunRecord, caller: &Caller) -> Result<(), Problem> {
    if let Some(kind) = record.spec.eval().and_then(|eval| kinds.of(eval)) {
        let reason = kind.refusal(Action::Branch);
        return Err(Problem::new(ErrorCode::NotOfThisRun, reason));
    }
    let mocked = |workflow: &Arc<WorkflowSpec>| workflow.mock_provider.is_some();
    if !caller.test && record.spec.workflow().is_some_and(mocked) {
        return Err(Problem::new(
            ErrorCode::MockProviderForbidden,
            "this run uses a mock provider, so only a test key may branch it; use a key created \
             with `touchstone key create --test`",
        ));
    }
    Ok(())
}

impl Runs {
    /// Forks a run of the caller's tenant for a request under a major, whose numbers `fromSeq` is one
    /// of. The fork belongs to the owner of its source.
    ///
    /// # Errors
    /// `not_found`; `invalid_from_seq` beyond the end of the log; `validation_error` for an invalid
    /// overlay; `conflict` for a run that cannot be forked in its state.
    pub async fn fork(
        &self,
        caller: &Caller,
        source: &RunId,
        request: &ForkRequest,
        major: Major,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Created, Problem> {
        let record = self.record(&caller.tenant, source).await?;
        check_forkable(&record)?;
        let kept = store::storage::content_kept(&self.store, source).await;
        if kept.map_err(|cause| internal(&cause))? != Some(ContentKept::All) {
            return Err(Problem::new(
                ErrorCode::RunExpired,
                "the task content of this run was deleted, so it cannot be forked; start a new run",
            ));
        }
        let (status, events, ended) = self
            .with_state(source, |state| {
                (state.status, state.sequence, state.completed_at)
            })
            .await?;
        let numbers = record.log.under(major);
        let history = history(request, numbers, events)?;
        let judged = match (request.mode, record.spec.eval()) {
            (ForkMode::Branch, Some(_)) => self.judged_by(source, history).await?,
            _ => None,
        };
        let mut spec = match request.mode {
            ForkMode::Replay => {
                check_replay(status)?;
                record.spec.clone()
            }
            ForkMode::Branch => {
                check_branch(self.library.kinds, &record, caller)?;
                let kept = judged.is_some();
                self.branch_spec(&caller.tenant, &record, &request.overlay, history, kept)
                    .await?
            }
        };
        // The scope's limit of one active run does not apply to forks.
        if let Some(scope) = &mut spec.scope {
            scope.exclusive = false;
        }
        if let (Some(eval), Some(of_source)) = (spec.eval_mut(), record.spec.eval()) {
            let recorded = match request.mode {
                ForkMode::Replay => ended,
                ForkMode::Branch => judged.as_ref().map(|judged| judged.at),
            };
            // A branch without a judged task has no facts of its source.
            eval.facts_recorded_at = recorded.and(earlier(of_source.facts_recorded_at, recorded));
            eval.partial_rerun = match request.mode {
                ForkMode::Replay => of_source.partial_rerun.clone(),
                ForkMode::Branch => {
                    judged.and_then(|judged| partial_rerun(source, of_source, &judged.tasks))
                }
            };
        }
        let fork = Fork {
            source_run_id: source.clone(),
            from_seq: numbers.read_up_to(request.from_seq),
            mode: request.mode,
            history,
            origin: record.facts_of().clone(),
            forked_by: caller.principal.clone(),
        };
        let answer = json!({
            "sourceRunId": source,
            "fromSeq": request.from_seq,
            "mode": request.mode,
        });
        let run = NewRun {
            tenant: record.tenant.clone(),
            principal: record.principal.clone(),
            spec,
            fork: Some(fork),
            callback: None,
            log: match history {
                0 => LogMark::of_new(major),
                _ => record.log.of_fork(),
            },
        };
        self.record_new(run, answer, claim).await
    }

    /// The spec of a branch: the source's spec with the changes of the overlay.
    async fn branch_spec(
        &self,
        tenant: &TenantId,
        source: &RunRecord,
        overlay: &Overlay,
        history: u64,
        keeps_judged: bool,
    ) -> Result<RunSpec, Problem> {
        let mut spec = source.spec.clone();
        let Work::Eval(eval) = &source.spec.work else {
            if !overlay.is_empty() {
                return Err(Problem::validation(
                    "runOptionsOverlay",
                    "only a branch of an eval run can differ from its source; leave \
                     `runOptionsOverlay` out",
                ));
            }
            return Ok(spec);
        };
        self.configured(tenant, eval)
            .await?
            .check_same(eval)
            .map_err(|refusal| {
                Problem::new(ErrorCode::VersionConflict, refusal.to_string())
                    .with("reason", refusal.label())
            })?;
        if !overlay.is_empty() {
            let scope = spec.scope.take();
            spec = self.overlaid(tenant, source, eval, overlay).await?;
            spec.scope = scope;
            if let Some(branched) = spec.eval_mut() {
                let reached_by = &eval.execution.reached_by;
                branched.execution.reached_by.clone_from(reached_by);
            }
        }
        self.pin_endpoints(tenant, &mut spec);
        self.pin_deciders(tenant, &mut spec).await?;
        let Some(branched) = spec.eval_mut() else {
            return Ok(spec);
        };
        // Events after the history are executed again, not copied from an earlier run.
        branched.retry_of = None;
        // Branching a retry does not create further retries.
        if history > 0 {
            let root = eval.execution.retry_root.as_ref();
            branched.execution.retry_root = Some(root.unwrap_or(source.facts_of()).clone());
            branched.execution.retries = eval.execution.retries;
        } else {
            branched.execution.retry_root = None;
            branched.execution.retries = 0;
        }
        // A branch does not leave its experiment: a second run with the source's trial number does
        // not count.
        branched.trial = eval.trial.clone();
        // Resolved once, by one draw, for the source and all its forks (RFC 0082 §B).
        branched.agent_channel = eval.agent_channel.clone();
        // The history and the rest must be judged by the same rules: the verdict covers both.
        let judged_alike = branched.tasks == eval.tasks
            && branched.modes == eval.modes
            && branched.baseline == eval.baseline
            && branched.fixture_runs == eval.fixture_runs
            && branched.ignore == eval.ignore
            && branched.budget == eval.budget;
        if history > 0 && !judged_alike {
            return Err(Problem::validation(
                "runOptionsOverlay.configurable",
                "the kept history depends on the tasks, modes, baseline, `fixtureRuns`, `evalMatch` and \
                 budget of the source; set `fromSeq` to 0 to change them",
            ));
        }
        if keeps_judged && let Some(name) = sampled_unlike(branched, eval) {
            return Err(Problem::validation(
                &format!("runOptionsOverlay.configurable.{name}"),
                format!(
                    "the branch keeps tasks that were executed with the source's `{name}`; set \
                     `fromSeq` to 0 to change it"
                ),
            ));
        }
        Ok(spec)
    }

    /// The tasks that the first `history` events of a run judged; `None` if none.
    async fn judged_by(&self, run: &RunId, history: u64) -> Result<Option<Judged>, Problem> {
        let mut tasks = HashSet::new();
        let mut at = None;
        let mut after = 0;
        while after < history {
            let limit = u32::try_from(history - after).map_or(PAGE, |left| left.min(PAGE));
            let page = store::runs::read(&self.store, run, after, limit).await;
            let page = page.map_err(|cause| internal(&cause))?;
            let Some(last) = page.last() else {
                break;
            };
            if let Ok(document) = EventDocument::read(&last.body) {
                at = Some(document.timestamp);
            }
            for event in page.iter().filter(|event| &*event.kind == SCORED) {
                // A score that cannot be read does not count: the branch executes that task again.
                tasks.extend(judged_task(event).ok().flatten());
            }
            after = last.sequence;
        }
        let judged = at.map(|at| Judged { tasks, at });
        Ok(judged.filter(|judged| !judged.tasks.is_empty()))
    }

    /// The source's request merged with the overlay, validated like a new one, with the source's
    /// suite and pack.
    async fn overlaid(
        &self,
        tenant: &TenantId,
        source: &RunRecord,
        eval: &EvalSpec,
        overlay: &Overlay,
    ) -> Result<RunSpec, Problem> {
        let spec = &source.spec;
        let asked = |name: &str| overlay.configurable.as_ref()?.get(name);
        let pinned = [
            ("agentVersion", "another version"),
            ("agentChannel", "another version"),
            ("evalWorkerCommand", "another command"),
        ];
        let changed = pinned.into_iter().find(|(name, _)| {
            asked(name).is_some_and(|value| spec.configurable.get(*name) != Some(value))
        });
        if let Some((name, other)) = changed {
            return Err(Problem::validation(
                &format!("runOptionsOverlay.configurable.{name}"),
                format!("a fork keeps the agent of its source; start a new run for {other}"),
            ));
        }
        let mut configurable = spec.configurable.clone();
        configurable.extend(overlay.configurable.clone().unwrap_or_default());
        let own = |value: &Option<Value>, own: Value| value.clone().unwrap_or(own);
        let body = json!({
            "mode": "eval",
            "evalSuiteRef": format!("{}@{}", eval.suite_id, eval.suite_version),
            "agentId": eval.agent_id,
            "configurable": configurable,
            "inputs": spec.inputs,
            "tags": own(&overlay.tags, json!(spec.tags)),
            "metadata": own(&overlay.metadata, json!(spec.metadata)),
        });
        let lost = |table| {
            internal(&StoreError::Inconsistent {
                table,
                column: "digest",
            })
        };
        let request = match parse(self.library.kinds, &body).map_err(within_overlay)? {
            Request::Eval(request) => *request,
            Request::Workflow(_) => return Err(lost("run_record")),
        };
        let is_remote = eval.execution.reached_by.is_some();
        if is_remote {
            check_at_host(&request).map_err(within_overlay)?;
        }
        let suite = self.suite_index(eval).await?;
        let agent = self
            .library
            .agent(&eval.pack_integrity, &eval.agent_id)
            .await;
        let agent = agent
            .map_err(|cause| internal(&cause))?
            .ok_or_else(|| lost("blob"))?;
        let baseline = self.baseline(tenant, &request).await?;
        let fixtures = self.check_fixture_runs(tenant, &request).await;
        fixtures.map_err(within_overlay)?;
        let model = self.agent_model(tenant, eval);
        let scoring = self.scoring_of(eval).await?;
        let limits = self.limits_for(model.as_ref());
        let (document, outline) = self
            .outlined(&suite, &agent, &limits)
            .await
            .map_err(within_overlay)?;
        let mut planned = {
            plan(
                request,
                &limits,
                Some(&SuiteFacts {
                    document: &document,
                    outline: &outline,
                    digest: &eval.suite_digest,
                    scoring: eval.scoring_digest.as_deref(),
                    scoring_document: scoring.as_deref(),
                    signed: eval.suite_signed,
                    is_streamed: suite.is_streamed(),
                }),
                Some(&AgentFacts {
                    agent_id: &eval.agent_id,
                    version: &eval.agent_version,
                    pack_integrity: &eval.pack_integrity,
                    content: &agent.content,
                    model_class: eval.model_class,
                    model: Some(eval.model.clone()),
                }),
                baseline.as_ref().map(FoundBaseline::facts).as_ref(),
                &self.judging_models(),
                &|request, suite, modes| {
                    let planners = self.planners.iter();
                    first(planners.map(|planner| planner.plan_other(request, suite, modes)))
                },
            )
            .map_err(within_overlay)?
        };
        if let Some(planned) = planned.eval_mut().filter(|_| is_remote) {
            planned.execution.keep_local();
        }
        pin_labels_of(model.as_ref(), &mut planned).map_err(within_overlay)?;
        let pack = eval.attachments_pack.as_deref();
        self.plan_conversations(&mut planned, baseline.as_ref(), pack)
            .await
            .map_err(within_overlay)?;
        Ok(planned)
    }
}

/// The task that an event judges, if any.
fn judged_task(event: &StoredEvent) -> serde_json::Result<Option<TaskId>> {
    Ok(match EventDocument::read(&event.body)?.event()? {
        Some(Event::EvalScored(scored)) => Some(scored.task_id),
        _ => None,
    })
}

/// The first setting of the agent's turns in which two runs differ.
fn sampled_unlike(one: &EvalSpec, other: &EvalSpec) -> Option<&'static str> {
    [
        ("temperature", one.temperature != other.temperature),
        ("maxTokens", one.max_tokens != other.max_tokens),
        (
            "maxLoopIterations",
            one.max_loop_iterations != other.max_loop_iterations,
        ),
    ]
    .into_iter()
    .find_map(|(name, differs)| differs.then_some(name))
}

/// Names the field as the caller wrote it.
fn within_overlay(mut problem: Problem) -> Problem {
    if let Some(Value::String(field)) = problem.details.get_mut("field") {
        *field = format!("runOptionsOverlay.{field}");
    }
    problem
}
