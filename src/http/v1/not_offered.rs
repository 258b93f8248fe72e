//! Routes of capabilities this host does not advertise, where the protocol says what they answer.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;

use crate::http::HttpState;
use crate::http::answer::Answer;
use crate::http::extract::RunPath;
use crate::protocol::error::{ErrorCode, Problem};
use crate::service::access::Caller;

/// Eval runs create no artifacts: every id is unknown, in a run that is there and in one that is not.
pub async fn artifact(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    Err(Problem::new(ErrorCode::NotFound, "this run has no such artifact").into())
}
