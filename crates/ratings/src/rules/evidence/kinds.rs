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

/// A required member of an event's data, and whether `null` is allowed.
#[derive(Clone, Copy)]
pub(super) struct Required {
    pub name: &'static str,
    pub nullable: bool,
}

const fn some(name: &'static str) -> Required {
    Required {
        name,
        nullable: false,
    }
}

const fn or_null(name: &'static str) -> Required {
    Required {
        name,
        nullable: true,
    }
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

    pub(super) const fn required(self) -> &'static [Required] {
        match self {
            Self::TaskAssigned => {
                const {
                    &[
                        some("task_id"),
                        some("complexity_level"),
                        some("domain"),
                        some("assigned_at"),
                    ]
                }
            }
            Self::TaskCompleted => {
                const {
                    &[
                        some("task_id"),
                        some("completion_status"),
                        some("time_to_complete_seconds"),
                        some("revision_count"),
                        some("errors"),
                    ]
                }
            }
            Self::TaskRevised => {
                const {
                    &[
                        some("task_id"),
                        some("revision_number"),
                        some("reason_code"),
                        or_null("changes"),
                    ]
                }
            }
            Self::ToolInvoked => {
                const {
                    &[
                        some("task_id"),
                        some("tool"),
                        some("success"),
                        some("unnecessary"),
                        or_null("error_recovered"),
                    ]
                }
            }
            Self::DelegationDecision => {
                const {
                    &[
                        some("task_id"),
                        some("task_fragment"),
                        some("decision"),
                        or_null("delegate_to"),
                        or_null("ground_truth"),
                    ]
                }
            }
            Self::DelegationOutcome => {
                const {
                    &[
                        some("task_id"),
                        some("delegate_agent_id"),
                        some("outcome"),
                        some("revision_needed"),
                    ]
                }
            }
            Self::OrchestrationPlan => {
                const {
                    &[
                        some("task_id"),
                        some("agents_involved"),
                        some("dependency_graph"),
                        some("parallel_groups"),
                    ]
                }
            }
            Self::OrchestrationResult => {
                const {
                    &[
                        some("task_id"),
                        some("outcome"),
                        some("failures_injected"),
                        some("failures_recovered"),
                        or_null("synthesis_quality_score"),
                    ]
                }
            }
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
