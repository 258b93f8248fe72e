//! Webhook subscriptions (OpenWOP webhooks).

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::http::RunsApi;
use crate::ports::webhooks::WebhookRecord;
use crate::service::webhooks::Registered;
use crate::store::deliveries::KEPT;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{
    IdempotencyKey, JsonBody, OptionalJsonBody, PathParameters, Query,
};
use touchstone_host::http::idempotency::{Done, of_major, once};
use touchstone_host::http::negotiation::Spoken;
use touchstone_host::http::routes::Table;
use touchstone_host::service::access::Caller;
use touchstone_kit::ids::WebhookId;
use touchstone_kit::webhook::schedule::MAX_DEAD_LETTERS;
use touchstone_kit::webhook::{SCHEME_STANDARD, SCHEME_V1};

pub fn routes(table: Table<RunsApi>) -> Table<RunsApi> {
    let (get, post, delete) = (&Method::GET, &Method::POST, &Method::DELETE);
    table
        .keyed(post, "/v1/webhooks", Scope::WebhooksManage, register)
        .keyed(
            delete,
            "/v1/webhooks/{webhookId}",
            Scope::WebhooksManage,
            unregister,
        )
        .keyed(
            post,
            "/v1/webhooks/{webhookId}/rotate-secret",
            Scope::WebhooksManage,
            rotate_secret,
        )
        .keyed(
            get,
            "/v1/webhooks/{webhookId}/dead-letters",
            Scope::WebhooksManage,
            dead_letters,
        )
        .keyed(
            get,
            "/v1/host/touchstone/webhooks",
            Scope::WebhooksManage,
            list,
        )
        .keyed(
            get,
            "/v1/host/touchstone/webhooks/{webhookId}/dead-letters",
            Scope::WebhooksManage,
            dead_letters,
        )
        .keyed(
            get,
            "/v1/host/touchstone/webhooks/{webhookId}/deliveries",
            Scope::WebhooksManage,
            deliveries,
        )
        .keyed(
            post,
            "/v1/host/touchstone/webhooks/{webhookId}/deliveries/{number}/replay",
            Scope::WebhooksManage,
            replay,
        )
}

/// Largest number of deliveries, so that one fits a cursor of the store.
const MAX_NUMBER: u64 = 1 << 53;
/// Deliveries of a page unless `limit` says otherwise.
const DEFAULT_LIMIT: u64 = 50;

/// The public view of a subscription, without its secret.
fn shown(webhook: &WebhookRecord) -> Value {
    let schemes: &[&str] = if webhook.standard {
        &[SCHEME_V1, SCHEME_STANDARD]
    } else {
        &[SCHEME_V1]
    };
    json!({
        "webhookId": webhook.id,
        "url": webhook.url.as_str(),
        "events": webhook.events,
        "tags": webhook.tags,
        "signatureAlgorithms": schemes,
        "secretFingerprint": webhook.secrets.current.fingerprint(),
        "createdAt": webhook.created_at,
        "protocolVersion": webhook.contract.version(),
    })
}

fn webhook_id(path: &PathParameters) -> WebhookId {
    path.get("webhookId").into()
}

/// `GET /v1/host/touchstone/webhooks`.
pub async fn list(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let now = state.host.clock.now();
    let webhooks = state.webhooks.list(&caller.tenant).await?;
    let listed: Vec<Value> = webhooks
        .iter()
        .map(|webhook| with_circuit(webhook, now))
        .collect();
    json(StatusCode::OK, &json!({"webhooks": listed}))
}

