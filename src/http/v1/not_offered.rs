//! Routes of capabilities this host does not advertise, where the protocol says what they answer.

use crate::http::answer::Answer;
use crate::http::extract::OwnRun;
use crate::protocol::error::{ErrorCode, Problem};

/// Eval runs create no artifacts: every id is unknown, in a run that is there and in one that is not.
pub async fn artifact(OwnRun(_): OwnRun) -> Answer {
    Err(Problem::new(ErrorCode::NotFound, "this run has no such artifact").into())
}
