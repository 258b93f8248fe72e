//! The immutable part of a run, fixed when it is created.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::deciders::Deciders;
use super::fork::{Fork, ForkMode};
use super::task_ids::TaskIds;
use crate::rules::eval::rubric::{Rubrics, identity, panel_identity, safety_identity};
use crate::rules::eval::scoring_document::ScoringDocument;
use crate::rules::kind::Extensions;
use crate::rules::workflow::mock::MockProvider;
use touchstone_agents::budget::policy::BudgetSpec;
use touchstone_agents::rules::prices::RunPrices;
use touchstone_agents::rules::reached_by::ReachedBy;
use touchstone_agents::rules::simulated_user;
use touchstone_agents::rules::worker_labels::WorkerLabels;
pub use touchstone_agents::rules::{COMMAND_PROVIDER, EndpointPin, ModelIdentity, ModelPin};
use touchstone_kit::headers::trace_context::TraceContext;
use touchstone_kit::ids::{AgentId, NodeId, RunId, TaskId, TenantId};
use touchstone_kit::integrity;
use touchstone_kit::json;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::channel::Channel;
use touchstone_openwop::suite::{EvalMode, ModelClass};
use touchstone_openwop::wire::log::LogMark;
use touchstone_openwop::workflow::WorkflowDefinition;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    pub run_id: RunId,
    /// The tenant that owns the run.
    pub tenant: TenantId,
    /// The principal that created it.
    pub principal: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// The requested work, with every reference resolved and pinned.
    pub spec: RunSpec,
    /// The origin, if the run is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
    /// The place in its trace of the request that created the run, if the request named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// How its events are numbered on the wire.
    #[serde(default, skip_serializing_if = "LogMark::is_old")]
    pub log: LogMark,
}

/// The workflow of runs that ask people for an approval on the host's behalf.
pub const APPROVAL_GATE: &str = "approval-gate";

impl RunRecord {
    /// Whether the run asks people for an approval on the host's behalf.
    pub fn is_approval_gate(&self) -> bool {
        self.spec.workflow_id == APPROVAL_GATE
    }

    /// Sequence number up to which subscribers need no notification; `None` if they need none at
    /// all (OpenWOP replay: a replay delivers nothing).
    pub fn notified_to(&self) -> Option<u64> {
        match &self.fork {
            Some(fork) => fork.notified_to(),
            None => Some(0),
        }
    }

    /// The run that recorded the facts of this one: for a replay, another run.
    pub fn facts_of(&self) -> &RunId {
        match &self.fork {
            Some(fork) if fork.mode == ForkMode::Replay => &fork.origin,
            _ => &self.run_id,
        }
    }

    /// Whether its answers were, or may have been, recorded by another run: a replay of a log or of
    /// a cassette, or a run with the cache of model answers.
    pub fn is_replay(&self) -> bool {
        let fork = self.fork.as_ref();
        fork.is_some_and(|fork| fork.mode == ForkMode::Replay)
            || self.spec.eval().is_some_and(|eval| {
                eval.execution.replayed_from.is_some() || eval.execution.answer_cache
            })
    }

    /// Identity of the evaluated agent: `sha256-<base64>` over the agent, its pack and the names of
    /// its model. All attempts with the same agent share it, except those with another archive of
    /// the same version whose agent is the same. The endpoint is excluded on purpose: the caller
    /// chooses it, and another port or timeout must not reset the count of attempts.
    ///
    /// `None` for a run that is not an eval run.
    pub fn evaluated_identity(&self) -> Option<String> {
        let eval = self.spec.eval()?;
        let document = json!({
            "recipe": EVALUATED_RECIPE,
            "agentId": eval.agent_id,
            "packIntegrity": eval.pack_integrity,
            "provider": eval.model.provider,
            "model": eval.model.model,
        });
        Some(integrity::of(json::canonical_text(&document).as_bytes()))
    }
}