fn with_circuit(webhook: &WebhookRecord, now: Timestamp) -> Value {
    let circuit = &webhook.circuit;
    let mut shown = shown(webhook);
    if let Some(members) = shown.as_object_mut() {
        members.insert("state".to_owned(), json!(circuit.state(now)));
        members.insert(
            "consecutiveFailures".to_owned(),
            json!(circuit.consecutive_failures()),
        );
        members.insert(
            "recentFailures".to_owned(),
            json!(circuit.recent_failures(now)),
        );
        if let Some(until) = circuit.open_until(now) {
            members.insert("openUntil".to_owned(), json!(until));
        }
        if let Some((_, until)) = &webhook.secrets.previous
            && webhook.secrets.overlapping(now).is_some()
        {
            members.insert("previousSecretExpiresAt".to_owned(), json!(until));
        }
    }
    shown
}

/// `POST /v1/webhooks`.
pub async fn register(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    Spoken(major): Spoken,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let (webhooks, who, request) = (state.webhooks.clone(), caller.clone(), body.clone());
    let endpoint = "POST /v1/webhooks".to_owned();
    // The major decides about the form of the deliveries.
    let major = state.host.settings.protocol.majors.of_made_under(major);
    let asked = of_major(major, body);
    once(
        &state.host,
        &caller,
        endpoint,
        key,
        &asked,
        |_| async move {
            let registered = webhooks.register(&who, &request, major).await?;
            Ok(Done::new(StatusCode::CREATED, document(&registered)))
        },
    )
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
    let operation = |_| async move {
        webhooks.remove(&who, tenant.as_deref(), &id).await?;
        Ok(Done::new(StatusCode::NO_CONTENT, Value::Null))
    };
    let answer = once(&state.host, &caller, endpoint, key, &Value::Null, operation).await?;
    // Executed or replayed, a 204 has no body.
    let (mut parts, _) = answer.into_parts();
    parts.headers.remove(CONTENT_TYPE);
    parts.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(parts, Body::empty()))
}

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

/// `GET /v1/host/touchstone/webhooks/{webhookId}/deliveries`.
pub async fn deliveries(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    query: Query,
) -> Answer {
    let before = query.whole("cursor", 1, MAX_NUMBER)?;
    let most = u64::try_from(KEPT).unwrap_or(u64::MAX);
    let limit = query.whole("limit", 1, most)?.unwrap_or(DEFAULT_LIMIT);
    let limit = usize::try_from(limit).unwrap_or(KEPT);
    let id = webhook_id(&path);
    let page = state.webhooks.deliveries(&caller, &id, before, limit);
    let page = page.await?;
    let mut body = json!({"deliveries": page.deliveries});
    if let (Some(members), Some(next)) = (body.as_object_mut(), page.next) {
        members.insert("nextCursor".to_owned(), json!(next.to_string()));
    }
    json(StatusCode::OK, &body)
}

/// `GET /v1/webhooks/{webhookId}/dead-letters`, which major 2 has, and `GET
/// /v1/host/touchstone/webhooks/{webhookId}/dead-letters`.
pub async fn dead_letters(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    query: Query,
) -> Answer {
    let limit = query.whole("limit", 1, MAX_DEAD_LETTERS)?;
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (id, cursor) = (webhook_id(&path), query.get("cursor"));
    let page = state.webhooks.dead_letters(&caller, &id, cursor, limit);
    let page = page.await?;
    let mut body = json!({"deliveries": page.letters});
    if let (Some(members), Some(next)) = (body.as_object_mut(), page.next) {
        members.insert("nextCursor".to_owned(), json!(next));
    }
    json(StatusCode::OK, &body)
}

/// `POST /v1/host/touchstone/webhooks/{webhookId}/deliveries/{number}/replay`.
pub async fn replay(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    let id = webhook_id(&path);
    // No delivery has the number 0, so text that is not a number finds none.
    let number = path.get("number").parse().unwrap_or_default();
    let endpoint = format!("POST /v1/host/touchstone/webhooks/{id}/deliveries/{number}/replay");
    let (webhooks, who) = (state.webhooks.clone(), caller.clone());
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let made = webhooks.replay(&who, &id, number).await?;
        Ok(Done::new(StatusCode::OK, json!(made)))
    })
    .await
}
