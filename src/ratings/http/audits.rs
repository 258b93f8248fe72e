//! `/api/v1/audits/{organizationId}`: assessments for the third-party auditors that an organization
//! names.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;

use crate::host::http::answer::Answer;
use crate::host::http::extract::{IdempotencyKey, JsonBody, PathParameters, Query};
use crate::host::service::access::Caller;
use crate::ratings::http::RatingsApi;
use crate::ratings::http::assessments;

/// `GET /api/v1/audits/{organizationId}/assessments`.
pub async fn list(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    query: Query,
) -> Answer {
    let organization = path.get("organizationId");
    let member = state.aaaf.audited(&caller, organization, false).await?;
    assessments::list(State(state), Extension(member), query).await
}

/// `GET /api/v1/audits/{organizationId}/assessments/{assessmentId}`.
pub async fn get(
    State(state): State<Arc<RatingsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let organization = path.get("organizationId");
    let member = state.aaaf.audited(&caller, organization, false).await?;
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
    let member = state.aaaf.audited(&caller, organization, true).await?;
    assessments::review(State(state), Extension(member), path, key, body).await
}
