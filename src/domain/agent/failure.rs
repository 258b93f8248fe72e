//! The closed lists of an agent's own failures. A failure of the machinery is never among them.

/// The label of an invocation that needed more model turns than its run's caller allows: no failure of the agent, but a
/// bound of the run that was reached (RFC 0058).
pub const LOOP_LIMIT_EXCEEDED: &str = "loop_limit_exceeded";

/// The label of an invocation that was not gone on with because a budget of the run is used up: money, tokens, tool calls
/// or retries (RFC 0058).
pub const BUDGET_EXHAUSTED: &str = "budget_exhausted";

/// Why an agent reached no decision, or one that does not count. The task scores 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// The final answer holds nothing.
    EmptyAnswer,
    /// The model refused.
    Refused,
    /// The answer was cut at the token limit.
    Truncated,
    /// The return schema demands a JSON document and the answer is none.
    OutputNotJson,
    /// The answer violates the return schema.
    OutputSchemaViolation,
    /// Too many model turns.
    TurnLimit,
    /// Too many tool calls.
    ToolCallLimit,
    /// The conversation outgrew the model's context.
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
            Self::ContextOverflow => "context_overflow",
            Self::ContentFilter => "content_filter",
        }
    }

    /// Whether the invocation's outcome is `refused` rather than `failed`.
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::Refused | Self::ContentFilter)
    }
}

/// Why an endpoint understood a request and would not answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The request is larger than the model's context.
    ContextOverflow,
    /// A filter stopped it.
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
