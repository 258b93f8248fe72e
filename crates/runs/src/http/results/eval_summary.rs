//! `GET /v1/runs/{runId}/eval-summary` (RFC 0081 §C).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::service::access::Caller;

/// `GET /v1/runs/{runId}/eval-summary`.
pub async fn get(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
) -> Answer {
    let summary = state.runs.summary(&caller.tenant, &run).await?;
    json(StatusCode::OK, &summary)
}
