//! `/api/v1/assessments/{assessmentId}/appeals`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::http::RatingsApi;
use crate::http::page::Page;
use crate::ports::Position;
use crate::ports::appeals::AppealRecord;
use crate::rules::appeal::filing::{Filing, Ruling};
use crate::service::Member;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, PathParameters, Query};
use touchstone_host::http::idempotency::{Done, once_per_principal};

/// `POST /api/v1/assessments/{assessmentId}/appeals`.
pub async fn file(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let id = path.get("assessmentId").to_owned();
    // Check that the assessment exists and belongs to the caller before validating the body.
    state.ratings.assessment(&member, &id).await?;
    let filing = Filing::parse(&body)?;
    let (ratings, caller) = (state.ratings.clone(), member.caller.clone());
    let endpoint = format!("POST /api/v1/assessments/{id}/appeals");
    once_per_principal(&state.host, &caller, endpoint, key, &body, |_| async move {
        let filed = ratings.file_appeal(&member, &id, filing).await?;
        Ok(Done::new(StatusCode::CREATED, to_json(&filed)))
    })
    .await
}

/// `GET /api/v1/assessments/{assessmentId}/appeals`.
pub async fn list(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    query: Query,
) -> Answer {
    let id = path.get("assessmentId");
    state.ratings.assessment(&member, id).await?;
    let page = Page::<Position>::of(&query)?;
    let (after, fetch_limit) = (page.after.as_ref(), page.fetch_limit());
    let appeals = state
        .ratings
        .appeals(&member, id, after, fetch_limit)
        .await?;
    page.answer(appeals, AppealRecord::position, to_json)
}

/// `GET /api/v1/assessments/{assessmentId}/appeals/{appealId}`.
pub async fn get(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
) -> Answer {
    let (assessment, id) = (path.get("assessmentId"), path.get("appealId"));
    let appeal = state.ratings.appeal(&member, assessment, id).await?;
    json(StatusCode::OK, &to_json(&appeal))
}

/// `POST /api/v1/assessments/{assessmentId}/appeals/{appealId}/resolve`.
pub async fn resolve(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let assessment = path.get("assessmentId").to_owned();
    let id = path.get("appealId").to_owned();
    state.ratings.appeal(&member, &assessment, &id).await?;
    let ruling = Ruling::parse(&body)?;
    let (ratings, caller) = (state.ratings.clone(), member.caller.clone());
    let endpoint = format!("POST /api/v1/assessments/{assessment}/appeals/{id}/resolve");
    once_per_principal(&state.host, &caller, endpoint, key, &body, |_| async move {
        let resolved = ratings
            .resolve_appeal(&member, &assessment, &id, ruling)
            .await?;
        Ok(Done::new(StatusCode::OK, to_json(&resolved)))
    })
    .await
}

fn to_json(it: &AppealRecord) -> Value {
    let handling = it.handling.as_ref();
    let amendment = handling.and_then(|it| it.amendment.as_ref());
    json!({
        "id": it.id,
        "assessment_id": it.assessment,
        "status": it.state,
        "dimensions": it.filing.dimensions,
        "dimensions_challenged": it.filing.dimensions,
        "justification": it.filing.justification,
        "counter_evidence": it.filing.counter_evidence,
        "filed_by": it.filed_by,
        "created_at": it.created_at,
        "reviewed_by": handling.map(|it| &it.by),
        "reason": handling.and_then(|it| it.reason.as_ref()),
        "resolved_at": it.resolved_at,
        "overrides": amendment.map(|it| &it.overrides),
        "changed_dimensions": amendment.map(|it| &it.changed),
        "evidence_differs": amendment.map(|it| it.evidence_differs),
        "badge_id": amendment.and_then(|it| it.badge_id.as_ref()),
    })
}
