//! `POST /v1/host/touchstone/runs/{runId}:void`: declares a run void, so that it is not evidence.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use crate::http::runs::cancel::reason;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, members};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;
use touchstone_kit::error::Problem;

/// `POST /v1/host/touchstone/runs/{runId}:void`.
pub async fn void(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    let why = "an agent's own key cannot void runs; use another principal's key";
    state.reviews.refuse_own(&caller, why).await?;
    let given = members(&body)?;
    if let Some(unknown) = given.keys().find(|name| *name != "reason") {
        return Err(
            Problem::validation(unknown, "unknown field; the only field is `reason`").into(),
        );
    }
    let reason = reason(given)?
        .filter(|reason| !reason.trim().is_empty())
        .ok_or_else(|| {
            Problem::validation("reason", "`reason` is required: why the run is void")
        })?;
    let endpoint = format!("POST /v1/host/touchstone/runs/{run}:void");
    let (runs, who) = (state.runs.clone(), caller.clone());
    once(
        &state.host,
        &caller,
        endpoint,
        key,
        &body,
        |claim| async move {
            let body = runs.void(&who, &run, reason, claim.as_ref()).await?;
            Ok(Done::new(StatusCode::OK, body).recorded(claim.is_some()))
        },
    )
    .await
}
