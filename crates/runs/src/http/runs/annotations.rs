//! `GET` and `POST /v1/runs/{runId}/annotations` (RFC 0056).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use crate::rules::run::annotation::parse;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;

/// `GET /v1/runs/{runId}/annotations`.
pub async fn list(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
) -> Answer {
    let annotations = state.annotations.list(&caller.tenant, &run).await?;
    json(
        StatusCode::OK,
        &serde_json::json!({"annotations": annotations}),
    )
}

/// `POST /v1/runs/{runId}/annotations`.
pub async fn create(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    let new = parse(&body)?;
    let endpoint = format!("POST /v1/runs/{run}/annotations");
    let (annotations, who) = (state.annotations.clone(), caller.clone());
    once(
        &state.host,
        &caller,
        endpoint,
        key,
        &body,
        |claim| async move {
            let made = annotations
                .annotate(&who, &run, new, claim.as_ref())
                .await?;
            Ok(Done::new(
                StatusCode::CREATED,
                serde_json::to_value(made).map_err(|cause| internal(&cause))?,
            )
            .recorded(claim.is_some()))
        },
    )
    .await
}
