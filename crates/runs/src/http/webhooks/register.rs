//! `POST /v1/webhooks`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::http::RunsApi;
use crate::service::webhooks::Registered;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, JsonBody};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;

/// `POST /v1/webhooks`.
pub async fn register(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let (webhooks, who, request) = (state.webhooks.clone(), caller.clone(), body.clone());
    let endpoint = "POST /v1/webhooks".to_owned();
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let registered = webhooks.register(&who, &request).await?;
        Ok(Done::new(StatusCode::CREATED, document(&registered)))
    })
    .await
}

/// Contains both the names of the specification and those the published client reads. No other
/// response contains the secret.
fn document(registered: &Registered) -> Value {
    let webhook = &registered.webhook;
    let mut document = json!({
        "webhookId": webhook.id,
        "subscriptionId": webhook.id,
        "tenantId": webhook.tenant,
        "url": webhook.url.as_str(),
        "events": webhook.events,
        "eventTypes": webhook.events,
        "tags": webhook.tags,
        "secretFingerprint": webhook.secrets.current.fingerprint(),
        "createdAt": webhook.created_at,
    });
    if let Some(members) = document.as_object_mut() {
        if let Some(secret) = &registered.secret {
            members.insert("secret".to_owned(), json!(secret.expose()));
        }
        if let Some(schemes) = &registered.schemes {
            members.insert("signatureAlgorithms".to_owned(), json!(schemes));
        }
    }
    document
}
