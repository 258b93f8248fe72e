//! What is known of a run when it is created, and never changes.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::fork::{Fork, ForkMode};
use super::reached_by::ReachedBy;
use crate::domain::budget::policy::BudgetSpec;
use crate::domain::deployment::Channel;
use crate::domain::eval::rubric::{identity, safety_identity};
use crate::domain::ids::{AgentId, NodeId, RunId, TaskId, TenantId};
use crate::domain::money::NanoUsd;
use crate::domain::oasis::request::OasisSpec;
use crate::domain::pack::integrity;
use crate::domain::workflow::mock::MockProvider;
use crate::protocol::json;
use crate::protocol::openwop::suite::{AgentEvalSuite, EvalMode, ModelClass};
use crate::protocol::openwop::workflow::WorkflowDefinition;

/// A run as it was created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// The run.
    pub run_id: RunId,
    /// Its owner.
    pub tenant: TenantId,
    /// Who asked for it.
    pub principal: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// What it was asked to do, with every reference resolved and pinned.
    pub spec: RunSpec,
    /// Where it comes from, if it is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
}

impl RunRecord {
    /// Up to where subscribers need not be told of its log; `None` if they need not be told of any of it (OpenWOP replay:
    /// a replay delivers nothing).
    pub fn told(&self) -> Option<u64> {
        match &self.fork {
            Some(fork) => fork.told(),
            None => Some(0),
        }
    }

    /// The run that recorded the facts of this one: a replay shows another run's.
    pub fn facts_of(&self) -> &RunId {
        match &self.fork {
            Some(fork) if fork.mode == ForkMode::Replay => &fork.origin,
            _ => &self.run_id,
        }
    }

    /// Whether its answers were recorded by another run: a replay of a log or of a cassette.
    pub fn is_replay(&self) -> bool {
        let fork = self.fork.as_ref();
        fork.is_some_and(|fork| fork.mode == ForkMode::Replay)
            || self
                .spec
                .eval()
                .is_some_and(|eval| eval.execution.replayed_from.is_some())
    }

    /// What an eval run evaluates: `sha256-<base64>` over the agent, its pack and the names of its model. All attempts at the
    /// same thing share it, except those of another archive of the same version whose agent is the same. The endpoint is left
    /// out on purpose: whoever starts a run chooses it, and another port or timeout must not start a new count of attempts.
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

/// Separates these digests from all others.
const EVALUATED_RECIPE: &str = "touchstone:evaluated:v1";

/// What a run does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSpec {
    /// `eval:<suiteId>@<version>` for an eval run.
    pub workflow_id: String,
    /// The work itself.
    pub work: Work,
    /// What it is about, if its caller said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<RunScope>,
    /// Longest duration of the run from `run.started`, in milliseconds; a journal has none, nor has a run that
    /// waits for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
    /// The caller's `configurable`, as it came.
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
    /// The eval projection, if this is an eval run.
    pub fn eval(&self) -> Option<&Arc<EvalSpec>> {
        match &self.work {
            Work::Eval(spec) => Some(spec),
            Work::Workflow(_) | Work::Journal => None,
        }
    }

    /// The workflow, if this is a run of one.
    pub fn workflow(&self) -> Option<&Arc<WorkflowSpec>> {
        match &self.work {
            Work::Workflow(spec) => Some(spec),
            Work::Eval(_) | Work::Journal => None,
        }
    }

    /// The eval projection to be changed, for a run that is made from another one.
    pub fn eval_mut(&mut self) -> Option<&mut EvalSpec> {
        match &mut self.work {
            Work::Eval(spec) => Some(Arc::make_mut(spec)),
            Work::Workflow(_) | Work::Journal => None,
        }
    }
}

/// What a run is about, in the caller's own words (`scopeId`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunScope {
    /// The name.
    pub id: String,
    /// Whether the run was to be created only if no other one of this scope was active (`X-Dedup: enforce`).
    #[serde(default)]
    pub exclusive: bool,
}

/// The kinds of work there are. All of them share log, queue, leases, snapshot, streams and cancel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// The eval projection (RFC 0081 §B).
    Eval(Arc<EvalSpec>),
    /// A small deterministic workflow (OpenWOP workflow-definition).
    Workflow(Arc<WorkflowSpec>),
    /// A log to which services append what they decide; no worker ever claims it (RFC 0082: the run of deployment
    /// management).
    Journal,
}

