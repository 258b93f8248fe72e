//! Planning an eval run: the facts that its request refers to, at this moment.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use crate::ports::storage::ContentKept;
use crate::rules::eval::report::{Verdict, totals};
use crate::rules::kind::{KindPlan, PlanKind};
use crate::rules::run::record::{EvalSpec, RunSpec};
use crate::rules::run::request::fixtures::{is_usable, unusable};
use crate::rules::run::request::selection::{not_passed, unknown_source};
use crate::rules::run::request::{
    AgentFacts, BaselineFacts, CreateRun, HostLimits, SuiteFacts, SuiteOutline,
    SuiteOutlineBuilder, check_at_host, check_size, pin_labels, plan,
};
use crate::service::library::LoadedAgent;
use crate::service::library::suites::SuiteIndex;
use crate::service::runs::{Runs, lost_suite, unreadable_suite};
use crate::store;
use touchstone_agents::model::worker_command::at_workers;
use touchstone_agents::ports::model::ModelBinding;
use touchstone_agents::rules::reached_by::ReachedBy;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_kit::integrity;
use touchstone_openwop::suite::{AgentEvalSuite, EvalMode};
use touchstone_packs::ports::inventory::SuiteRecord;
use touchstone_packs::store as pack_store;

/// Plans the runs of one evaluation kind.
#[async_trait]
pub trait KindPlanner: Send + Sync {
    /// Reads what a request and its suite refer to, and returns what plans the run. Content in the
    /// request that does not belong into the run's record is stored, and replaced by its digest.
    async fn prepare(
        &self,
        tenant: &TenantId,
        request: &mut CreateRun,
        suite: Option<&SuiteRecord>,
    ) -> Result<Box<PlanKind<'static>>, Problem>;

    /// Plans a run that is not of this kind, and refuses one that is.
    fn plan_other(
        &self,
        request: &CreateRun,
        suite: &AgentEvalSuite,
        modes: &[EvalMode],
    ) -> Result<Option<KindPlan>, Problem>;
}

/// A remote agent, with the pack that represents it: the tenant has not installed it.
#[derive(Clone, Copy, Debug)]
pub struct RemoteAgent<'a> {
    pub reached_by: &'a ReachedBy,
    /// The archive of the pack.
    pub pack: &'a [u8],
}

/// The baseline eval run of a comparison.
pub(super) struct FoundBaseline {
    run_id: RunId,
    eval: Arc<EvalSpec>,
    /// Whether every task has a result.
    conclusive: bool,
    aggregate_score: f64,
    keeps_answers: bool,
}

impl FoundBaseline {
    pub(super) fn eval(&self) -> &EvalSpec {
        &self.eval
    }

    pub(super) fn facts(&self) -> BaselineFacts<'_> {
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
            scoring_digest: self.eval.scoring_digest.as_deref(),
            aggregate_score: self.aggregate_score,
            keeps_answers: self.keeps_answers,
        }
    }
}

impl Runs {
    pub(super) async fn plan(
        &self,
        tenant: &TenantId,
        request: CreateRun,
    ) -> Result<RunSpec, Problem> {
        let (id, version) = (&request.suite.suite_id, &request.suite.version);
        let suite = pack_store::inventory::suite(&self.store, tenant, id, version).await;
        let suite = suite.map_err(|cause| internal(&cause))?;
        self.plan_over(tenant, request, suite, None).await
    }

    /// As [`plan`](Self::plan), with a suite that need not be among the tenant's.
    pub(super) async fn plan_over(
        &self,
        tenant: &TenantId,
        request: CreateRun,
        suite: Option<SuiteRecord>,
        remote: Option<RemoteAgent<'_>>,
    ) -> Result<RunSpec, Problem> {
        let mut spec = self.pinned(tenant, request, suite, remote).await?;
        self.pin_deciders(tenant, &mut spec).await?;
        Ok(spec)
    }

