//! `GET /v1/host/touchstone/runs/{runId}/comparison?baseline=`: what changed since another run, task by task.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::HttpState;
use crate::http::answer::{Answer, json};
use crate::http::extract::{Query, RunPath};
use crate::service::access::Caller;

/// `GET /v1/host/touchstone/runs/{runId}/comparison`.
pub async fn get(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    query: Query,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    let baseline = query.run("baseline")?;
    let found = state
        .runs
        .comparison(&caller.tenant, &run, &baseline)
        .await?;
    json(StatusCode::OK, &found)
}