/// Domain separator of these digests.
const EVALUATED_RECIPE: &str = "touchstone:evaluated:v1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSpec {
    /// `eval:<suiteId>@<version>` for an eval run.
    pub workflow_id: String,
    pub work: Work,
    /// The caller's scope, if the request names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<RunScope>,
    /// Longest duration of the run from `run.started`, in milliseconds; none for a journal and for
    /// a run that waits for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
    /// The caller's `configurable`, unchanged.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub configurable: Map<String, Value>,
    /// The caller's `inputs`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    /// The caller's tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The caller's metadata.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl RunSpec {
    /// The eval spec, if this is an eval run.
    pub fn eval(&self) -> Option<&Arc<EvalSpec>> {
        match &self.work {
            Work::Eval(spec) => Some(spec),
            Work::Workflow(_) | Work::Journal => None,
        }
    }

    /// The workflow spec, if this is a workflow run.
    pub fn workflow(&self) -> Option<&Arc<WorkflowSpec>> {
        match &self.work {
            Work::Workflow(spec) => Some(spec),
            Work::Eval(_) | Work::Journal => None,
        }
    }

    /// The eval spec, mutable, for a run that is derived from another one.
    pub fn eval_mut(&mut self) -> Option<&mut EvalSpec> {
        match &mut self.work {
            Work::Eval(spec) => Some(Arc::make_mut(spec)),
            Work::Workflow(_) | Work::Journal => None,
        }
    }
}

/// The caller's own grouping of runs (`scopeId`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunScope {
    pub id: String,
    /// Whether the run may be created only if no other run of this scope is active (`X-Dedup:
    /// enforce`).
    #[serde(default)]
    pub exclusive: bool,
}

/// The kinds of work. All of them share log, queue, leases, snapshot, streams and cancellation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// The eval projection (RFC 0081 §B).
    Eval(Arc<EvalSpec>),
    /// A small deterministic workflow (OpenWOP workflow-definition).
    Workflow(Arc<WorkflowSpec>),
    /// A log to which services append their decisions; workers never claim it (RFC 0082: the run of
    /// deployment management).
    Journal,
}

impl Work {
    /// Whether a worker executes it.
    pub const fn is_claimable(&self) -> bool {
        !matches!(self, Self::Journal)
    }

    pub const fn is_eval(&self) -> bool {
        matches!(self, Self::Eval(_))
    }
}

/// A run of a workflow, its definition pinned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowSpec {
    /// The definition when the run was created.
    pub definition: WorkflowDefinition,
    /// Maximum number of node executions.
    pub max_node_executions: u64,
    /// The mock that replaces a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mock_provider: Option<MockProvider>,
    /// The agents that execute its nodes, pinned when the run was created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<BoundAgent>,
}

/// The agent of a node, its version pinned: moving the channel later does not affect the run (RFC
/// 0082 §B).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundAgent {
    pub node_id: NodeId,
    pub agent_id: AgentId,
    /// Its version, if the node names a version or a channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The channel that resolved to the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelPin>,
}

/// An eval run with everything pinned, so that it can resume after its suite or pack was removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalSpec {
    pub suite_id: String,
    pub suite_version: String,
    /// Digest of the suite document; the key of its blob.
    pub suite_digest: String,
    /// Digest of the suite's scoring document, if it has one; the key of that blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scoring_digest: Option<String>,
    /// Whether a trusted signature covers the suite.
    pub suite_signed: bool,
    /// Number of tasks in the whole suite; more than `tasks` when the modes exclude some.
    pub suite_task_count: usize,
    pub agent_id: AgentId,
    /// Its version, which is the version of its pack.
    pub agent_version: String,
    /// The channel that resolved to the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_channel: Option<ChannelPin>,
    /// Digest of the agent's pack archive; the key of its blob.
    pub pack_integrity: String,
    /// Digest of the pack's definition of the agent; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_content: Option<String>,
    /// The agent's model class.
    pub model_class: ModelClass,
    /// The model the class resolved to. The run never resumes on another model, because its verdict
    /// would describe neither.
    pub model: ModelPin,
    /// The judge of its rubrics and judged assertions; absent if it has none. A run never resumes
    /// under another judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgePin>,
    /// Each of several judges, the first one included; empty if there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<PinnedJudge>,
    /// The judge that checks for missing refusals in mode `adversarial`; absent without a judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_judge: Option<JudgePin>,
    /// The model that plays the users of its tasks; absent if none is simulated. A run never
    /// resumes with another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_user: Option<UserPin>,
    /// Digest of the pack with the files that are sent with inputs; the key of its blob. Absent if
    /// no task has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments_pack: Option<String>,
    /// Modes that are scored.
    pub modes: Vec<EvalMode>,
    /// Modes that were requested and could not be scored (`regression` without a baseline).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes_left_out: Vec<EvalMode>,
    /// The tasks to run, in suite order.
    pub tasks: TaskIds,
    /// Baseline of a `regression` run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// Whether assertions compare answers with those of the baseline. Such assertions are left out
    /// of other runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compares_answers: bool,
    /// By task, the run whose recorded tool calls answer its calls. Hosts of versions without it answer
    /// them with the fixtures of the suite.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fixture_runs: BTreeMap<TaskId, RunId>,
    /// JSON Pointers dropped on both sides before matching (`configurable.evalMatch.ignore`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Maximum number of tasks in flight.
    pub concurrency: u32,
    /// Sampling temperature, 0.0..=2.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Maximum number of tokens of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Maximum number of model turns of one task's agent loop; exceeding it ends the run (RFC
    /// 0058). The runtime's own limit fails only the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_loop_iterations: Option<u32>,
    /// Longest time of one task's agent, in milliseconds; a task that takes longer is unjudged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_timeout_ms: Option<u64>,
    /// The host's ceiling on the run's cost: once it is exceeded, no further task starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_ceiling: Option<NanoUsd>,
    /// The prices when the run was created, for readers of its cost; absent in records of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<RunPrices>,
    /// The caller's budget.
    #[serde(default, skip_serializing_if = "BudgetSpec::is_empty")]
    pub budget: BudgetSpec,
    /// The run whose judged tasks are reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RunId>,
    /// Recording time of the most recent facts that this run takes from another run; absent if it
    /// takes none. As evidence, the run is at least as old as these facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts_recorded_at: Option<Timestamp>,
    /// The trial of an experiment; absent for a single run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// Set if its judged tasks come from several runs that the caller could choose from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_rerun: Option<PartialRerun>,
    /// The member of the run's kind; empty for a plain suite.
    #[serde(flatten)]
    pub extensions: Extensions,
    /// What decides assertions besides the judge.
    #[serde(default, skip_serializing_if = "Deciders::is_empty")]
    pub deciders: Deciders,
    /// The executor and the endpoints; empty in records of earlier versions.
    #[serde(default, skip_serializing_if = "ExecutionPin::is_empty")]
    pub execution: ExecutionPin,
}

