//! The scored members of each event type. Other members are ignored.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::values::{
    AutonomyLevel, Cause, CompletionStatus, ComplexityLevel, Count, Decision, Node, Outcome,
    Severity,
};

/// A task was given to the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskAssigned {
    pub complexity_level: ComplexityLevel,
    pub domain: String,
    pub assigned_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autonomy_level: Option<AutonomyLevel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_eligible: Option<bool>,
}

/// The agent finished the task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskCompleted {
    pub completion_status: CompletionStatus,
    pub time_to_complete_seconds: f64,
    pub revision_count: Count,
    pub errors: Vec<Error>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complexity_level: Option<ComplexityLevel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milestone_fraction: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality_score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub human_intervention: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_used: Vec<ToolUse>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegation_decisions: Vec<DelegationDecision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autonomy_level: Option<AutonomyLevel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review_checklist: Option<BTreeMap<String, Option<bool>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_eligible: Option<bool>,
    /// Not used by any dimension; stored for information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// An error in a task; only its severity matters. An error in free text counts as major.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct Error {
    pub severity: Severity,
}

impl TryFrom<Value> for Error {
    type Error = serde_json::Error;

    fn try_from(value: Value) -> Result<Self, serde_json::Error> {
        let severity = match value.get("severity") {
            Some(severity) => Severity::deserialize(severity)?,
            None => Severity::default(),
        };
        Ok(Self { severity })
    }
}

/// How a tool was used in a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    pub tool: String,
    pub invocations: Count,
    pub successes: Count,
    #[serde(default)]
    pub unnecessary: Count,
    #[serde(default)]
    pub errors_recovered: Count,
}

/// A result was sent back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRevised {
    pub revision_number: Count,
    pub reason_code: Severity,
    #[serde(default)]
    pub cause: Cause,
}

/// A tool was called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolInvoked {
    pub tool: String,
    pub success: bool,
    pub unnecessary: bool,
    pub error_recovered: Option<bool>,
}

/// Whether to do a part of a task or to delegate it to another agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelegationDecision {
    pub task_fragment: String,
    pub decision: Decision,
    pub delegate_to: Option<String>,
    pub ground_truth: Option<Decision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correct: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection_score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimal_delegates: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
}

/// The outcome of a delegation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelegationOutcome {
    pub delegate_agent_id: String,
    pub outcome: Outcome,
    pub revision_needed: bool,
}

/// How several agents are to work together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrchestrationPlan {
    pub agents_involved: Vec<Node>,
    pub dependency_graph: BTreeMap<String, Vec<Node>>,
    pub parallel_groups: Vec<Vec<Node>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_design_score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communication_clarity_score: Option<f64>,
}

/// The outcome of an orchestration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrchestrationResult {
    pub outcome: Outcome,
    pub failures_injected: Count,
    pub failures_recovered: Count,
    pub synthesis_quality_score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_design_score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communication_clarity_score: Option<f64>,
}

impl DelegationDecision {
    /// The first member out of its range.
    pub(super) fn out_of_range(&self) -> Option<&'static str> {
        outside_unit_range("selection_score", self.selection_score)
    }
}

impl TaskAssigned {
    pub(super) fn out_of_range(&self) -> Option<&'static str> {
        let none = self.baseline_seconds.is_some_and(|it| it <= 0.0);
        none.then_some("baseline_seconds")
    }
}

impl TaskCompleted {
    pub(super) fn out_of_range(&self) -> Option<&'static str> {
        let tools = self
            .tools_used
            .iter()
            .any(|it| it.successes > it.invocations || it.unnecessary > it.invocations);
        let decisions = &self.delegation_decisions;
        outside_unit_range("milestone_fraction", self.milestone_fraction)
            .or(outside_unit_range("quality_score", self.quality_score))
            .or((self.time_to_complete_seconds < 0.0).then_some("time_to_complete_seconds"))
            .or(self
                .cost_usd
                .is_some_and(|it| it < 0.0)
                .then_some("cost_usd"))
            .or(tools.then_some("tools_used"))
            .or(decisions
                .iter()
                .any(|it| it.out_of_range().is_some())
                .then_some("delegation_decisions"))
    }
}

impl OrchestrationPlan {
    pub(super) fn out_of_range(&self) -> Option<&'static str> {
        graded(self.workflow_design_score, self.communication_clarity_score)
    }
}

impl OrchestrationResult {
    pub(super) fn out_of_range(&self) -> Option<&'static str> {
        outside_unit_range("synthesis_quality_score", self.synthesis_quality_score).or(graded(
            self.workflow_design_score,
            self.communication_clarity_score,
        ))
    }
}

fn graded(design: Option<f64>, clarity: Option<f64>) -> Option<&'static str> {
    outside_unit_range("workflow_design_score", design)
        .or(outside_unit_range("communication_clarity_score", clarity))
}

fn outside_unit_range(name: &'static str, score: Option<f64>) -> Option<&'static str> {
    score
        .is_some_and(|it| !(0.0..=1.0).contains(&it))
        .then_some(name)
}
