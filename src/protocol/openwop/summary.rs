//! `EvalSummary` (RFC 0081 §C): the scorecard. Closed and content-free.

use serde::{Deserialize, Serialize};

use super::suite::ModelClass;
use crate::domain::ids::{RunId, TaskId};
use crate::domain::money::NanoUsd;

/// The scorecard of an eval run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalSummary {
    /// Suite id.
    pub suite_id: String,
    /// Pinned version.
    pub suite_version: String,
    /// The agent's model class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated_model_class: Option<ModelClass>,
    /// Mean of the task scores, 0.0..=1.0.
    pub aggregate_score: f64,
    /// Whether every threshold was met and every task judged.
    pub passed: bool,
    /// Number of tasks.
    pub task_count: usize,
    /// Number of tasks that passed.
    pub passed_count: usize,
    /// Sum of all `provider.usage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_cost_usd: Option<NanoUsd>,
    /// In suite order.
    pub tasks: Vec<TaskSummary>,
    /// Comparison with the baseline of a `regression` run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regression: Option<Regression>,
}

/// One task of the scorecard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskSummary {
    /// The task.
    pub task_id: TaskId,
    /// 0.0..=1.0.
    pub score: f64,
    /// Whether it met its bar.
    pub passed: bool,
    /// Cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<NanoUsd>,
    /// Wall-clock time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Whether the output satisfies the return schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_valid: Option<bool>,
}

/// The comparison of a `regression` run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Regression {
    /// The run compared with.
    pub baseline_run_id: RunId,
    /// Aggregate minus the baseline's, -1.0..=1.0.
    pub score_delta: f64,
    /// Where the differences of the two runs can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_ref: Option<String>,
}
