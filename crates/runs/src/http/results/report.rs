//! `GET /v1/host/touchstone/runs/{runId}/report`: the verdict with its reasons, also while the run
//! is in progress.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::service::access::Caller;

/// `GET /v1/host/touchstone/runs/{runId}/report`.
pub async fn get(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
) -> Answer {
    let report = state.runs.report(&caller.tenant, &run).await?;
    json(StatusCode::OK, &report)
}
