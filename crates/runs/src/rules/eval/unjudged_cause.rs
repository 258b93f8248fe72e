//! Why tasks are unjudged, as one of a few causes: labels of metrics must not grow with what
//! endpoints and providers answer.

use touchstone_agents::rules::BUDGET_EXHAUSTED;

/// The part that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnjudgedCause {
    /// The endpoint of the agent.
    Agent,
    Judge,
    SimulatedUser,
    Embeddings,
    /// A command that decides assertions, or an assertion without what it needs.
    Assertion,
    /// A live tool.
    Tool,
    /// A budget of the run is exhausted.
    Budget,
    /// The task took longer than the run allows.
    TaskTimeout,
    /// The task was interrupted after a live tool may have changed something.
    Interrupted,
    /// The environment of an OASIS scenario.
    Environment,
    /// The host itself.
    Host,
}

impl UnjudgedCause {
    pub const ALL: [Self; 11] = [
        Self::Agent,
        Self::Judge,
        Self::SimulatedUser,
        Self::Embeddings,
        Self::Assertion,
        Self::Tool,
        Self::Budget,
        Self::TaskTimeout,
        Self::Interrupted,
        Self::Environment,
        Self::Host,
    ];

    /// The label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Judge => "judge",
            Self::SimulatedUser => "simulated_user",
            Self::Embeddings => "embeddings",
            Self::Assertion => "assertion",
            Self::Tool => "tool",
            Self::Budget => "budget",
            Self::TaskTimeout => "task_timeout",
            Self::Interrupted => "interrupted",
            Self::Environment => "environment",
            Self::Host => "host",
        }
    }

    /// The cause of a reason in events. The reasons of the agent's endpoint have no prefix.
    pub fn of_reason(reason: &str) -> Self {
        match reason {
            BUDGET_EXHAUSTED => return Self::Budget,
            "task_timeout" => return Self::TaskTimeout,
            "effect_uncertain" => return Self::Interrupted,
            "internal_error"
            | "log_closed"
            | "worker_lost"
            | "workers_required"
            | "too_large_for_worker" => return Self::Host,
            "price_unknown" | "baseline_content_deleted" => return Self::Assertion,
            "fixture_content_deleted" | "fixture_calls_too_large" => return Self::Tool,
            _ => {}
        }
        match reason.split_once('_').map(|(first, _)| first) {
            Some("judge") => Self::Judge,
            Some("user") => Self::SimulatedUser,
            Some("embeddings") => Self::Embeddings,
            Some("assertion") => Self::Assertion,
            Some("tool") => Self::Tool,
            _ => Self::Agent,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("status_503", UnjudgedCause::Agent)]
    #[case("timeout", UnjudgedCause::Agent)]
    #[case("judge_rate_limited", UnjudgedCause::Judge)]
    #[case("judge_missing", UnjudgedCause::Judge)]
    #[case("user_budget_exhausted", UnjudgedCause::SimulatedUser)]
    #[case("embeddings_malformed", UnjudgedCause::Embeddings)]
    #[case("assertion_exited", UnjudgedCause::Assertion)]
    #[case("tool_timeout", UnjudgedCause::Tool)]
    #[case("budget_exhausted", UnjudgedCause::Budget)]
    #[case("internal_error", UnjudgedCause::Host)]
    #[case("worker_lost", UnjudgedCause::Host)]
    #[case("workers_required", UnjudgedCause::Host)]
    fn reasons_are_grouped_by_the_part_that_failed(
        #[case] reason: &str,
        #[case] expected: UnjudgedCause,
    ) {
        assert_eq!(UnjudgedCause::of_reason(reason), expected);
    }

    #[test]
    fn the_causes_are_listed_in_their_order() {
        for (n, cause) in UnjudgedCause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, n);
        }
    }
}
