//! `GET /v1/host/touchstone/runs/{runId}/comparison?baseline=`: the changes since another run, task
//! by task.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::RunsApi;
use crate::http::extract::OwnRun;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::Query;
use touchstone_host::service::access::Caller;

/// `GET /v1/host/touchstone/runs/{runId}/comparison`.
pub async fn get(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    OwnRun(run): OwnRun,
) -> Answer {
    let baseline = query.run("baseline")?;
    let found = state
        .runs
        .comparison(&caller.tenant, &run.run_id, &baseline)
        .await?;
    json(StatusCode::OK, &found)
}
