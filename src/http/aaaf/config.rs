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
    let config = state.aaaf.replace_config(&member, &body, WEIGHTS).await?;
    json(StatusCode::OK, &weights_of(&config))
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
    let config = state.aaaf.replace_config(&member, &body, TAXONOMY).await?;
    json(StatusCode::OK, &taxonomy_of(&config))
}

/// `GET /api/v1/standards`.
pub async fn standards() -> Answer {
    json(StatusCode::OK, &standards::document())
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
