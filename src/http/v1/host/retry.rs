//! `POST /v1/host/touchstone/runs/{runId}:retry`: a new run that executes only the unjudged tasks.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::HttpState;
use crate::http::answer::Answer;
use crate::http::extract::{IdempotencyKey, OptionalJsonBody, RunPath};
use crate::http::idempotency::{Done, once};
use crate::http::v1::runs::cancel::members;
use crate::protocol::error::Problem;
use crate::service::access::Caller;

/// `POST /v1/host/touchstone/runs/{runId}:retry`.
pub async fn retry(
    State(state): State<Arc<HttpState>>,
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
    once(&state, &caller, endpoint, key, &body, |claim| async move {
        let created = runs.retry(&who, &run, claim.as_ref()).await?;
        Ok(Done::new(StatusCode::CREATED, created.body).recorded(created.recorded))
    })
    .await
}
