//! `DELETE /v1/webhooks/{webhookId}`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde_json::Value;

use crate::http::RunsApi;
use crate::http::webhooks::webhook_id;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, PathParameters, Query};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;

/// `DELETE /v1/webhooks/{webhookId}`. The API key determines the tenant; `tenantId` may repeat it.
pub async fn unregister(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    query: Query,
    IdempotencyKey(key): IdempotencyKey,
) -> Answer {
    let id = webhook_id(&path);
    let endpoint = format!("DELETE /v1/webhooks/{id}");
    let tenant = query.get("tenantId").map(str::to_owned);
    let (webhooks, who) = (state.webhooks.clone(), caller.clone());
    let answer = once(
        &state.host,
        &caller,
        endpoint,
        key,
        &Value::Null,
        |_| async move {
            webhooks.remove(&who, tenant.as_deref(), &id).await?;
            Ok(Done::new(StatusCode::NO_CONTENT, Value::Null))
        },
    )
    .await?;
    // Executed or replayed, a 204 has no body.
    let (mut parts, _) = answer.into_parts();
    parts.headers.remove(CONTENT_TYPE);
    parts.headers.remove(CONTENT_LENGTH);
    Ok(axum::response::Response::from_parts(
        parts,
        axum::body::Body::empty(),
    ))
}