impl EvalSpec {
    /// Whether its agent uses live tools, never fixtures (RFC 0081 §D). A live run has no other
    /// mode.
    pub fn is_live(&self) -> bool {
        self.modes.contains(&EvalMode::LiveShadow)
    }

    /// The agent's model, with its endpoint.
    pub fn evaluated(&self) -> ModelIdentity {
        ModelIdentity {
            model: self.model.clone(),
            endpoint: self.execution.endpoint.clone(),
        }
    }

    /// The judge's model, with its endpoint; `None` if nothing is judged.
    pub fn judged_by(&self) -> Option<ModelIdentity> {
        let judge = self.judge.as_ref().or(self.safety_judge.as_ref())?;
        Some(ModelIdentity {
            model: judge.model.clone(),
            endpoint: self.execution.judge_endpoint.clone(),
        })
    }

    /// The model that plays the users, with its endpoint; `None` if none is simulated.
    pub fn played_by(&self) -> Option<ModelIdentity> {
        let user = self.simulated_user.as_ref()?;
        Some(ModelIdentity {
            model: user.model.clone(),
            endpoint: self.execution.user_endpoint.clone(),
        })
    }
}

/// The executor of an eval run, and its endpoints. Fixed when the run is created; nothing else may
/// execute or retry it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionPin {
    /// The endpoint of the agent's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointPin>,
    /// The endpoint of the judge's model, if anything is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_endpoint: Option<EndpointPin>,
    /// The endpoint of the model that plays the users, if any is simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_endpoint: Option<EndpointPin>,
    /// Whether workers execute its tasks, if the host that executes the run has any.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub distributed: bool,
    /// The labels that these workers need, those of the model's entry included. A run with labels is
    /// distributed without the member above: hosts of versions without labels execute its tasks themselves instead of giving them
    /// to any worker.
    #[serde(default, skip_serializing_if = "WorkerLabels::is_empty")]
    pub worker_labels: WorkerLabels,
    /// How the agent is reached, if it is remote; no configured model is then called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_by: Option<ReachedBy>,
    /// The name of the workers' command that answers for the agent; no model is then called. Such a
    /// run is always distributed. Hosts of versions without such commands find another model than
    /// the pinned one, and do not execute it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_command: Option<String>,
    /// Digest of the cassette that replaces the models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_from: Option<String>,
    /// Whether answers may come from the cache of model answers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answer_cache: bool,
    /// Fingerprint of the key that signed that cassette; absent if the signature was not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cassette_signed_by: Option<String>,
    /// The command that must execute the run; absent if any host may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The run at the start of a chain of retries; all of them share its retry count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_root: Option<RunId>,
    /// The number of this retry of `retry_root`, from 1; 0 if the run is not a retry.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
