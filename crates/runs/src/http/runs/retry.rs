//! `POST /v1/host/touchstone/runs/{runId}:retry`: a new run that executes only the unjudged tasks.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, OptionalJsonBody, members};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;
use touchstone_kit::error::Problem;

/// `POST /v1/host/touchstone/runs/{runId}:retry`.
pub async fn retry(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    if let Some(unknown) = members(&body)?.keys().next() {
        return Err(Problem::validation(unknown, "a retry takes no fields; send `{}`").into());
    }
    let endpoint = format!("POST /v1/host/touchstone/runs/{run}:retry");
    let (runs, who) = (state.runs.clone(), caller.clone());
    once(
        &state.host,
        &caller,
        endpoint,
        key,
        &body,
        |claim| async move {
            let created = runs.retry(&who, &run, claim.as_ref()).await?;
            Ok(Done::new(StatusCode::CREATED, created.body).recorded(created.recorded))
        },
    )
    .await
}