    /// The run with everything pinned.
    async fn pinned(
        &self,
        tenant: &TenantId,
        mut request: CreateRun,
        suite: Option<SuiteRecord>,
        remote: Option<RemoteAgent<'_>>,
    ) -> Result<RunSpec, Problem> {
        self.pin_channel(tenant, &mut request).await?;
        let index = match &suite {
            Some(suite) => {
                let index = self.library.suite_index(&suite.digest).await;
                index.map_err(unreadable_suite)?
            }
            None => None,
        };
        let scoring = match suite.as_ref().and_then(|suite| suite.scoring.as_ref()) {
            Some(digest) => {
                let scoring = self.library.scoring(digest).await;
                Some(scoring.map_err(|cause| internal(&cause))?)
            }
            None => None,
        };
        let pack = self.pack_of(tenant, suite.as_ref()).await?;
        let agent = self.agent(tenant, &request, remote).await?;
        let baseline = self.baseline(tenant, &request).await?;
        self.check_fixture_runs(tenant, &request).await?;
        if let Some(run) = &request.tasks.failed_of {
            let failed = self.failed_tasks(tenant, run).await?;
            request.tasks.failed = Some(failed);
        }
        let mut plans = Vec::with_capacity(self.planners.len());
        for planner in &self.planners {
            let plan = planner.prepare(tenant, &mut request, suite.as_ref());
            plans.push(plan.await?);
        }
        let model = match (remote, &agent) {
            (Some(remote), _) => {
                check_at_host(&request)?;
                Some(self.reach(tenant, remote.reached_by)?)
            }
            (None, Some(agent)) => match &request.worker_command {
                Some(command) => Some(at_workers(command)),
                None => self.models.resolve(agent.definition.model_class),
            },
            (None, None) => None,
        };
        let limits = self.limits_for(model.as_ref());
        let known = match (&index, &agent) {
            (Some(index), Some(agent)) => Some(self.outlined(index, agent, &limits).await?),
            _ => None,
        };
        let mut spec = {
            let suite = suite.as_ref().zip(known.as_ref());
            let suite = suite.map(|(suite, (document, outline))| SuiteFacts {
                document,
                outline,
                digest: &suite.digest,
                scoring: suite.scoring.as_deref(),
                scoring_document: scoring.as_deref(),
                signed: suite.signed,
                is_streamed: index.as_ref().is_some_and(|index| index.is_streamed()),
            });
            let agent = agent.as_ref().map(|agent| AgentFacts {
                agent_id: &agent.definition.agent_id,
                version: &agent.version,
                pack_integrity: &agent.pack_integrity,
                content: &agent.content,
                model_class: agent.definition.model_class,
                model: model.as_ref().map(ModelBinding::pin),
            });
            plan(
                request,
                &limits,
                suite.as_ref(),
                agent.as_ref(),
                baseline.as_ref().map(FoundBaseline::facts).as_ref(),
                &self.judging_models(),
                &|request, suite, modes| {
                    first(plans.iter().map(|plan| plan(request, suite, modes)))
                },
            )?
        };
        if let (Some(remote), Some(eval)) = (remote, spec.eval_mut()) {
            eval.execution.reached_by = Some(remote.reached_by.clone());
            // Its credential is in the configuration of this host.
            eval.execution.keep_local();
        }
        pin_labels_of(model.as_ref(), &mut spec)?;
        self.plan_conversations(&mut spec, baseline.as_ref(), pack.as_deref())
            .await?;
        self.pin_endpoints(tenant, &mut spec);
        Ok(spec)
    }

    /// A suite as planning needs it: the document, which has its tasks only if one is of an evaluation
    /// kind, and the outline of its tasks for a run of this agent.
    pub(super) async fn outlined(
        &self,
        suite: &SuiteIndex,
        agent: &LoadedAgent,
        limits: &HostLimits,
    ) -> Result<(Arc<AgentEvalSuite>, SuiteOutline), Problem> {
        // Before all tasks are read.
        check_size(suite.task_count, limits)?;
        let mut outline = SuiteOutlineBuilder::default();
        let mut is_plain = true;
        for number in 0..suite.chunk_count() {
            let tasks = self.library.chunk(suite, number).await;
            let tasks = tasks.map_err(unreadable_suite)?;
            for task in tasks.iter() {
                outline.add(task, |input| agent.accepts(input));
                let mut kinds = self.library.kinds.iter();
                is_plain = is_plain && !kinds.any(|kind| kind.is_expectation_of(task));
            }
        }
        if is_plain {
            return Ok((Arc::new(suite.header.clone()), outline.finish()));
        }
        let document = self.library.suite(suite.digest()).await;
        let document = document.map_err(unreadable_suite)?;
        Ok((document.ok_or_else(lost_suite)?, outline.finish()))
    }

