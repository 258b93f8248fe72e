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

const WEIGHTS: ConfigSection = ConfigSection {
    members: &["performance_weights", "capability_weights"],
    to_json: weights_of,
};
const TAXONOMY: ConfigSection = ConfigSection {
    members: &["domain_taxonomy"],
    to_json: taxonomy_of,
};

/// A part of the configuration that has its own routes.
struct ConfigSection {
    members: &'static [&'static str],
    to_json: fn(&Config) -> Value,
}

impl ConfigSection {
    fn read(&self, organization: &OrganizationRecord) -> Answer {
        json(StatusCode::OK, &(self.to_json)(&config::of(organization)?))
    }

    async fn replace(
        &self,
        state: &RatingsApi,
        caller: &Caller,
        organization: OrganizationRecord,
        body: &Value,
    ) -> Answer {
        let replaced = state
            .aaaf
            .replace_config(caller, organization, body, self.members)
            .await?;
        json(StatusCode::OK, &(self.to_json)(&replaced))
    }
}

/// `GET /api/v1/organizations/{organizationId}/config`.
pub async fn get(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let organization = state.aaaf.organization(&caller, path.get("organizationId"));
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
    let changed = state.aaaf.change_config(&caller, id, &body).await?;
    json(StatusCode::OK, &changed)
}

/// `GET /api/v1/config/weights`.
pub async fn weights(Extension(member): Extension<Member>) -> Answer {
    WEIGHTS.read(&member.organization)
}

/// `PUT /api/v1/config/weights`.
pub async fn set_weights(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    JsonBody(body): JsonBody,
) -> Answer {
    let organization = member.organization.as_ref().clone();
    WEIGHTS
        .replace(&state, &member.caller, organization, &body)
        .await
}

/// `GET /api/v1/organizations/{organizationId}/config/weights`.
pub async fn organization_weights(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let organization = state.aaaf.organization(&caller, path.get("organizationId"));
    WEIGHTS.read(&organization.await?)
}

/// `PUT /api/v1/organizations/{organizationId}/config/weights`.
pub async fn set_organization_weights(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    JsonBody(body): JsonBody,
) -> Answer {
    let organization = state.aaaf.changeable(&caller, path.get("organizationId"));
    WEIGHTS
        .replace(&state, &caller, organization.await?, &body)
        .await
}

/// `GET /api/v1/config/taxonomy`.
pub async fn taxonomy(Extension(member): Extension<Member>) -> Answer {
    TAXONOMY.read(&member.organization)
}

/// `PUT /api/v1/config/taxonomy`.
pub async fn set_taxonomy(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    JsonBody(body): JsonBody,
) -> Answer {
    let organization = member.organization.as_ref().clone();
    TAXONOMY
        .replace(&state, &member.caller, organization, &body)
        .await
}

/// `GET /api/v1/organizations/{organizationId}/config/taxonomy`.
pub async fn organization_taxonomy(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let organization = state.aaaf.organization(&caller, path.get("organizationId"));
    TAXONOMY.read(&organization.await?)
}

/// `PUT /api/v1/organizations/{organizationId}/config/taxonomy`.
pub async fn set_organization_taxonomy(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    JsonBody(body): JsonBody,
) -> Answer {
    let organization = state.aaaf.changeable(&caller, path.get("organizationId"));
    TAXONOMY
        .replace(&state, &caller, organization.await?, &body)
        .await
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
