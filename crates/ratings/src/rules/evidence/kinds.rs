//! The eight event types and their required members.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    TaskAssigned,
    TaskCompleted,
    TaskRevised,
    ToolInvoked,
    DelegationDecision,
    DelegationOutcome,
    OrchestrationPlan,
    OrchestrationResult,
}

impl EventType {
    pub const ALL: [Self; 8] = [
        Self::TaskAssigned,
        Self::TaskCompleted,
        Self::TaskRevised,
        Self::ToolInvoked,
        Self::DelegationDecision,
        Self::DelegationOutcome,
        Self::OrchestrationPlan,
        Self::OrchestrationResult,
    ];

    /// Its name in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TaskAssigned => "task_assigned",
            Self::TaskCompleted => "task_completed",
            Self::TaskRevised => "task_revised",
            Self::ToolInvoked => "tool_invoked",
            Self::DelegationDecision => "delegation_decision",
            Self::DelegationOutcome => "delegation_outcome",
            Self::OrchestrationPlan => "orchestration_plan",
            Self::OrchestrationResult => "orchestration_result",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }

    /// The members that its data must have.
    pub(super) const fn required(self) -> &'static [&'static str] {
        match self {
            Self::TaskAssigned => &["task_id", "complexity_level", "domain", "assigned_at"],
            Self::TaskCompleted => &[
                "task_id",
                "completion_status",
                "time_to_complete_seconds",
                "revision_count",
                "errors",
            ],
            Self::TaskRevised => &["task_id", "revision_number", "reason_code", "changes"],
            Self::ToolInvoked => &[
                "task_id",
                "tool",
                "success",
                "unnecessary",
                "error_recovered",
            ],
            Self::DelegationDecision => &[
                "task_id",
                "task_fragment",
                "decision",
                "delegate_to",
                "ground_truth",
            ],
            Self::DelegationOutcome => {
                &["task_id", "delegate_agent_id", "outcome", "revision_needed"]
            }
            Self::OrchestrationPlan => &[
                "task_id",
                "agents_involved",
                "dependency_graph",
                "parallel_groups",
            ],
            Self::OrchestrationResult => &[
                "task_id",
                "outcome",
                "failures_injected",
                "failures_recovered",
                "synthesis_quality_score",
            ],
        }
    }

    /// Whether a required member may be `null`.
    pub(super) fn is_nullable(member: &str) -> bool {
        matches!(
            member,
            "changes"
                | "error_recovered"
                | "delegate_to"
                | "ground_truth"
                | "synthesis_quality_score"
        )
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
