//! The assessment configuration of an organization:
//! `/api/v1/organizations/{organizationId}/config`, `/api/v1/config/…` and `/api/v1/standards`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::http::RatingsApi;
use crate::ports::organizations::OrganizationRecord;
use crate::rules::Config;
use crate::rules::standards;
use crate::service::{Member, config};
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{JsonBody, PathParameters};
use touchstone_host::service::access::Caller;

/// A part of the configuration that has its own routes.
pub trait ConfigSection {
    const MEMBERS: &'static [&'static str];

    fn to_json(config: &Config) -> Value;
}

pub struct Weights;

impl ConfigSection for Weights {
    const MEMBERS: &'static [&'static str] = &["performance_weights", "capability_weights"];

    fn to_json(config: &Config) -> Value {
        json!({
            "performance_weights": config.performance_weights,
            "capability_weights": config.capability_weights,
        })
    }
}

pub struct Taxonomy;

impl ConfigSection for Taxonomy {
    const MEMBERS: &'static [&'static str] = &["domain_taxonomy"];

    fn to_json(config: &Config) -> Value {
        json!({"domain_taxonomy": config.rules.domain_taxonomy})
    }
}

fn section<S: ConfigSection>(organization: &OrganizationRecord) -> Answer {
    json(StatusCode::OK, &S::to_json(&config::of(organization)?))
}

async fn replace<S: ConfigSection>(
    state: &RatingsApi,
    caller: &Caller,
    organization: OrganizationRecord,
    body: &Value,
) -> Answer {
    let replaced = state
        .ratings
        .replace_config(caller, organization, body, S::MEMBERS)
        .await?;
    json(StatusCode::OK, &S::to_json(&replaced))
}

/// `GET /api/v1/organizations/{organizationId}/config`.
pub async fn get(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let organization = state
        .ratings
        .organization(&caller, path.get("organizationId"));
    json(StatusCode::OK, &config::of(&organization.await?)?)
}

/// `PATCH /api/v1/organizations/{organizationId}/config`.
pub async fn change(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    JsonBody(body): JsonBody,
) -> Answer {
    let id = path.get("organizationId");
    let changed = state.ratings.change_config(&caller, id, &body).await?;
    json(StatusCode::OK, &changed)
}

/// `GET /api/v1/config/weights` and `…/taxonomy`.
pub async fn own_section<S: ConfigSection>(Extension(member): Extension<Member>) -> Answer {
    section::<S>(&member.organization)
}

/// `PUT /api/v1/config/weights` and `…/taxonomy`.
pub async fn set_own_section<S: ConfigSection>(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    JsonBody(body): JsonBody,
) -> Answer {
    let organization = member.organization.as_ref().clone();
    replace::<S>(&state, &member.caller, organization, &body).await
}

/// `GET /api/v1/organizations/{organizationId}/config/weights` and `…/taxonomy`.
pub async fn organization_section<S: ConfigSection>(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let organization = state
        .ratings
        .organization(&caller, path.get("organizationId"));
    section::<S>(&organization.await?)
}

/// `PUT /api/v1/organizations/{organizationId}/config/weights` and `…/taxonomy`.
pub async fn set_organization_section<S: ConfigSection>(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    JsonBody(body): JsonBody,
) -> Answer {
    let organization = state
        .ratings
        .changeable(&caller, path.get("organizationId"));
    replace::<S>(&state, &caller, organization.await?, &body).await
}

/// `GET /api/v1/standards`.
pub async fn standards() -> Answer {
    json(StatusCode::OK, &standards::document())
}
