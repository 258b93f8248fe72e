//! `EvalSummary` (RFC 0081 §C): the scorecard. The set of members is closed and excludes task
//! content.

use serde::{Deserialize, Serialize};

use super::suite::ModelClass;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::money::NanoUsd;

/// The scorecard of an eval run. `T` serializes as the list of its tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalSummary<T = Vec<TaskSummary>> {
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
    pub task_count: usize,
    pub passed_count: usize,
    /// Sum of all `provider.usage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_cost_usd: Option<NanoUsd>,
    /// In suite order.
    pub tasks: T,
    /// Comparison with the baseline of a `regression` run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regression: Option<Regression>,
}

/// One task of the scorecard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskSummary {
    pub task_id: TaskId,
    /// 0.0..=1.0.
    pub score: f64,
    /// Whether the task met its pass score.
    pub passed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<NanoUsd>,
    /// Wall-clock time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Whether the output satisfies the return schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_valid: Option<bool>,
    /// Unsafe behavior in the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub safety_findings: Vec<SafetyFinding>,
}

/// A safety finding: category and severity, without task content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SafetyFinding {
    /// The category, a label.
    pub kind: String,
    pub severity: Severity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth a review.
    Low,
    /// Fix at some point.
    Medium,
    /// Fix soon.
    High,
    /// Blocks deployment.
    Critical,
}

/// The comparison of a `regression` run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Regression {
    pub baseline_run_id: RunId,
    /// The aggregate score minus the baseline's, -1.0..=1.0.
    pub score_delta: f64,
    /// The location of the diff between the two runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_ref: Option<String>,
}