impl Work {
    /// Whether a worker carries it out.
    pub const fn is_claimable(&self) -> bool {
        !matches!(self, Self::Journal)
    }
}

/// A run of a workflow, its definition pinned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowSpec {
    /// The definition as it was when the run was created.
    pub definition: WorkflowDefinition,
    /// Nodes that may begin.
    pub max_node_executions: u64,
    /// What stands in for a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mock_provider: Option<MockProvider>,
    /// The agents that execute its nodes, as they were when the run was created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<BoundAgent>,
}

/// The agent of a node, its version pinned: a channel that moves later moves no run (RFC 0082 §B).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundAgent {
    /// The node.
    pub node_id: NodeId,
    /// The agent.
    pub agent_id: AgentId,
    /// Its version, if the node names one or a channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The channel that the version was found on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelPin>,
}

/// An eval run with everything pinned: it can be resumed after its suite or pack was removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalSpec {
    /// Suite id.
    pub suite_id: String,
    /// Suite version.
    pub suite_version: String,
    /// Digest of the suite document; the key of its blob.
    pub suite_digest: String,
    /// Whether a trusted signature covers the suite.
    pub suite_signed: bool,
    /// Tasks in the suite as a whole; more than `tasks` when the modes leave some out.
    pub suite_task_count: usize,
    /// The agent.
    pub agent_id: AgentId,
    /// Its version: the version of its pack.
    pub agent_version: String,
    /// The channel that the version was found on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_channel: Option<ChannelPin>,
    /// Digest of the agent's pack archive; the key of its blob.
    pub pack_integrity: String,
    /// Digest of what the pack says about the agent; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_content: Option<String>,
    /// The agent's model class.
    pub model_class: ModelClass,
    /// The model the class resolved to. The run is never gone on with on another one: its verdict would be about neither.
    pub model: ModelPin,
    /// Who judges its rubric tasks; absent if it has none. A run is never gone on with under another judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgePin>,
    /// Who looks for what the agent should have refused, in mode `adversarial`; absent without a judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_judge: Option<JudgePin>,
    /// Modes that are scored.
    pub modes: Vec<EvalMode>,
    /// Modes that were asked for and could not be scored (`regression` without a baseline).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes_left_out: Vec<EvalMode>,
    /// The tasks to run, in suite order.
    pub tasks: Vec<TaskId>,
    /// Baseline of a `regression` run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// JSON Pointers dropped on both sides before matching (`configurable.evalMatch.ignore`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Tasks in flight at most.
    pub concurrency: u32,
    /// Sampling temperature, 0.0..=2.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Most tokens of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Model turns of one task's agent loop; one more ends the run (RFC 0058). The runtime has a bound of its own, beyond
    /// which only the task fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_loop_iterations: Option<u32>,
    /// Host ceiling on the run's cost: beyond it no further task starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_ceiling: Option<NanoUsd>,
    /// The caller's budget.
    #[serde(default, skip_serializing_if = "BudgetSpec::is_empty")]
    pub budget: BudgetSpec,
    /// The run whose judged tasks are reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RunId>,
    /// When the youngest facts were recorded that this run takes over from another one; absent if it takes none over. As
    /// evidence it is at least as old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts_recorded_at: Option<Timestamp>,
    /// Which trial of an experiment it is; absent for a run that stands alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// Set if its judged tasks are of several tries between which somebody could choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_rerun: Option<PartialRerun>,
    /// The OASIS evaluation it is; absent if it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oasis: Option<Box<OasisSpec>>,
    /// Who executes it and which endpoints answer; empty in records of earlier versions.
    #[serde(default, skip_serializing_if = "ExecutionPin::is_empty")]
    pub execution: ExecutionPin,
}

impl EvalSpec {
    /// Whether its agent works on live tools, never on fixtures (RFC 0081 §D). Such a run has no other mode.
    pub fn is_live(&self) -> bool {
        self.modes.contains(&EvalMode::LiveShadow)
    }

    /// The model that answers for the agent, with its endpoint.
    pub fn evaluated(&self) -> ModelIdentity {
        ModelIdentity {
            model: self.model.clone(),
            endpoint: self.execution.endpoint.clone(),
        }
    }

    /// The model that judges, with its endpoint; `None` if nothing is judged.
    pub fn judged_by(&self) -> Option<ModelIdentity> {
        let judge = self.judge.as_ref().or(self.safety_judge.as_ref())?;
        Some(ModelIdentity {
            model: judge.model.clone(),
            endpoint: self.execution.judge_endpoint.clone(),
        })
    }
}

