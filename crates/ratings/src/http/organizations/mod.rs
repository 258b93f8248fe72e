//! `/api/v1/organizations`.

pub mod config;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use crate::http::RatingsApi;
use crate::ports::organizations::OrganizationRecord;
use crate::rules::organization::{Change, NewOrganization, Visibility};
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, PathParameters};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;

/// `POST /api/v1/organizations`. Only this answer shows the new key. A replayed request is answered
/// without it, because stored answers never contain keys.
pub async fn create(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let new_organization = NewOrganization::parse(&body)?;
    let (ratings, acting_caller) = (state.ratings.clone(), caller.clone());
    let endpoint = "POST /api/v1/organizations".to_owned();
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let created = ratings
            .create_organization(&acting_caller, new_organization)
            .await?;
        let secret = json!(created.key.text.expose_secret());
        Ok(
            Done::new(StatusCode::CREATED, to_json(&created.organization))
                .telling("api_key", secret),
        )
    })
    .await
}

/// `GET /api/v1/organizations/{organizationId}`.
pub async fn get(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let organization = state
        .ratings
        .organization(&caller, path.get("organizationId"));
    json(StatusCode::OK, &to_json(&organization.await?))
}

/// `PATCH /api/v1/organizations/{organizationId}`.
pub async fn change(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    JsonBody(body): JsonBody,
) -> Answer {
    let id = path.get("organizationId");
    // Check that the organization exists and belongs to the caller before validating the body.
    state.ratings.changeable(&caller, id).await?;
    let change = Change::parse(&body)?;
    let changed = state
        .ratings
        .change_organization(&caller, id, change)
        .await?;
    json(StatusCode::OK, &to_json(&changed))
}

fn to_json(organization: &OrganizationRecord) -> Value {
    json!({
        "id": organization.id,
        "name": organization.name,
        "tenant": organization.tenant,
        "status": organization.status,
        "badges": match organization.private_badges {
            true => Visibility::Private,
            false => Visibility::Public,
        },
        "auditors": organization.auditors,
        "created_at": organization.created_at,
        "updated_at": organization.updated_at,
    })
}
