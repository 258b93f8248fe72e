//! API keys of the caller's tenant (scope `keys:manage`).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use crate::http::HostApi;
use crate::http::answer::{Answer, json};
use crate::http::extract::{IdempotencyKey, JsonBody, OptionalJsonBody, PathParameters};
use crate::http::idempotency::{Done, once_per_principal};
use crate::ports::keys::KeyRecord;
use crate::service::access::Caller;
use crate::service::key_management::{MAX_OVERLAP, NewGrant};
use crate::service::keys::KeyState;
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::ids::KeyId;

/// Longest life of a new key, in hours: 100 years.
const MAX_HOURS: f64 = 876_000.0;

/// `GET /v1/host/touchstone/keys`.
pub async fn list(State(api): State<Arc<HostApi>>, Extension(caller): Extension<Caller>) -> Answer {
    let keys = api.host.keys.tenant_keys(&caller).await?;
    let now = api.host.clock.now();
    let shown: Vec<Value> = keys.iter().map(|key| shown(key, now)).collect();
    json(StatusCode::OK, &json!({"keys": shown}))
}

fn shown(key: &KeyRecord, now: Timestamp) -> Value {
    let state = KeyState::of(key, now);
    let mut shown = json!({
        "keyId": key.id,
        "state": state.as_str(),
        "scopes": key.scopes,
        "roles": key.roles,
        "test": key.test,
        "createdAt": key.created_at,
    });
    let previous = key.previous.as_ref();
    let previous = previous.filter(|_| state == KeyState::Rotating);
    let optional = [
        ("principal", key.principal.as_ref().map(|it| json!(it))),
        ("expiresAt", key.expires_at.map(|it| json!(it))),
        ("revokedAt", key.revoked_at.map(|it| json!(it))),
        (
            "previousSecretExpiresAt",
            previous.map(|it| json!(it.valid_until)),
        ),
    ];
    if let Some(members) = shown.as_object_mut() {
        let present = optional.into_iter();
        let present = present.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        members.extend(present);
    }
    shown
}

/// `POST /v1/host/touchstone/keys`. Only the first response contains the key.
pub async fn create(
    State(api): State<Arc<HostApi>>,
    Extension(caller): Extension<Caller>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let grant = grant(&body)?;
    let (keys, who) = (api.host.keys.clone(), caller.clone());
    let endpoint = "POST /v1/host/touchstone/keys".to_owned();
    once_per_principal(&api.host, &caller, endpoint, key, &body, |_| async move {
        let new = keys.grant(&who, grant).await?;
        let done = Done::new(StatusCode::CREATED, json!({"keyId": new.id}));
        Ok(done.telling("key", json!(new.text.expose_secret())))
    })
    .await
}

fn grant(body: &Value) -> Result<NewGrant, Problem> {
    let known = ["scopes", "roles", "principal", "expiresInHours"];
    let fields = Fields::closed(body, "", &known, Nulls::Wrong)?;
    let texts = |name: &'static str| -> Result<Vec<String>, Problem> {
        let Some(value) = fields.get(name) else {
            return Ok(Vec::new());
        };
        let items = value.as_array().into_iter().flatten();
        let texts: Option<Vec<String>> = items.map(|it| Some(it.as_str()?.to_owned())).collect();
        let texts = texts.filter(|it| value.is_array() && it.len() <= 200);
        texts.ok_or_else(|| fields.invalid(name, "must be an array of at most 200 strings"))
    };
    let hours = fields.number("expiresInHours", 1.0, MAX_HOURS)?;
    Ok(NewGrant {
        scopes: texts("scopes")?,
        roles: texts("roles")?,
        principal: fields.text("principal")?.map(str::to_owned),
        expires_in: hours.map(|hours| SignedDuration::from_secs_f64(hours * 3600.0)),
    })
}

/// `POST /v1/host/touchstone/keys/{keyId}/rotate`. Only the first response contains the key.
pub async fn rotate(
    State(api): State<Arc<HostApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    let id = KeyId::from(path.get("keyId"));
    let fields = Fields::closed(&body, "", &["overlapHours"], Nulls::Wrong)?;
    let most = MAX_OVERLAP.as_secs_f64() / 3600.0;
    let hours = fields.number("overlapHours", 0.0, most)?;
    let overlap = SignedDuration::from_secs_f64(hours.unwrap_or_default() * 3600.0);
    let (keys, who) = (api.host.keys.clone(), caller.clone());
    let endpoint = format!("POST /v1/host/touchstone/keys/{id}/rotate");
    once_per_principal(&api.host, &caller, endpoint, key, &body, |_| async move {
        let new = keys.rotate_own(&who, &id, overlap).await?;
        let done = Done::new(StatusCode::OK, json!({"keyId": new.id}));
        Ok(done.telling("key", json!(new.text.expose_secret())))
    })
    .await
}

/// `POST /v1/host/touchstone/keys/{keyId}/revoke`.
pub async fn revoke(
    State(api): State<Arc<HostApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    let id = KeyId::from(path.get("keyId"));
    Fields::closed(&body, "", &[], Nulls::Wrong)?;
    let (keys, who) = (api.host.keys.clone(), caller.clone());
    let endpoint = format!("POST /v1/host/touchstone/keys/{id}/revoke");
    once_per_principal(&api.host, &caller, endpoint, key, &body, |_| async move {
        keys.revoke_own(&who, &id).await?;
        Ok(Done::new(
            StatusCode::OK,
            json!({"keyId": id, "revoked": true}),
        ))
    })
    .await
}
