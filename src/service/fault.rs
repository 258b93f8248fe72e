//! Faults of ours, as they are answered: the cause goes to the log, the client learns only that it happened.

use std::error::Error;

use crate::protocol::error::{ErrorCode, Problem};

/// Logs the cause chain and answers `internal_error`.
pub fn internal(cause: &dyn Error) -> Problem {
    tracing::error!(cause = chain(cause), "a request failed");
    Problem::new(
        ErrorCode::InternalError,
        "the host failed; try again, and tell its operator if it persists",
    )
}

/// An error with all its causes on one line.
pub fn chain(cause: &dyn Error) -> String {
    let mut text = cause.to_string();
    let mut source = cause.source();
    while let Some(next) = source {
        text.push_str(": ");
        text.push_str(&next.to_string());
        source = next.source();
    }
    text
}
