//! `GET /v1/runs/{runId}:diff?against=` (RFC 0054).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::domain::ids::RunId;
use crate::http::HttpState;
use crate::http::answer::{Answer, json};
use crate::http::extract::{Query, RunPath, is_run_id, no_such_run};
use crate::protocol::error::Problem;
use crate::service::access::Caller;

/// `GET /v1/runs/{runId}:diff`.
pub async fn get(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    query: Query,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    let against = query
        .get("against")
        .filter(|id| !id.is_empty())
        .ok_or_else(|| {
            Problem::validation(
                "against",
                "`against` is required: the id of the run to compare with",
            )
        })?;
    if !is_run_id(against) {
        return Err(no_such_run().into());
    }
    let diff = state
        .diffs
        .diff(&caller.tenant, &run, &RunId::from(against))
        .await?;
    json(StatusCode::OK, &diff)
}
