//! `GET /v1/runs/{runId}`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;

use crate::http::HttpState;
use crate::http::answer::Answer;
use crate::http::etag::conditional;
use crate::http::extract::RunPath;
use crate::service::access::Caller;

/// `GET /v1/runs/{runId}`.
pub async fn get(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    headers: HeaderMap,
) -> Answer {
    let snapshot = state.runs.snapshot(&caller.tenant, &run).await?;
    Ok(conditional(&headers, snapshot.to_string().into()))
}
