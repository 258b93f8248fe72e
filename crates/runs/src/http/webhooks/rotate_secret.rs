//! `POST /v1/webhooks/{webhookId}/rotate-secret` (RFC 0201 §E).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;

use crate::http::RunsApi;
use crate::http::webhooks::webhook_id;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, PathParameters, Query};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;

/// `POST /v1/webhooks/{webhookId}/rotate-secret`. The response does not contain the secret: the
/// subscriber sent it.
pub async fn rotate_secret(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    query: Query,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let id = webhook_id(&path);
    let endpoint = format!("POST /v1/webhooks/{id}/rotate-secret");
    let tenant = query.get("tenantId").map(str::to_owned);
    let (webhooks, who, request) = (state.webhooks.clone(), caller.clone(), body.clone());
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let rotated = webhooks
            .rotate(&who, tenant.as_deref(), &id, &request)
            .await?;
        Ok(Done::new(
            StatusCode::OK,
            json!({"rotatedAt": rotated.at, "previousSecretExpiresAt": rotated.previous_until}),
        ))
    })
    .await
}
