//! Creating runs and looking at them.
//!
//! Everything is asked for with the caller's tenant; another tenant's run is answered exactly like no run at all.

mod agents;
mod calibrations;
mod comparisons;
mod experiments;
mod fork;
mod interrupts;
mod pause;

use self::calibrations::Attempts;
pub use self::calibrations::Comparison;
pub use self::experiments::Experiment;
use self::interrupts::for_people;
pub use self::interrupts::{GATE_NODE, GateDecision};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::Caller;
use super::fault::internal;
use super::journal::Journal;
use super::library::Library;
use super::projections::{self, Projections};
use super::webhooks::Webhooks;
use super::workflows::Workflows;
use crate::domain::eval::report::{EvalReport, Verdict, annotate, report};
use crate::domain::eval::scoring::summary;
use crate::domain::ids::{RunId, TenantId};
use crate::domain::run::fold::{RunState, RunStatus};
use crate::domain::run::fork::Fork;
use crate::domain::run::record::{EvalSpec, JudgePin, ModelPin, RunRecord, RunSpec};
use crate::domain::run::request::{
    AgentFacts, BaselineFacts, CreateRun, HostLimits, Request, SuiteFacts, parse, plan,
    plan_workflow,
};
use crate::domain::run::retry::{NoRetry, may_retry};
use crate::domain::run::snapshot::{snapshot, visible_status};
use crate::ports::{
    CancelRequest, Clock, IdempotencyClaim, IdempotencyCompletion, Ids, Judge, ModelBinding,
    Models, Store, StoreError, WebhookRecord,
};
use crate::protocol::error::{ErrorCode, Problem};
use crate::protocol::openwop::suite::{AgentEvalSuite, ModelClass, Thresholds};
use crate::protocol::openwop::summary::EvalSummary;
use crate::protocol::openwop::workflow::WorkflowDefinition;

/// A run that was created.
#[derive(Clone, Debug)]
pub struct Created {
    /// The run.
    pub run_id: RunId,
    /// The body of the `201`.
    pub body: Value,
}

/// The eval run a comparison is asked with.
struct FoundBaseline {
    run_id: RunId,
    eval: Arc<EvalSpec>,
    /// Whether it says something about every task.
    conclusive: bool,
    aggregate_score: f64,
}

/// Whether a run may be created while another one of its scope is active (OpenWOP idempotency, `X-Dedup`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dedup {
    /// It may.
    #[default]
    Off,
    /// It may not.
    Enforce,
}

impl FoundBaseline {
    fn facts(&self) -> BaselineFacts<'_> {
        BaselineFacts {
            run_id: &self.run_id,
            conclusive: self.conclusive,
            ignore: &self.eval.ignore,
            tasks: &self.eval.tasks,
            judge: self.eval.judge.as_ref(),
            modes: &self.eval.modes,
            safety_judge: self.eval.safety_judge.as_ref(),
            suite_id: &self.eval.suite_id,
            suite_version: &self.eval.suite_version,
            aggregate_score: self.aggregate_score,
        }
    }
}

/// A run about to be recorded.
struct NewRun {
    tenant: TenantId,
    principal: String,
    spec: RunSpec,
    fork: Option<Fork>,
    /// Who is told how it ends, beside the tenant's subscriptions.
    callback: Option<WebhookRecord>,
}

/// What this host lets a run be.
pub struct Offer {
    /// The workflows there are.
    pub workflows: Workflows,
    /// How much of everything.
    pub limits: HostLimits,
    /// Who is told of it.
    pub webhooks: Arc<Webhooks>,
    /// Who judges samples that people have scored.
    pub judge: Arc<dyn Judge>,
}

/// The use cases of runs.
pub struct Runs {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    library: Arc<Library>,
    models: Arc<dyn Models>,
    projections: Arc<Projections>,
    workflows: Workflows,
    journal: Journal,
    limits: HostLimits,
    webhooks: Arc<Webhooks>,
    judge: Arc<dyn Judge>,
    attempts: Attempts,
}

