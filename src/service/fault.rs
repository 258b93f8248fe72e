//! Faults of ours, as they are answered: the cause goes to the log, the client learns only that it happened and whether it
//! should come again.

use std::error::Error;
use std::iter::successors;

use crate::ports::{Outage, Store, StoreError, Unstorable};
use crate::protocol::error::{ErrorCode, Problem};

/// When to send a request again that the database did not take.
const RETRY_AFTER_SECONDS: u64 = 5;

/// Logs the cause chain and answers `internal_error`, or `unavailable` when the database is. What no store could
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
        return unavailable(cause);
    }
    tracing::error!(cause = chain(cause), "a request failed");
    Problem::new(
        ErrorCode::InternalError,
        "the host failed; try again, and tell its operator if it persists",
    )
}

/// Logs the cause chain and answers `unavailable`, with the time after which to try again.
pub fn unavailable(cause: &(dyn Error + 'static)) -> Problem {
    tracing::warn!(cause = chain(cause), "the database is unavailable");
    Problem::new(
        ErrorCode::Unavailable,
        "the host's database cannot be read or written at the moment; try again later",
    )
    .with("retryAfter", RETRY_AFTER_SECONDS)
}

/// Has no new work begin until a write succeeds, if this is why nothing could be written.
pub fn note_outage(store: &dyn Store, cause: &StoreError) {
    if matches!(cause, StoreError::Unavailable(_)) {
        store.report_outage();
    }
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