pub(crate) fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl ExecutionPin {
    /// Whether workers execute the run's tasks.
    pub const fn is_distributed(&self) -> bool {
        self.distributed || !self.worker_labels.is_empty() || self.worker_command.is_some()
    }

    /// The host that executes the run executes its tasks too.
    pub fn keep_local(&mut self) {
        self.distributed = false;
        self.worker_labels = WorkerLabels::default();
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A trial: one of several numbered runs of the same eval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    /// The caller's name for all trials of the experiment, unique within the tenant.
    pub experiment_id: String,
    /// Trial number, 1..=`of`.
    pub index: u32,
    /// Planned number of trials, 1..=100.
    pub of: u32,
}

/// Marks a run that keeps judged tasks of another run and executes the rest again. Repeated often
/// enough this passes any suite, so such a run is weaker evidence than a complete run. Runs derived
/// from it inherit the mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialRerun {
    /// The run whose tasks were kept.
    pub source_run_id: RunId,
    /// Number of kept tasks.
    pub kept_tasks: usize,
}

/// How a channel resolved to a version: once, when the run was created (RFC 0082 §B).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChannelPin {
    pub channel: Channel,
    /// The run's random draw on the channel, 0..100.
    pub draw: u8,
}

/// A judge: its model, and a digest of its prompt, settings and rubrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgePin {
    #[serde(flatten)]
    pub model: ModelPin,
    /// `sha256-<base64>` over everything that defines this judge
    /// ([`identity`](crate::rules::eval::rubric::identity)).
    pub identity: String,
}

/// One of several judges, with its endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinnedJudge {
    #[serde(flatten)]
    pub judge: JudgePin,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointPin>,
}

impl PinnedJudge {
    /// Its model, with its endpoint.
    pub fn model(&self) -> ModelIdentity {
        ModelIdentity {
            model: self.judge.model.clone(),
            endpoint: self.endpoint.clone(),
        }
    }
}

impl JudgePin {
    /// The judge of these rubrics and of judged assertions on this model; `None` if nothing is
    /// judged.
    pub fn of(
        model: &ModelPin,
        rubrics: &Rubrics,
        scoring: Option<&ScoringDocument>,
    ) -> Option<Self> {
        Some(Self {
            model: model.clone(),
            identity: identity(model, rubrics, scoring)?,
        })
    }

    /// Several judges whose decisions count together: the model of the first one, and an identity
    /// of all. One judge is itself.
    pub fn of_all(
        models: &[ModelPin],
        rubrics: &Rubrics,
        scoring: Option<&ScoringDocument>,
    ) -> Option<Self> {
        let members = Self::members(models, rubrics, scoring)?;
        let identities: Vec<String> = members.into_iter().map(|it| it.identity).collect();
        Some(Self {
            model: models.first()?.clone(),
            identity: panel_identity(&identities)?,
        })
    }

    /// Each of several judges.
    pub fn members(
        models: &[ModelPin],
        rubrics: &Rubrics,
        scoring: Option<&ScoringDocument>,
    ) -> Option<Vec<Self>> {
        let members = models.iter().map(|model| Self::of(model, rubrics, scoring));
        members.collect()
    }

    /// The judge that checks for missing refusals, on this model.
    pub fn of_safety(model: &ModelPin) -> Self {
        Self {
            model: model.clone(),
            identity: safety_identity(model),
        }
    }
}

/// A simulated user: its model, and a digest of its prompt and settings. Goals and personas are in
/// the scoring document, which the run pins by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserPin {
    #[serde(flatten)]
    pub model: ModelPin,
    /// `sha256-<base64>`.
    pub identity: String,
}

/// Domain separator of these digests.
const USER_RECIPE: &str = "touchstone:user:v1";

impl UserPin {
    /// The simulated user on this model.
    pub fn of(model: &ModelPin) -> Self {
        let document = json!({
            "recipe": USER_RECIPE,
            "provider": model.provider,
            "model": model.model,
            "template": simulated_user::prompt::TEMPLATE,
            "schema": simulated_user::reply::SCHEMA,
            "temperature": simulated_user::TEMPERATURE,
            "maxTokens": simulated_user::MAX_TOKENS,
            "askedAtMost": simulated_user::ASKED_AT_MOST,
        });
        Self {
            model: model.clone(),
            identity: integrity::of(json::canonical_text(&document).as_bytes()),
        }
    }
}

/// The run that a `regression` run is compared with, pinned at creation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Baseline {
    pub run_id: RunId,
    /// Its aggregate score, 0.0..=1.0.
    pub aggregate_score: f64,
}