    async fn agent(
        &self,
        tenant: &TenantId,
        request: &CreateRun,
        remote: Option<RemoteAgent<'_>>,
    ) -> Result<Option<Arc<LoadedAgent>>, Problem> {
        let agent = match remote {
            Some(remote) => {
                let digest = integrity::of(remote.pack);
                let kept = pack_store::blobs::put(&self.store, &digest, remote.pack).await;
                kept.map_err(|cause| internal(&cause))?;
                self.library.agent(&digest, &request.agent_id).await
            }
            None => {
                let version = request.agent_version.as_deref();
                self.library
                    .installed_agent(tenant, &request.agent_id, version)
                    .await
            }
        };
        agent.map_err(|cause| internal(&cause))
    }

    /// The limits of a run on this model: more tasks in flight than its endpoint's concurrency
    /// would only hold slots that others could use.
    pub(super) fn limits_for(&self, model: Option<&ModelBinding>) -> HostLimits {
        let host = self.limits.max_concurrency;
        HostLimits {
            max_concurrency: model
                .map_or(host, |model| host.min(model.model.info().max_concurrency)),
            ..self.limits.clone()
        }
    }

    /// The tasks of an earlier eval run that did not pass; an error if there is no such run.
    async fn failed_tasks(&self, tenant: &TenantId, run: &RunId) -> Result<Vec<TaskId>, Problem> {
        let record = self.projections.record(tenant, run).await;
        let record = record.map_err(|cause| internal(&cause))?;
        let eval = record.as_ref().and_then(|record| record.spec.eval());
        let eval = eval.ok_or_else(|| unknown_source(run))?;
        self.with_state(run, |state| not_passed(&eval.tasks, &state.eval))
            .await
    }

    /// Whether each run that is named as the source of tool calls is one.
    pub(super) async fn check_fixture_runs(
        &self,
        tenant: &TenantId,
        request: &CreateRun,
    ) -> Result<(), Problem> {
        let suite = (&*request.suite.suite_id, &*request.suite.version);
        let sources = &request.fixture_runs;
        for run in sources.values().collect::<BTreeSet<_>>() {
            let record = self.projections.record(tenant, run).await;
            let record = record.map_err(|cause| internal(&cause))?;
            let eval = record.as_ref().and_then(|record| record.spec.eval());
            let eval = eval.ok_or_else(unusable)?;
            let kept = store::storage::content_kept(&self.store, run).await;
            if kept.map_err(|cause| internal(&cause))? != Some(ContentKept::All) {
                return Err(unusable());
            }
            let mut tasks = sources.iter().filter(|it| it.1 == run).map(|it| it.0);
            let usable = self.with_state(run, |state| {
                tasks.all(|task| is_usable(suite, eval, state, task))
            });
            if !usable.await? {
                return Err(unusable());
            }
        }
        Ok(())
    }

    pub(super) async fn baseline(
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
        let totals = self
            .with_state(run, |state| {
                totals(self.library.kinds, &record, &eval, &thresholds, state)
            })
            .await?;
        let kept = store::storage::content_kept(&self.store, run).await;
        let kept = kept.map_err(|cause| internal(&cause))?;
        Ok(Some(FoundBaseline {
            keeps_answers: kept == Some(ContentKept::All),
            run_id: record.run_id.clone(),
            eval,
            conclusive: matches!(totals.verdict, Verdict::Pass | Verdict::Fail),
            aggregate_score: totals.summary.aggregate_score,
        }))
    }
}

/// Adds the labels that the entry of the run's model requires.
pub(super) fn pin_labels_of(
    model: Option<&ModelBinding>,
    spec: &mut RunSpec,
) -> Result<(), Problem> {
    match (model, spec.eval_mut()) {
        (Some(model), Some(eval)) => {
            pin_labels(eval, &model.worker_labels, model.endpoint.is_some())
        }
        _ => Ok(()),
    }
}

/// The first plan of several kinds. Every kind may refuse the run.
pub(super) fn first(
    plans: impl Iterator<Item = Result<Option<KindPlan>, Problem>>,
) -> Result<Option<KindPlan>, Problem> {
    let plans: Vec<Option<KindPlan>> = plans.collect::<Result<_, _>>()?;
    Ok(plans.into_iter().flatten().next())
}
