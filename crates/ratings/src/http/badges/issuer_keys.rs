//! `/api/v1/organizations/{organizationId}/issuer-keys`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::credential::did::{multibase, parse_multibase};
use crate::http::RatingsApi;
use crate::ports::badges::IssuerKeyRecord;
use crate::service::badges::issuer_keys::{Rotated, Rotation};
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, PathParameters};
use touchstone_host::http::idempotency::{Done, once_per_principal};
use touchstone_host::service::access::Caller;
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};

/// Maximum length of a key's name in characters; real names are shorter.
const MAX_KEY: usize = 128;

/// `POST /api/v1/organizations/{organizationId}/issuer-keys/rotate`.
pub async fn rotate(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let id = path.get("organizationId").to_owned();
    // Check that the organization exists and belongs to the caller before validating the body.
    state.ratings.changeable(&caller, &id).await?;
    let rotation = rotation(&body)?;
    let (ratings, acting_caller) = (state.ratings.clone(), caller.clone());
    let endpoint = format!("POST /api/v1/organizations/{id}/issuer-keys/rotate");
    once_per_principal(&state.host, &caller, endpoint, key, &body, |_| async move {
        let rotated = ratings
            .rotate_issuer_key(&acting_caller, &id, rotation)
            .await?;
        Ok(Done::new(StatusCode::OK, to_json(&id, &rotated)))
    })
    .await
}

fn rotation(body: &Value) -> Result<Rotation, Problem> {
    let fields = Fields::closed(body, "", &["key", "compromised"], Nulls::Wrong)?;
    let key = fields.text_of("key", 1..=MAX_KEY)?.map(|name| {
        parse_multibase(name).ok_or_else(|| {
            let shape = "must be the name of an Ed25519 key as a Multikey, like z6Mk…";
            fields.invalid("key", shape)
        })
    });
    Ok(Rotation {
        key: key.transpose()?,
        compromised: fields.boolean("compromised")?.unwrap_or(false),
    })
}

fn to_json(organization: &str, rotated: &Rotated) -> Value {
    let key = |it: &IssuerKeyRecord| {
        json!({
            "key": multibase(&it.public),
            "created_at": it.created_at,
            "retired_at": it.retired_at,
            "compromised": it.compromised,
        })
    };
    json!({
        "organization_id": organization,
        "keys": rotated.keys.iter().map(key).collect::<Vec<_>>(),
        "revoked_badges": rotated.revoked,
    })
}
