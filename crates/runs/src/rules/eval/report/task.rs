//! The outcomes of tasks, and what they measured.

use serde::{Deserialize, Serialize};

use crate::rules::eval::scoring::task_summary;
use crate::rules::eval::tally::Tally;
use crate::rules::run::fold::TaskFacts;
use crate::rules::run::record::is_zero;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::annotation::Annotation;
use touchstone_openwop::summary::{SafetyFinding, TaskSummary};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskOutcome {
    /// It reached its pass score.
    Passed,
    Failed,
    /// Not judged because of an infrastructure error; says nothing about the agent.
    Unjudged,
}

/// One task with its reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskReport {
    pub task_id: TaskId,
    pub outcome: TaskOutcome,
    /// Why it failed or was not judged, as a label; absent for a plain mismatch and for a pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Tools called without a response in the suite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixture_missing: Vec<String>,
    /// Tools called that are not on the allowlist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden_tools: Vec<String>,
    /// Retried model calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// Whether each criterion of its rubric is met, in the rubric's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<bool>,
    /// Whether each assertion of the scoring document holds, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<bool>,
    /// Number of assertions that do not apply to the run. They do not hold, and do not count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub assertions_left_out: u32,
    /// Whether its cost is estimated by size because the endpoint reported no usage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    /// The run that judged it, if it was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused_from: Option<RunId>,
    /// Annotations by people (RFC 0056). They do not change the outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<Annotation>,
}

/// A scored task with its numbers and its reasons, without content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScoredTask {
    #[serde(flatten)]
    pub task: TaskReport,
    /// 0.0..=1.0.
    pub score: f64,
    /// Whether the task met its pass score.
    pub passed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<NanoUsd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Whether the output satisfies the return schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_valid: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub safety_findings: Vec<SafetyFinding>,
}

impl ScoredTask {
    pub fn of(id: &TaskId, facts: &TaskFacts) -> Self {
        let numbers = task_summary(id, facts);
        Self {
            task: task_report(id, facts),
            score: numbers.score,
            passed: numbers.passed,
            cost_usd: numbers.cost_usd,
            latency_ms: numbers.latency_ms,
            schema_valid: numbers.schema_valid,
            safety_findings: numbers.safety_findings,
        }
    }

    /// The task as in the scorecard, and as in the report.
    pub fn into_row(self) -> (TaskSummary, TaskReport) {
        let numbers = TaskSummary {
            task_id: self.task.task_id.clone(),
            score: self.score,
            passed: self.passed,
            cost_usd: self.cost_usd,
            latency_ms: self.latency_ms,
            schema_valid: self.schema_valid,
            safety_findings: self.safety_findings,
        };
        (numbers, self.task)
    }
}

/// A named metric over the tasks that measure it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricReport {
    pub name: String,
    /// 0.0..=1.0.
    pub mean: f64,
    /// Number of tasks that measure it.
    pub n_tasks: usize,
}

/// The outcome of a scored task.
pub const fn outcome_of(facts: &TaskFacts) -> TaskOutcome {
    match (&facts.unjudged, facts.passed) {
        (Some(_), _) => TaskOutcome::Unjudged,
        (None, true) => TaskOutcome::Passed,
        (None, false) => TaskOutcome::Failed,
    }
}

/// A scored task, with its reasons.
pub fn task_report(id: &TaskId, facts: &TaskFacts) -> TaskReport {
    TaskReport {
        task_id: id.clone(),
        outcome: outcome_of(facts),
        reason: facts.unjudged.clone().or_else(|| facts.failed.clone()),
        fixture_missing: facts.fixture_missing.clone(),
        forbidden_tools: facts.forbidden_tools.clone(),
        retries: facts.retries,
        criteria: facts.criteria.clone(),
        assertions: facts.assertions.clone(),
        assertions_left_out: facts.assertions_left_out,
        cost_estimated: facts.usage_estimated,
        reused_from: facts.reused_from.clone(),
        annotations: Vec::new(),
    }
}

/// The means of the named metrics, sorted by name.
pub fn metrics(tally: &Tally) -> Vec<MetricReport> {
    let reports = tally.metrics.iter().map(|(name, mean)| MetricReport {
        name: name.clone(),
        mean: mean.value(),
        n_tasks: mean.count,
    });
    reports.collect()
}
