//! Routes of capabilities that this host does not advertise, where the protocol specifies the
//! error.

use crate::http::extract::OwnRun;
use touchstone_host::http::answer::Answer;
use touchstone_kit::error::{ErrorCode, Problem};

/// Eval runs create no artifacts, so every artifact id is unknown, whether the run exists or not.
pub async fn artifact(OwnRun(_): OwnRun) -> Answer {
    Err(Problem::new(ErrorCode::NotFound, "this run has no such artifact").into())
}
