//! Faults of ours, as they are answered: the cause goes to the log, the client learns only that it happened and whether it
//! should come again.

use std::error::Error;
use std::iter::successors;

use crate::ports::{Outage, Unstorable};
use crate::protocol::error::{ErrorCode, Problem};

/// When to come again after the store did not answer.
const RETRY_AFTER_SECONDS: u64 = 5;

/// Logs the cause chain and answers `internal_error`, or `unavailable` when the store does not answer. What no store could
/// keep is no fault of ours.
pub fn internal(cause: &(dyn Error + 'static)) -> Problem {
    let mut causes = successors(Some(cause), |&cause| cause.source());
    if causes.clone().any(|cause| cause.is::<Unstorable>()) {
        return Problem::validation(
            "",
            "a text of the request holds the character U+0000, which cannot be kept; leave it out",
        );
    }
    if causes.any(|cause| cause.is::<Outage>()) {
        tracing::warn!(cause = chain(cause), "the store does not answer");
        return Problem::new(
            ErrorCode::Unavailable,
            "the host cannot reach its store; try again",
        )
        .with("retryAfter", RETRY_AFTER_SECONDS);
    }
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