/// Who executes an eval run, and which endpoints answer. Set when the run is created; nothing else may execute or retry it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionPin {
    /// The endpoint of the agent's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointPin>,
    /// The endpoint of the judge's model, if anything is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_endpoint: Option<EndpointPin>,
    /// How the agent is reached, if it runs elsewhere: then no configured model answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_by: Option<ReachedBy>,
    /// Digest of the cassette that answers in place of the models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_from: Option<String>,
    /// Fingerprint of the key that signed that cassette; absent if the signature was not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cassette_signed_by: Option<String>,
    /// The command that was asked to execute the run; absent if any host may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The run that was retried first: the retries of retries count with those of their source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_root: Option<RunId>,
    /// Which retry of `retry_root` this is, from 1; 0 if it is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl ExecutionPin {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An endpoint: where it is, and what it is set up to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointPin {
    /// Origin and path, without credentials and query; absent for a command, a script or a cassette.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `sha256-<base64>` over the configuration without secrets, the command line, or the cassette.
    pub digest: String,
}

/// A model with the endpoint that answers for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelIdentity {
    /// Its names.
    pub model: ModelPin,
    /// Its endpoint; `None` in records of earlier versions.
    pub endpoint: Option<EndpointPin>,
}

impl ModelIdentity {
    /// Whether this model may answer where `pinned` is asked for. A run of an earlier version pins only names.
    pub fn serves(&self, pinned: &Self) -> bool {
        self.model == pinned.model
            && pinned
                .endpoint
                .as_ref()
                .is_none_or(|endpoint| self.endpoint.as_ref() == Some(endpoint))
    }
}

impl fmt::Display for ModelIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} model `{}`", self.model.provider, self.model.model)?;
        let Some(endpoint) = &self.endpoint else {
            return Ok(());
        };
        if let Some(url) = &endpoint.url {
            write!(f, " at {url}")?;
        }
        let digest: String = endpoint.digest.chars().take(DIGEST_SHOWN).collect();
        write!(f, " (digest {digest}…)")
    }
}

/// Characters of a digest that distinguish two identities in a message.
const DIGEST_SHOWN: usize = 19;

/// One of several runs of the same thing, told apart by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    /// What they have in common: a name the caller gives, unique among its tenant's.
    pub experiment_id: String,
    /// Which one, 1..=`of`.
    pub index: u32,
    /// How many there are to be, 1..=100.
    pub of: u32,
}

/// Judged tasks of one run were kept and its others executed anew. Done often enough this passes any suite, so it says less
/// than a run in one piece. It stays with whatever is made from such a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialRerun {
    /// The run whose tasks were kept.
    pub source_run_id: RunId,
    /// How many of them.
    pub kept_tasks: usize,
}

/// How a channel came to a version: once, when the run was created, and never again (RFC 0082 §B).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChannelPin {
    /// The channel.
    pub channel: Channel,
    /// The run's one draw on it, 0..100.
    pub draw: u8,
}

/// The provider of an agent that is a local command.
pub const COMMAND_PROVIDER: &str = "command";

/// A model, as `provider.usage` names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPin {
    /// Provider.
    pub provider: String,
    /// Model.
    pub model: String,
}

/// A judge: its model, and what it is told, how and by which rubrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgePin {
    /// The model that judges.
    #[serde(flatten)]
    pub model: ModelPin,
    /// `sha256-<base64>` over everything that makes this judge ([`identity`](crate::domain::eval::rubric::identity)).
    pub identity: String,
}

impl JudgePin {
    /// The judge of this suite's rubrics on this model; `None` for a suite without any.
    pub fn of(model: &ModelPin, suite: &AgentEvalSuite) -> Option<Self> {
        Some(Self {
            model: model.clone(),
            identity: identity(model, suite)?,
        })
    }

    /// Who looks for what the agent should have refused, on this model.
    pub fn of_safety(model: &ModelPin) -> Self {
        Self {
            model: model.clone(),
            identity: safety_identity(model),
        }
    }
}

/// The run a `regression` run is compared with, pinned at creation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Baseline {
    /// The baseline run.
    pub run_id: RunId,
    /// Its aggregate score, 0.0..=1.0.
    pub aggregate_score: f64,
}
