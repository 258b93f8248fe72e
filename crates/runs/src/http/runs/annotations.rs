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
use touchstone_host::ports::idempotency::IdempotencyClaim;
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
    let operation = |claim: Option<IdempotencyClaim>| async move {
        let annotation = annotations
            .annotate(&who, &run, new, claim.as_ref())
            .await?;
        Ok(Done::new(
            StatusCode::CREATED,
            serde_json::to_value(annotation).map_err(|cause| internal(&cause))?,
        )
        .recorded(claim.is_some()))
    };
    once(&state.host, &caller, endpoint, key, &body, operation).await
}
