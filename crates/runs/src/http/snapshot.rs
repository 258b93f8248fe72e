//! `GET /v1/runs/{runId}`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::answer::etag::conditional;
use touchstone_host::service::access::Caller;

/// `GET /v1/runs/{runId}`.
pub async fn get(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    headers: HeaderMap,
) -> Answer {
    let mut snapshot = state.runs.snapshot(&caller.tenant, &run).await?;
    if let Some(members) = snapshot.as_object_mut()
        && members.contains_key("currentNodeId")
        && let Some(interrupt) = state.runs.suspended(&caller, &run).await?
    {
        members.insert("interrupt".to_owned(), interrupt);
    }
    Ok(conditional(&headers, snapshot.to_string().into()))
}
