//! Payloads of what any run comes to, and of its bounds (OpenWOP run-event-payloads; budgets: RFC 0058).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::ids::{NodeId, RunId};
use crate::domain::money::NanoUsd;
use crate::protocol::openwop::summary::EvalSummary;

/// `run.started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStarted {
    /// The workflow; `eval:<suiteId>@<version>` for an eval run.
    pub workflow_id: String,
    /// The caller's inputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    /// How the run came in.
    pub transport: String,
    /// Engine version.
    pub engine_version: String,
    /// The owner.
    pub owner: Owner,
    /// Tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Metadata.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The owner triple (RFC 0048), derived from the credential only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// Tenant.
    pub tenant: String,
    /// Principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// `run.completed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCompleted {
    /// What came of it.
    pub outputs: RunOutputs,
    /// From `run.started`, in milliseconds.
    pub duration_ms: u64,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RunOutputs {
    /// Of an eval run: its summary.
    Eval(EvalSummary),
    /// Of a workflow: the outputs of its last nodes.
    Workflow(Map<String, Value>),
}

/// `run.failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunFailed {
    /// Why.
    pub error: RunError,
    /// The node that failed, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_node_id: Option<NodeId>,
}

/// A run error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunError {
    /// Code, such as `run_timeout`.
    pub code: String,
    /// In words, without content.
    pub message: String,
}

/// `run.cancelled`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCancelled {
    /// Why, if said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Principal of who asked.
    pub cancelled_by: String,
}

/// `cap.breached`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapBreached {
    /// `run-duration`, `node-executions`, `loop-iterations`, `budget-cost`, `budget-tokens`, `budget-tool-calls` or
    /// `budget-retries`.
    pub kind: String,
    /// The bound.
    pub limit: f64,
    /// What was seen; above the bound.
    pub observed: f64,
    /// The node that would have gone beyond it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
}

/// `budget.reserved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetReserved {
    /// The bounds in force.
    pub effective_budget: EffectiveBudget,
    /// `run`.
    pub scope: String,
}

/// The bounds of `budget.reserved`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveBudget {
    /// Most tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Most money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<NanoUsd>,
    /// Most calls of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u64>,
    /// Most calls that are tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u64>,
}

/// `budget.consumed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetConsumed {
    /// `tokens`, `cost`, `toolCalls` or `retries`.
    pub dimension: String,
    /// What is used, in the dimension's unit.
    pub consumed: f64,
    /// The bound.
    pub limit: f64,
    /// What is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<f64>,
}

/// `budget.threshold.crossed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetThresholdCrossed {
    /// `tokens`, `cost`, `toolCalls` or `retries`.
    pub dimension: String,
    /// What is used, in the dimension's unit.
    pub consumed: f64,
    /// The bound.
    pub limit: f64,
    /// The threshold.
    pub percent: f64,
}

/// `budget.exhausted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetExhausted {
    /// `tokens`, `cost`, `toolCalls` or `retries`.
    pub dimension: String,
    /// What is used, in the dimension's unit.
    pub consumed: f64,
    /// The bound.
    pub limit: f64,
}

/// `replay.diverged`. Informational: what was recorded stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayDiverged {
    /// The run that is replayed.
    pub source_run_id: RunId,
    /// Sequence of its event that comes out differently.
    pub at_sequence: u64,
    /// How it differs.
    pub divergence_kind: DivergenceKind,
    /// Type of that event.
    pub divergence_point: String,
}

/// How a replay differs from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DivergenceKind {
    /// The same event with another content.
    Output,
    /// An event the replay lacks.
    Missing,
    /// An event the source lacks.
    Extra,
    /// An event of another type.
    TypeMismatch,
}
