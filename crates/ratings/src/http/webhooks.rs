//! `/api/v1/webhooks`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde_json::{Value, json};

use crate::http::RatingsApi;
use crate::http::page::Page;
use crate::ports::Position;
use crate::ports::notices::{DeliveryRecord, NoticeWebhook};
use crate::rules::notice::{Registration, Topic};
use crate::service::Member;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{
    IdempotencyKey, JsonBody, OptionalJsonBody, PathParameters, Query,
};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};

/// `POST /api/v1/webhooks`. Only this answer shows the secret; a replayed request is answered
/// without it.
pub async fn create_webhook(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let registration = Registration::parse(&body)?;
    let (ratings, caller) = (state.ratings.clone(), member.caller.clone());
    let endpoint = "POST /api/v1/webhooks".to_owned();
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let created = ratings.create_webhook(&member, registration).await?;
        let secret = json!(created.secret.expose());
        Ok(
            Done::new(StatusCode::CREATED, to_json(&created.webhook, &member))
                .telling("secret", secret),
        )
    })
    .await
}

/// `GET /api/v1/webhooks`.
pub async fn list(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    query: Query,
) -> Answer {
    let page = Page::<Position>::of(&query)?;
    let (after, fetch_limit) = (page.after.as_ref(), page.fetch_limit());
    let found = state.ratings.webhooks(&member, after, fetch_limit).await?;
    page.answer(found, NoticeWebhook::position, |it| to_json(it, &member))
}

/// `GET /api/v1/webhooks/{webhookId}`.
pub async fn get(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
) -> Answer {
    let webhook = state
        .ratings
        .webhook(&member, path.get("webhookId"))
        .await?;
    json(StatusCode::OK, &to_json(&webhook, &member))
}

/// `DELETE /api/v1/webhooks/{webhookId}`.
pub async fn remove(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
) -> Answer {
    let id = path.get("webhookId");
    state.ratings.remove_webhook(&member, id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /api/v1/webhooks/{webhookId}/rotate-secret`. A replayed request is answered without the
/// secret.
pub async fn rotate(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    let id = path.get("webhookId").to_owned();
    // Check that the webhook exists and belongs to the caller before validating the body.
    state.ratings.webhook(&member, &id).await?;
    require_empty(&body)?;
    let (ratings, caller) = (state.ratings.clone(), member.caller.clone());
    let endpoint = format!("POST /api/v1/webhooks/{id}/rotate-secret");
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let rotated = ratings.rotate_webhook(&member, &id).await?;
        let secret = json!(rotated.secret.expose());
        Ok(Done::new(StatusCode::OK, to_json(&rotated.webhook, &member)).telling("secret", secret))
    })
    .await
}

/// `POST /api/v1/webhooks/{webhookId}/enable`.
pub async fn enable(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    let id = path.get("webhookId").to_owned();
    state.ratings.webhook(&member, &id).await?;
    require_empty(&body)?;
    let (ratings, caller) = (state.ratings.clone(), member.caller.clone());
    let endpoint = format!("POST /api/v1/webhooks/{id}/enable");
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let enabled = ratings.enable_webhook(&member, &id).await?;
        Ok(Done::new(StatusCode::OK, to_json(&enabled, &member)))
    })
    .await
}

/// `GET /api/v1/webhooks/{webhookId}/deliveries`.
pub async fn deliveries(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    query: Query,
) -> Answer {
    let id = path.get("webhookId");
    state.ratings.webhook(&member, id).await?;
    let page = Page::<Position>::of(&query)?;
    let (after, fetch_limit) = (page.after.as_ref(), page.fetch_limit());
    let found = state
        .ratings
        .deliveries(&member, id, after, fetch_limit)
        .await?;
    page.answer(found, DeliveryRecord::position, delivery_to_json)
}

/// `POST /api/v1/webhooks/{webhookId}/deliveries/{deliveryId}/redeliver`.
pub async fn redeliver(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    let id = path.get("webhookId").to_owned();
    let delivery = path.get("deliveryId").to_owned();
    state.ratings.webhook(&member, &id).await?;
    require_empty(&body)?;
    let (ratings, caller) = (state.ratings.clone(), member.caller.clone());
    let endpoint = format!("POST /api/v1/webhooks/{id}/deliveries/{delivery}/redeliver");
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let again = ratings.redeliver(&member, &id, &delivery).await?;
        Ok(Done::new(StatusCode::ACCEPTED, delivery_to_json(&again)))
    })
    .await
}

/// Accepts no body or `{}`.
fn require_empty(body: &Value) -> Result<(), Problem> {
    Fields::closed(body, "", &[], Nulls::Wrong).map(drop)
}

fn to_json(it: &NoticeWebhook, member: &Member) -> Value {
    let events: Vec<&str> = it
        .events
        .iter()
        .map(|topic: &Topic| topic.as_str())
        .collect();
    let disabled = it.health.disabled;
    json!({
        "id": it.id,
        "organization_id": member.organization.id,
        "url": it.url.as_str(),
        "events": events,
        "event_types": events,
        "secret_fingerprint": it.secrets.fingerprint,
        "previous_secret_until": it.secrets.previous.as_ref().map(|(_, until)| until),
        "status": if disabled.is_some() { "disabled" } else { "active" },
        "disabled_reason": disabled.map(|(why, _)| why.as_str()),
        "disabled_at": disabled.map(|(_, since)| since),
        "failing_since": it.health.failing_since,
        "created_at": it.created_at,
    })
}

fn delivery_to_json(it: &DeliveryRecord) -> Value {
    let last = it.last.as_ref();
    json!({
        "id": it.id,
        "message_id": it.message,
        "event": it.topic.as_str(),
        "status": it.state.as_str(),
        "attempts": it.attempts,
        "next_attempt_at": it.due_at,
        "last_attempt_at": last.map(|(at, _)| at),
        "last_outcome": last.map(|(_, outcome)| outcome),
        "created_at": it.created_at,
    })
}
