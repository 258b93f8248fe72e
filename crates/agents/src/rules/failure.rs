//! The closed lists of an agent's own failures. Infrastructure errors are never among them.

/// The label of an invocation that needed more model turns than the run's caller allows. This is a
/// reached limit of the run, not a failure of the agent (RFC 0058).
pub const LOOP_LIMIT_EXCEEDED: &str = "loop_limit_exceeded";

/// The label of an invocation that ended because a budget of the run is exhausted: money, tokens,
/// tool calls or retries (RFC 0058).
pub const BUDGET_EXHAUSTED: &str = "budget_exhausted";

/// The label of an invocation that took longer than the run allows.
pub const TASK_TIMEOUT: &str = "task_timeout";

/// The label of an invocation that this process cannot give to workers, because it does not reach
/// them. Another process may be able to, so the run is left to others and the task gets no result.
pub const WORKERS_UNREACHABLE: &str = "workers_unreachable";

/// The label of a task that requires labels of workers and that this host cannot give to any.
pub const WORKERS_REQUIRED: &str = "workers_required";

/// Why an agent produced no valid decision. The task scores 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// The final answer is empty.
    EmptyAnswer,
    /// The model refused.
    Refused,
    /// The answer was truncated at the token limit.
    Truncated,
    /// The return schema requires a JSON document, and the answer is not one.
    OutputNotJson,
    /// The answer violates the return schema.
    OutputSchemaViolation,
    TurnLimit,
    ToolCallLimit,
    /// The run whose recorded tool calls replace the tools did not make this one.
    CallNotRecorded,
    /// The conversation exceeded the model's context.
    ContextOverflow,
    /// The endpoint's filter stopped the request.
    ContentFilter,
}

impl FailureReason {
    /// The label in events.
    pub const fn label(self) -> &'static str {
        match self {
            Self::EmptyAnswer => "empty_answer",
            Self::Refused => "refused",
            Self::Truncated => "truncated",
            Self::OutputNotJson => "output_not_json",
            Self::OutputSchemaViolation => "output_schema_violation",
            Self::TurnLimit => "turn_limit",
            Self::ToolCallLimit => "tool_call_limit",
            Self::CallNotRecorded => "call_not_recorded",
            Self::ContextOverflow => "context_overflow",
            Self::ContentFilter => "content_filter",
        }
    }

    /// Whether the invocation's outcome is `refused` rather than `failed`.
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::Refused | Self::ContentFilter)
    }
}

/// Why an endpoint rejected a well-formed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    ContextOverflow,
    ContentFilter,
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(FailureReason::from(*self).label())
    }
}

impl From<Rejection> for FailureReason {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::ContextOverflow => Self::ContextOverflow,
            Rejection::ContentFilter => Self::ContentFilter,
        }
    }
}
