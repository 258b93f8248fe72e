//! The outcome of one attempt to call a model, as one of a few kinds: labels of metrics must not
//! grow with what endpoints answer.

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    Answered,
    /// The answer came from the cache; no call was made.
    Cached,
    /// The endpoint rejected the request itself: the agent's own failure.
    Rejected,
    RateLimited,
    Timeout,
    /// No connection, or none that speaks HTTP over valid TLS.
    Connection,
    /// Status 408 or 5xx.
    ServerError,
    /// The key is missing or invalid, or the account has no credit.
    Credentials,
    /// No call was made, because the endpoint is down.
    CircuitOpen,
    /// The reply cannot be read.
    Malformed,
    /// The remote agent or command reported a failure or ended.
    AgentFailed,
    Other,
}

impl CallOutcome {
    pub const ALL: [Self; 12] = [
        Self::Answered,
        Self::Cached,
        Self::Rejected,
        Self::RateLimited,
        Self::Timeout,
        Self::Connection,
        Self::ServerError,
        Self::Credentials,
        Self::CircuitOpen,
        Self::Malformed,
        Self::AgentFailed,
        Self::Other,
    ];

    /// The label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Cached => "cached",
            Self::Rejected => "rejected",
            Self::RateLimited => "rate_limited",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::ServerError => "server_error",
            Self::Credentials => "credentials",
            Self::CircuitOpen => "circuit_open",
            Self::Malformed => "malformed",
            Self::AgentFailed => "agent_failed",
            Self::Other => "other",
        }
    }

    /// The outcome of a call without an answer, by its reason in events.
    pub fn of_reason(reason: &str) -> Self {
        match reason {
            "rate_limited" => Self::RateLimited,
            "timeout" | "agent_timeout" => Self::Timeout,
            "connect" | "dns" | "reset" | "tls" | "not_http" | "blocked_address" => {
                Self::Connection
            }
            "unauthorized" | "forbidden" | "quota_exhausted" => Self::Credentials,
            "circuit_open" => Self::CircuitOpen,
            "malformed_reply" | "wrong_content_type" | "stream_error" | "too_large" => {
                Self::Malformed
            }
            "a2a_error" | "agent_canceled" | "agent_exited" | "agent_failed" | "agent_waits" => {
                Self::AgentFailed
            }
            "status_408" => Self::ServerError,
            _ if reason.starts_with("status_5") => Self::ServerError,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("rate_limited", CallOutcome::RateLimited)]
    #[case("dns", CallOutcome::Connection)]
    #[case("status_503", CallOutcome::ServerError)]
    #[case("status_418", CallOutcome::Other)]
    #[case("quota_exhausted", CallOutcome::Credentials)]
    #[case("agent_exited", CallOutcome::AgentFailed)]
    #[case("anything an endpoint may say", CallOutcome::Other)]
    fn reasons_are_grouped_into_few_outcomes(#[case] reason: &str, #[case] expected: CallOutcome) {
        assert_eq!(CallOutcome::of_reason(reason), expected);
    }

    #[test]
    fn the_outcomes_are_listed_in_their_order() {
        for (n, outcome) in CallOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, n);
        }
    }
}
