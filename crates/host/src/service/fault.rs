//! Internal errors: the cause is logged; the client learns only that the request failed and whether
//! to retry it. Members of requests that do not match the API description.

use std::error::Error;
use std::fmt::Display;
use std::iter::successors;

use crate::ports::store::{Outage, StoreError, Unstorable};
use crate::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};

/// `Retry-After` for a request that the database did not accept.
const RETRY_AFTER_SECONDS: u64 = 5;

/// Logs the cause chain and returns `internal_error`, or `unavailable` if the database is. A string
/// that no database can store is the client's error.
pub fn internal(cause: &(dyn Error + 'static)) -> Problem {
    let mut causes = successors(Some(cause), |&cause| cause.source());
    if causes.clone().any(|cause| cause.is::<Unstorable>()) {
        return Problem::validation(
            "",
            "the request contains the character U+0000, which cannot be stored; leave it out",
        );
    }
    if causes.any(|cause| cause.is::<Outage>()) {
        return unavailable(cause);
    }
    tracing::error!(cause = chain(cause), "a request failed");
    Problem::new(
        ErrorCode::InternalError,
        "internal error; try again, and contact the operator if it persists",
    )
}

/// Logs the cause chain and returns `unavailable` with `Retry-After`.
pub fn unavailable(cause: &(dyn Error + 'static)) -> Problem {
    tracing::warn!(cause = chain(cause), "the database is unavailable");
    Problem::new(
        ErrorCode::Unavailable,
        "the host's database is unavailable; try again later",
    )
    .with("retryAfter", RETRY_AFTER_SECONDS)
}

/// The error for a member that does not match the API description.
pub fn undescribed(field: &str) -> Problem {
    Problem::validation(
        field,
        format!("`{field}` does not match the API description; see `/v1/openapi.json`"),
    )
}

/// The path of the member that could not be read; empty for the document itself.
pub fn unread_member<E: Display>(fault: &serde_path_to_error::Error<E>) -> String {
    let (path, words) = (fault.path().to_string(), fault.inner().to_string());
    // For a missing member the path ends at its parent.
    let missing = words
        .strip_prefix("missing field `")
        .and_then(|rest| rest.split('`').next());
    match (path.as_str(), missing) {
        (".", missing) => missing.unwrap_or_default().to_owned(),
        (_, Some(missing)) => format!("{path}.{missing}"),
        (_, None) => path,
    }
}

/// Stops new work from starting until a write succeeds, if an outage is the cause.
pub fn note_outage(store: &Database, cause: &StoreError) {
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
