//! `GET /v1/runs/{runId}/debug-bundle` (OpenWOP debug-bundle).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::HttpState;
use crate::http::answer::{Answer, json};
use crate::http::extract::{Query, RunPath};
use crate::service::access::Caller;

/// `GET /v1/runs/{runId}/debug-bundle`.
pub async fn get(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    query: Query,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    let most = query.whole("maxEvents", 0, u64::MAX)?;
    let bundle = state.bundles.bundle(&caller.tenant, &run, most).await?;
    json(StatusCode::OK, &bundle)
}
