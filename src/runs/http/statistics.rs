//! `GET /v1/host/touchstone/runs/{runId}/statistics`: confidence intervals of the scores, and
//! whether the sample is large enough.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::host::http::answer::{Answer, json};
use crate::host::service::access::Caller;
use crate::runs::http::RunsApi;
use crate::runs::http::extract::RunPath;

/// `GET /v1/host/touchstone/runs/{runId}/statistics`.
pub async fn get(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
) -> Answer {
    let statistics = state.runs.statistics(&caller.tenant, &run).await?;
    json(StatusCode::OK, &statistics)
}
