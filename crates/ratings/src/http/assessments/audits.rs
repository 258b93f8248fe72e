//! `/api/v1/audits/{organizationId}`: assessments for the third-party auditors that an organization
//! names.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;

use crate::http::RatingsApi;
use crate::http::assessments;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, PathParameters, Query};
use touchstone_host::service::access::Caller;

/// `GET /api/v1/audits/{organizationId}/assessments`.
pub async fn list(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    query: Query,
) -> Answer {
    let organization = path.get("organizationId");
    let member = state.ratings.audited(&caller, organization, false).await?;
    assessments::list(State(state), Extension(member), query).await
}

/// `GET /api/v1/audits/{organizationId}/assessments/{assessmentId}`.
pub async fn get(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let organization = path.get("organizationId");
    let member = state.ratings.audited(&caller, organization, false).await?;
    assessments::get(State(state), Extension(member), path).await
}

/// `POST /api/v1/audits/{organizationId}/assessments/{assessmentId}/review`.
pub async fn review(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    key: IdempotencyKey,
    body: JsonBody,
) -> Answer {
    let organization = path.get("organizationId");
    let member = state.ratings.audited(&caller, organization, true).await?;
    assessments::review(State(state), Extension(member), path, key, body).await
}
