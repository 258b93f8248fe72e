//! `GET /v1/host/touchstone/runs/{runId}/statistics`: confidence intervals of the scores, and
//! whether the sample is large enough.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::service::access::Caller;

/// `GET /v1/host/touchstone/runs/{runId}/statistics`.
pub async fn get(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
) -> Answer {
    let statistics = state.runs.statistics(&caller.tenant, &run).await?;
    json(StatusCode::OK, &statistics)
}
