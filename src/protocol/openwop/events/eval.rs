//! Payloads of an evaluation (RFC 0081) and of its tasks. Content-free.

use serde::{Deserialize, Serialize};

use crate::domain::ids::{RunId, TaskId};
use crate::domain::money::NanoUsd;
use crate::protocol::openwop::suite::EvalMode;
use crate::protocol::openwop::summary::SafetyFinding;

/// `eval.started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalStarted {
    /// Suite id.
    pub suite_id: String,
    /// Pinned version.
    pub suite_version: String,
    /// Number of tasks.
    pub task_count: usize,
    /// Modes that are scored.
    pub modes: Vec<EvalMode>,
    /// Baseline of a regression run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_run_id: Option<RunId>,
}

/// `eval.scored`: the recorded fact. Content-free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalScored {
    /// The task.
    pub task_id: TaskId,
    /// 0.0..=1.0.
    pub score: f64,
    /// Whether the task met its bar.
    pub passed: bool,
    /// Sum of the task's `provider.usage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<NanoUsd>,
    /// Wall-clock time of the invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Whether the output satisfies the agent's return schema; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_valid: Option<bool>,
    /// Number of safety findings; the summary describes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_finding_count: Option<u32>,
}

/// `eval.completed`. Content-free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalCompleted {
    /// 0.0..=1.0.
    pub aggregate_score: f64,
    /// The verdict.
    pub passed: bool,
    /// Tasks scored.
    pub task_count: usize,
    /// Tasks passed.
    pub passed_count: usize,
    /// Aggregate minus the baseline's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regression_vs_baseline: Option<f64>,
}

/// `touchstone.fixture.missing`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FixtureMissing {
    /// The tool.
    pub tool: String,
    /// The call.
    pub call_id: String,
}

/// `touchstone.task.failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskFailed {
    /// The task.
    pub task_id: TaskId,
    /// A label from a closed list.
    pub reason: String,
}

/// `touchstone.task.judged`: what a judge said of the criteria, and which judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskJudged {
    /// The task.
    pub task_id: TaskId,
    /// The judge's identity, `sha256-<base64>`.
    pub judge: String,
    /// Whether each criterion is met, in the rubric's order.
    pub met: Vec<bool>,
}

/// `touchstone.task.safety`: what detectors found in what the agent did. Kinds and severities, nothing of what they saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskSafety {
    /// The task.
    pub task_id: TaskId,
    /// Every kind once, the worst first.
    pub findings: Vec<SafetyFinding>,
}

/// `touchstone.task.unjudged`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskUnjudged {
    /// The task.
    pub task_id: TaskId,
    /// A label from a closed list.
    pub reason: String,
}

/// `touchstone.task.reused`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskReused {
    /// The task.
    pub task_id: TaskId,
    /// The run that judged it.
    pub source_run_id: RunId,
}