impl Runs {
    /// The use cases over their ports.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        library: Arc<Library>,
        models: Arc<dyn Models>,
        projections: Arc<Projections>,
        offer: Offer,
    ) -> Self {
        let owner = ids.mint("service");
        let journal = Journal::new(store.clone(), clock.clone(), ids.clone(), owner);
        Self {
            store,
            clock,
            ids,
            library,
            models,
            projections,
            workflows: offer.workflows,
            journal,
            limits: offer.limits,
            webhooks: offer.webhooks,
            judge: offer.judge,
            attempts: Attempts::default(),
        }
    }

    /// Creates a run. With a claim, the idempotency record is completed in the same transaction.
    ///
    /// # Errors
    /// The checks of RFC 0081 §B, in order; `forbidden` for another tenant's `tenantId`; `webhook_url_rejected` for a
    /// `callbackUrl` that leads inward; `run_already_active` under [`Dedup::Enforce`].
    pub async fn create(
        &self,
        caller: &Caller,
        body: &Value,
        dedup: Dedup,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Created, Problem> {
        let mut request = parse(body)?;
        let options = request.options_mut();
        if options
            .tenant_id
            .as_deref()
            .is_some_and(|tenant| tenant != caller.tenant.as_str())
        {
            return Err(Problem::new(
                ErrorCode::Forbidden,
                "`tenantId` is not the tenant of this key; leave it out",
            )
            .with("field", "tenantId"));
        }
        options.exclusive = dedup == Dedup::Enforce;
        if options.exclusive && options.scope_id.is_none() {
            return Err(Problem::validation(
                "scopeId",
                "`X-Dedup: enforce` allows one active run of a scope; name it by `scopeId`",
            ));
        }
        let callback_url = options.callback_url.take();
        let spec = match request {
            Request::Eval(request) => self.plan(&caller.tenant, *request).await?,
            Request::Workflow(request) => {
                let definition = self.workflows.definition(&request.workflow_id);
                let agents = match &definition {
                    Some(definition) => self.bind_agents(&caller.tenant, definition).await?,
                    None => Vec::new(),
                };
                plan_workflow(*request, &self.limits, definition, agents, caller.test)?
            }
        };
        let callback = match callback_url {
            Some(url) => Some(self.webhooks.callback(caller, url).await?),
            None => None,
        };
        self.record_run(caller, spec, callback, claim).await
    }

    /// Creates a run that reuses every judged task of `source` and executes only the rest, with everything else pinned as
    /// it was.
    ///
    /// # Errors
    /// `not_found`; `conflict` with `details.reason` as [`may_retry`] has it.
    pub async fn retry(
        &self,
        caller: &Caller,
        source: &RunId,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Created, Problem> {
        let (record, eval) = self.eval_record(&caller.tenant, source).await?;
        let cancelling = self.cancelling(source).await?;
        let model = self.pinned(eval.model_class);
        let judge = self.judge_now(&eval).await?;
        let (allowed, ended) = self
            .look(source, |state| {
                let status = visible_status(state, cancelling);
                let allowed = may_retry(&eval, &state.eval, status, model.as_ref(), judge.as_ref());
                (allowed, state.completed_at)
            })
            .await?;
        let allowed = allowed.and_then(|()| match &eval.safety_judge {
            Some(then) if self.safety_judge_now(&eval).as_ref() != Some(then) => {
                Err(NoRetry::JudgeChanged { then: then.clone() })
            }
            _ => Ok(()),
        });
        allowed.map_err(|refusal| {
            Problem::new(ErrorCode::Conflict, refusal.to_string()).with("reason", refusal.label())
        })?;
        let mut spec = record.spec.clone();
        if let Some(eval) = spec.eval_mut() {
            eval.retry_of = Some(source.clone());
            eval.facts_recorded_at = older(eval.facts_recorded_at, ended);
        }
        self.record_run(caller, spec, None, claim).await
    }

    /// The record of a run of this tenant.
    ///
    /// # Errors
    /// `not_found`, with one text for every reason.
    pub async fn record(&self, tenant: &TenantId, run: &RunId) -> Result<Arc<RunRecord>, Problem> {
        let record = self
            .projections
            .record(tenant, run)
            .await
            .map_err(|cause| internal(&cause))?;
        record.ok_or_else(not_found)
    }

    /// The definition of a workflow of this host.
    ///
    /// # Errors
    /// `not_found`.
    pub fn workflow(&self, id: &str) -> Result<WorkflowDefinition, Problem> {
        self.workflows
            .definition(id)
            .ok_or_else(|| Problem::new(ErrorCode::NotFound, "no such workflow; evals take none"))
    }

    /// The record of an eval run of this tenant.
    async fn eval_record(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<(Arc<RunRecord>, Arc<EvalSpec>), Problem> {
        let record = self.record(tenant, run).await?;
        let eval = record.spec.eval().cloned();
        let eval =
            eval.ok_or_else(|| Problem::new(ErrorCode::NotFound, "this run is no eval run"))?;
        Ok((record, eval))
    }

    /// The run's snapshot.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn snapshot(&self, tenant: &TenantId, run: &RunId) -> Result<Value, Problem> {
        let record = self.record(tenant, run).await?;
        let cancelling = self.cancelling(run).await?;
        let document = self
            .look(run, |state| {
                serde_json::to_value(snapshot(&record, state, cancelling))
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
            .look(run, |state| {
                state
                    .status
                    .is_terminal()
                    .then(|| summary(record.facts_of(), &eval, &thresholds, &state.eval))
            })
            .await?;
        found.ok_or_else(|| {
            Problem::new(
                ErrorCode::Conflict,
                "the eval run has not ended; its summary is served once it has",
            )
        })
    }

    /// The run's report, at any time.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn report(&self, tenant: &TenantId, run: &RunId) -> Result<EvalReport, Problem> {
        let (mut report, _) = self.recorded(tenant, run).await?;
        if let Some(judge) = &mut report.judge {
            let found = self.store.calibration(tenant, &judge.identity).await;
            judge.calibration = found.map_err(|cause| internal(&cause))?;
        }
        let said = self
            .store
            .annotations(run, 0)
            .await
            .map_err(|cause| internal(&cause))?;
        let of_tasks = said
            .into_iter()
            .filter_map(|record| Some((record.task?, record.annotation)));
        annotate(&mut report, of_tasks);
        Ok(report)
    }

    /// The run's report as it was recorded, without what people said since, and what the run was asked to do.
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
            .look(run, |state| report(&record, &eval, &thresholds, state))
            .await?;
        Ok((report, eval))
    }

    /// Asks for a run to be cancelled; a run that has ended keeps its status.
    ///
    /// # Errors
    /// `not_found`; `conflict` for a record the host keeps, and for an approval gate: whoever may cancel runs does not decide
    /// for those who are asked.
    pub async fn cancel(
        &self,
        caller: &Caller,
        run: &RunId,
        reason: Option<String>,
    ) -> Result<RunStatus, Problem> {
        let record = self.record(&caller.tenant, run).await?;
        if !record.spec.work.is_claimable() {
            let status = self.look(run, |state| state.status).await?;
            if status.is_terminal() {
                return Ok(status);
            }
            return Err(Problem::new(
                ErrorCode::Conflict,
                "this run is a record the host keeps; it has no work to cancel",
            ));
        }
        if record.is_approval_gate() {
            let status = self.look(run, |state| state.status).await?;
            if status.is_terminal() {
                return Ok(status);
            }
            return Err(for_people(run, "cancelled").with("runStatus", status.as_str()));
        }
        let request = CancelRequest {
            cancelled_by: caller.principal.clone(),
            reason,
        };
        let accepted = self
            .store
            .request_cancel(run, &request)
            .await
            .map_err(|cause| internal(&cause))?;
        if accepted {
            self.store.notify_work().await;
        }
        self.look(run, |state| visible_status(state, accepted))
            .await
    }

    async fn plan(&self, tenant: &TenantId, mut request: CreateRun) -> Result<RunSpec, Problem> {
        self.pin_channel(tenant, &mut request).await?;
        let fail = |cause: &(dyn std::error::Error + 'static)| internal(cause);
        let (id, version) = (&request.suite.suite_id, &request.suite.version);
        let suite = self
            .store
            .suite(tenant, id, version)
            .await
            .map_err(|cause| fail(&cause))?;
        let document = match &suite {
            Some(suite) => self
                .library
                .suite(&suite.digest)
                .await
                .map_err(|cause| fail(&cause))?,
            None => None,
        };
        let agent = self
            .library
            .installed_agent(tenant, &request.agent_id, request.agent_version.as_deref())
            .await
            .map_err(|cause| fail(&cause))?;
        let baseline = self.baseline(tenant, &request).await?;
        let accepts = |input: &Value| agent.as_ref().is_none_or(|agent| agent.accepts(input));
        let model = agent
            .as_ref()
            .and_then(|agent| self.models.resolve(agent.definition.model_class));
        plan(
            request,
            &self.limits_for(model.as_ref()),
            suite
                .as_ref()
                .zip(document.as_ref())
                .map(|(suite, document)| SuiteFacts {
                    document,
                    digest: &suite.digest,
                    signed: suite.signed,
                })
                .as_ref(),
            agent
                .as_ref()
                .map(|agent| AgentFacts {
                    agent_id: &agent.definition.agent_id,
                    version: &agent.version,
                    pack_integrity: &agent.pack_integrity,
                    model_class: agent.definition.model_class,
                    accepts: &accepts,
                    model: model.as_ref().map(ModelBinding::pin),
                })
                .as_ref(),
            baseline.as_ref().map(FoundBaseline::facts).as_ref(),
            self.judging_model().as_ref(),
        )
    }

    /// What a run on this model is planned within: more tasks in flight than its endpoint answers at once would only hold
    /// slots that others could use.
    fn limits_for(&self, model: Option<&ModelBinding>) -> HostLimits {
        let host = self.limits.max_concurrency;
        HostLimits {
            max_concurrency: model
                .map_or(host, |model| host.min(model.model.info().max_concurrency)),
            ..self.limits
        }
    }

    fn judging_model(&self) -> Option<ModelPin> {
        self.models.judge().as_ref().map(ModelBinding::pin)
    }

    /// The judge of a run's rubrics as it would be now.
    async fn judge_now(&self, eval: &EvalSpec) -> Result<Option<JudgePin>, Problem> {
        match (&eval.judge, self.judging_model()) {
            (Some(_), Some(model)) => {
                let suite = self.suite_of(eval).await?;
                Ok(JudgePin::of(&model, &suite))
            }
            _ => Ok(None),
        }
    }

    /// Who would look now for what a run's agent should have refused.
    fn safety_judge_now(&self, eval: &EvalSpec) -> Option<JudgePin> {
        let looks = eval.safety_judge.is_some();
        let model = self.judging_model().filter(|_| looks);
        model.as_ref().map(JudgePin::of_safety)
    }

    fn pinned(&self, class: ModelClass) -> Option<ModelPin> {
        self.models.resolve(class).as_ref().map(ModelBinding::pin)
    }

    async fn baseline(
        &self,
        tenant: &TenantId,
        request: &CreateRun,
    ) -> Result<Option<FoundBaseline>, Problem> {
        let Some(run) = &request.baseline_run_id else {
            return Ok(None);
        };
        let record = self
            .projections
            .record(tenant, run)
            .await
            .map_err(|cause| internal(&cause))?;
        let Some((record, eval)) =
            record.and_then(|record| record.spec.eval().cloned().map(|eval| (record, eval)))
        else {
            return Ok(None);
        };
        let thresholds = self.thresholds(&eval).await?;
        let report = self
            .look(run, |state| report(&record, &eval, &thresholds, state))
            .await?;
        Ok(Some(FoundBaseline {
            run_id: record.run_id.clone(),
            eval,
            conclusive: matches!(report.verdict, Verdict::Pass | Verdict::Fail),
            aggregate_score: report.summary.aggregate_score,
        }))
    }

    async fn record_run(
        &self,
        caller: &Caller,
        spec: RunSpec,
        callback: Option<WebhookRecord>,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Created, Problem> {
        let run = NewRun {
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
            spec,
            fork: None,
            callback,
        };
        self.record_new(run, Value::Null, claim).await
    }

    /// Records a run; `answer` has members the answer has beside the usual ones.
    async fn record_new(
        &self,
        run: NewRun,
        answer: Value,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Created, Problem> {
        let run_id = RunId::from(self.ids.mint("run"));
        let mut body = json!({
            "runId": run_id,
            "status": RunStatus::Pending,
            "eventsUrl": format!("/v1/runs/{run_id}/events"),
            "statusUrl": format!("/v1/runs/{run_id}"),
        });
        if let (Some(members), Value::Object(answer)) = (body.as_object_mut(), answer) {
            members.extend(answer);
        }
        if let (Some(members), Some(callback)) = (body.as_object_mut(), &run.callback) {
            let secret = json!(callback.secrets.current.expose());
            members.insert("callbackSecret".to_owned(), secret);
        }
        let record = RunRecord {
            run_id: run_id.clone(),
            tenant: run.tenant,
            principal: run.principal,
            created_at: self.clock.now(),
            spec: run.spec,
            fork: run.fork,
        };
        let completes = claim.map(|claim| IdempotencyCompletion {
            claim: claim.clone(),
            status: 201,
            body: body.to_string().into(),
        });
        let completes = completes.as_ref();
        let recorded = match &run.callback {
            Some(callback) => {
                self.store
                    .create_calling_back(&record, callback, completes)
                    .await
            }
            None => self.store.create(&record, completes).await,
        };
        recorded.map_err(|cause| match cause {
            StoreError::ScopeTaken(active) => already_active(&active),
            cause => internal(&cause),
        })?;
        self.store.notify_work().await;
        Ok(Created { run_id, body })
    }

    async fn suite_of(&self, eval: &EvalSpec) -> Result<Arc<AgentEvalSuite>, Problem> {
        let digest = &eval.suite_digest;
        let suite = self
            .library
            .suite(digest)
            .await
            .map_err(|cause| internal(&cause))?;
        suite.ok_or_else(|| {
            internal(&StoreError::Inconsistent {
                table: "blob",
                column: "digest",
            })
        })
    }

    async fn thresholds(&self, eval: &EvalSpec) -> Result<Thresholds, Problem> {
        Ok(self.suite_of(eval).await?.thresholds.unwrap_or_default())
    }

    async fn cancelling(&self, run: &RunId) -> Result<bool, Problem> {
        Ok(self
            .store
            .cancel_requested(run)
            .await
            .map_err(|cause| internal(&cause))?
            .is_some())
    }

    async fn look<T>(&self, run: &RunId, look: impl FnOnce(&RunState) -> T) -> Result<T, Problem> {
        self.projections
            .with_state(run, look)
            .await
            .map_err(|cause: projections::Error| internal(&cause))
    }
}

/// How long the active run of a scope may be expected to take on; nobody knows better.
const ACTIVE_RETRY_S: u64 = 5;

fn already_active(run: &RunId) -> Problem {
    Problem::new(
        ErrorCode::RunAlreadyActive,
        "another run of this `scopeId` is active; wait for it, cancel it, or leave `X-Dedup` out",
    )
    .with("activeRunId", run.as_str())
    // Of the two places the protocol knows, a host is never the browser.
    .with("activeHost", "cloud")
    .with("retryAfter", ACTIVE_RETRY_S)
}

/// The older of two moments, as far as there are any.
fn older(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

fn not_found() -> Problem {
    Problem::new(ErrorCode::NotFound, "no such run")
}
