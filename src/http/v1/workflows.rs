//! `GET /v1/workflows/{workflowId}`: this host runs evals and holds no workflow graphs, so there is none to find.

use crate::http::answer::Answer;
use crate::protocol::error::{ErrorCode, Problem};

/// `GET /v1/workflows/{workflowId}`.
pub async fn get() -> Answer {
    Err(Problem::new(
        ErrorCode::NotFound,
        "no such workflow; this host runs evals",
    )
    .into())
}
