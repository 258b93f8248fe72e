//! Payloads of run results and limits (OpenWOP run-event-payloads; budgets: RFC 0058).

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::summary::EvalSummary;
use touchstone_kit::ids::{NodeId, RunId};
use touchstone_kit::money::NanoUsd;

/// `run.started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStarted {
    /// The workflow; `eval:<suiteId>@<version>` for an eval run.
    pub workflow_id: String,
    /// The caller's inputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    /// The transport of the create request.
    pub transport: String,
    pub engine_version: String,
    pub owner: Owner,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The owner triple (RFC 0048), derived only from the credential.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    pub tenant: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// `run.completed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCompleted {
    pub outputs: RunOutputs,
    /// Time since `run.started`, in milliseconds.
    pub duration_ms: u64,
}

impl RunCompleted {
    /// Reads a payload without its outputs.
    pub(super) fn without_outputs(payload: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Payload<'a> {
            #[serde(borrow)]
            outputs: &'a RawValue,
            duration_ms: u64,
        }
        let payload: Payload<'_> = serde_json::from_str(payload)?;
        if !payload.outputs.get().starts_with('{') {
            return Err(serde_json::Error::custom("`outputs` must be an object"));
        }
        Ok(Self {
            outputs: RunOutputs::Workflow(Map::new()),
            duration_ms: payload.duration_ms,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RunOutputs {
    Eval(EvalSummary),
    /// The outputs of a workflow's last nodes.
    Workflow(Map<String, Value>),
}

/// `run.failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunFailed {
    pub error: RunError,
    /// The node that failed, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_node_id: Option<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunError {
    /// Code, such as `run_timeout`.
    pub code: String,
    /// For people; contains no task content.
    pub message: String,
}

impl RunError {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
        }
    }
}

/// `run.cancelled`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCancelled {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The caller's principal.
    pub cancelled_by: String,
}

/// `cap.breached`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapBreached {
    /// `run-duration`, `node-executions`, `loop-iterations`, `budget-cost`, `budget-tokens`,
    /// `budget-tool-calls` or `budget-retries`.
    pub kind: String,
    pub limit: f64,
    /// The observed value, which exceeds the limit.
    pub observed: f64,
    /// The node that would have exceeded the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
}

/// `budget.reserved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetReserved {
    /// The limits in force.
    pub effective_budget: EffectiveBudget,
    /// `run`.
    pub scope: String,
}

/// The limits in `budget.reserved`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveBudget {
    /// Maximum number of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Maximum cost in USD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<NanoUsd>,
    /// Maximum number of tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u64>,
    /// Maximum number of retried calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u64>,
}

/// `budget.consumed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetConsumed {
    /// `tokens`, `cost`, `toolCalls` or `retries`.
    pub dimension: String,
    /// The consumption, in the dimension's unit.
    pub consumed: f64,
    pub limit: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<f64>,
}

/// `budget.threshold.crossed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetThresholdCrossed {
    /// `tokens`, `cost`, `toolCalls` or `retries`.
    pub dimension: String,
    /// The consumption, in the dimension's unit.
    pub consumed: f64,
    pub limit: f64,
    pub percent: f64,
}

/// `budget.exhausted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetExhausted {
    /// `tokens`, `cost`, `toolCalls` or `retries`.
    pub dimension: String,
    /// The consumption, in the dimension's unit.
    pub consumed: f64,
    pub limit: f64,
}

/// `replay.diverged`. Informational: the recorded result stays valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayDiverged {
    /// The replayed run.
    pub source_run_id: RunId,
    /// Sequence number of the source event that differs.
    pub at_sequence: u64,
    pub divergence_kind: DivergenceKind,
    /// Type of the source event.
    pub divergence_point: String,
}

/// How a replay differs from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DivergenceKind {
    /// The same event with different content.
    Output,
    /// The replay lacks the event.
    Missing,
    /// The source lacks the event.
    Extra,
    /// The events have different types.
    TypeMismatch,
}
