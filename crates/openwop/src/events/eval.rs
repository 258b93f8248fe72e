//! Payloads of eval runs (RFC 0081) and their tasks. They contain no task content, except
//! [`JudgeReasoned`] and [`AssertionsReasoned`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::suite::EvalMode;
use crate::summary::SafetyFinding;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::money::NanoUsd;

/// `eval.started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalStarted {
    pub suite_id: String,
    /// Pinned version.
    pub suite_version: String,
    pub task_count: usize,
    /// The scored modes.
    pub modes: Vec<EvalMode>,
    /// Baseline of a regression run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_run_id: Option<RunId>,
    /// By task, the run whose recorded tool calls answer its calls.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fixture_runs: BTreeMap<TaskId, RunId>,
}

/// `eval.scored`: the recorded fact. Contains no task content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalScored {
    pub task_id: TaskId,
    /// 0.0..=1.0.
    pub score: f64,
    /// Whether the task met its pass score.
    pub passed: bool,
    /// Sum of the task's `provider.usage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<NanoUsd>,
    /// Wall-clock time of the invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Whether the output satisfies the agent's return schema; absent without a schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_valid: Option<bool>,
    /// Number of safety findings; the summary describes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_finding_count: Option<u32>,
}

/// `eval.completed`. Contains no task content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalCompleted {
    /// 0.0..=1.0.
    pub aggregate_score: f64,
    pub passed: bool,
    /// Tasks scored.
    pub task_count: usize,
    /// Tasks passed.
    pub passed_count: usize,
    /// The aggregate score minus the baseline's aggregate score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regression_vs_baseline: Option<f64>,
}

/// `touchstone.fixture.missing`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FixtureMissing {
    pub tool: String,
    pub call_id: String,
}

/// `touchstone.task.failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskFailed {
    pub task_id: TaskId,
    /// A label from a closed list.
    pub reason: String,
}

/// `touchstone.task.judged`: a judge's decision on each criterion, and the judge's identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskJudged {
    pub task_id: TaskId,
    /// The judge's identity, `sha256-<base64>`.
    pub judge: String,
    /// Whether each criterion is met, in the rubric's order. Several judges decide by majority.
    pub met: Vec<bool>,
    /// The decisions of each of several judges; empty if there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<JudgeVote>,
}

/// The decisions of one of several judges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgeVote {
    /// The judge's identity, `sha256-<base64>`.
    pub judge: String,
    /// Whether each criterion is met, in the rubric's order.
    pub met: Vec<bool>,
}

/// `touchstone.task.measured`: the results of the assertions of a scoring document. Contains no
/// content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskMeasured {
    pub task_id: TaskId,
    /// Whether each assertion of the task holds, in the document's order.
    pub assertions: Vec<bool>,
    /// Number of assertions that do not apply to the run. They do not hold, and do not count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u32,
    /// The values of named metrics, 0.0..=1.0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// `touchstone.assertions.decided`: what judges, models or commands said about the assertions that
/// this host cannot decide by itself. Contains no content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssertionsDecided {
    pub task_id: TaskId,
    pub decisions: Vec<AssertionDecision>,
}

/// What one of them said about one assertion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssertionDecision {
    /// The position of the assertion in the scoring of its task: `1.0` is the first one nested in
    /// the second.
    pub assertion: String,
    /// The identity of who said it, such as a judge's `sha256-<base64>`.
    pub by: String,
    /// 0.0..=1.0.
    pub score: f64,
    pub holds: bool,
    /// A label from a closed list, where the decision is more than a score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The single decisions that the score is computed from, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<bool>,
}

/// `touchstone.assertions.reasoned`: the reasons for decisions of `touchstone.assertions.decided`.
/// Task content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssertionsReasoned {
    pub task_id: TaskId,
    pub reasons: Vec<AssertionReason>,
}

/// Why a decision was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssertionReason {
    /// As in the decision.
    pub assertion: String,
    /// As in the decision.
    pub by: String,
    pub reason: String,
}

/// `touchstone.judge.reasoned`: a judge's reasons. Task content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgeReasoned {
    pub task_id: TaskId,
    /// The reason for each decision of `touchstone.task.judged`, in its order; empty if the judge
    /// gave none.
    pub reasons: Vec<String>,
}

/// `touchstone.reply.rejected`: a reply of a judge or of a simulated user that does not have the
/// requested form. Task content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplyRejected {
    /// `judge`, `user` or `embeddings`.
    pub by: String,
    /// Its beginning.
    pub reply: String,
}

/// `touchstone.task.safety`: the findings of detectors in the agent's actions. Contains kinds and
/// severities, but no content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskSafety {
    pub task_id: TaskId,
    /// Each kind once, in descending order of severity.
    pub findings: Vec<SafetyFinding>,
}

/// `touchstone.task.unjudged`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskUnjudged {
    pub task_id: TaskId,
    /// A label from a closed list.
    pub reason: String,
}

/// `touchstone.task.reused`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskReused {
    pub task_id: TaskId,
    /// The run that judged the task.
    pub source_run_id: RunId,
}
