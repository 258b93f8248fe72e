//! How an organization has its agents assessed: `/api/v1/organizations/{organizationId}/config`, `/api/v1/config/…`, and
//! `/api/v1/standards`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::domain::aaaf::Config;
use crate::domain::aaaf::standards;
use crate::http::HttpState;
use crate::http::answer::{Answer, json};
use crate::http::extract::{JsonBody, PathParameters};
use crate::ports::aaaf::OrganizationRecord;
use crate::service::aaaf::{Member, config};
use crate::service::access::Caller;

const WEIGHTS: &[&str] = &["performance_weights", "capability_weights"];
const TAXONOMY: &[&str] = &["domain_taxonomy"];

/// `GET /api/v1/organizations/{organizationId}/config`.
pub async fn get(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let organization = state.aaaf.organization(&caller, path.get("organizationId"));
    json(StatusCode::OK, &config::of(&organization.await?)?)
}

/// `PATCH /api/v1/organizations/{organizationId}/config`.
pub async fn change(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    JsonBody(body): JsonBody,
) -> Answer {
    let id = path.get("organizationId");
    let changed = state.aaaf.change_config(&caller, id, &body).await?;
    json(StatusCode::OK, &changed)
}

/// `GET /api/v1/config/weights`.
pub async fn weights(Extension(member): Extension<Member>) -> Answer {
    json(
        StatusCode::OK,
        &weights_of(&config::of(&member.organization)?),
    )
}

/// `PUT /api/v1/config/weights`.
pub async fn set_weights(
    State(state): State<Arc<HttpState>>,
    Extension(member): Extension<Member>,
    JsonBody(body): JsonBody,
) -> Answer {
    set(
        &state,
        &member.caller,
        own(&member),
        &body,
        WEIGHTS,
        weights_of,
    )
    .await
}

/// `GET /api/v1/organizations/{organizationId}/config/weights`.
pub async fn organization_weights(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let organization = state.aaaf.organization(&caller, path.get("organizationId"));
    json(
        StatusCode::OK,
        &weights_of(&config::of(&organization.await?)?),
    )
}

/// `PUT /api/v1/organizations/{organizationId}/config/weights`.
pub async fn set_organization_weights(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    JsonBody(body): JsonBody,
) -> Answer {
    let organization = state.aaaf.changeable(&caller, path.get("organizationId"));
    set(
        &state,
        &caller,
        organization.await?,
        &body,
        WEIGHTS,
        weights_of,
    )
    .await
}

/// `GET /api/v1/config/taxonomy`.
pub async fn taxonomy(Extension(member): Extension<Member>) -> Answer {
    json(
        StatusCode::OK,
        &taxonomy_of(&config::of(&member.organization)?),
    )
}

/// `PUT /api/v1/config/taxonomy`.
pub async fn set_taxonomy(
    State(state): State<Arc<HttpState>>,
    Extension(member): Extension<Member>,
    JsonBody(body): JsonBody,
) -> Answer {
    set(
        &state,
        &member.caller,
        own(&member),
        &body,
        TAXONOMY,
        taxonomy_of,
    )
    .await
}

/// `GET /api/v1/organizations/{organizationId}/config/taxonomy`.
pub async fn organization_taxonomy(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let organization = state.aaaf.organization(&caller, path.get("organizationId"));
    json(
        StatusCode::OK,
        &taxonomy_of(&config::of(&organization.await?)?),
    )
}

/// `PUT /api/v1/organizations/{organizationId}/config/taxonomy`.
pub async fn set_organization_taxonomy(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    JsonBody(body): JsonBody,
) -> Answer {
    let organization = state.aaaf.changeable(&caller, path.get("organizationId"));
    set(
        &state,
        &caller,
        organization.await?,
        &body,
        TAXONOMY,
        taxonomy_of,
    )
    .await
}

/// `GET /api/v1/standards`.
pub async fn standards() -> Answer {
    json(StatusCode::OK, &standards::document())
}

/// Replaces parts of an organization's configuration; the answer is what `shown` makes of all of it.
async fn set(
    state: &HttpState,
    caller: &Caller,
    organization: OrganizationRecord,
    body: &Value,
    parts: &[&str],
    shown: fn(&Config) -> Value,
) -> Answer {
    let config = state
        .aaaf
        .replace_config(caller, organization, body, parts)
        .await?;
    json(StatusCode::OK, &shown(&config))
}

fn own(member: &Member) -> OrganizationRecord {
    member.organization.as_ref().clone()
}

fn weights_of(config: &Config) -> Value {
    json!({
        "performance_weights": config.performance_weights,
        "capability_weights": config.capability_weights,
    })
}

fn taxonomy_of(config: &Config) -> Value {
    json!({"domain_taxonomy": config.rules.domain_taxonomy})
}
