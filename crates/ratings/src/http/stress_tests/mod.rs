//! `/api/v1/stress-tests`.

pub mod profiles;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde_json::{Value, json};

use crate::http::RatingsApi;
use crate::http::page::Page;
use crate::ports::Position;
use crate::ports::own_tasks::OwnTaskRecord;
use crate::service::Member;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, PathParameters, Query};
use touchstone_host::http::idempotency::{Done, once};

/// `POST /api/v1/stress-tests`.
pub async fn add(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let (ratings, caller, document) = (state.ratings.clone(), member.caller.clone(), body.clone());
    let endpoint = "POST /api/v1/stress-tests".to_owned();
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let record = ratings.add_own_task(&member, &document).await?;
        Ok(Done::new(StatusCode::CREATED, to_json(&record, &member)))
    })
    .await
}

/// `GET /api/v1/stress-tests`.
pub async fn list(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    query: Query,
) -> Answer {
    let page = Page::<Position>::of(&query)?;
    let tasks = state
        .ratings
        .own_tasks(&member, page.after.as_ref(), page.fetch_limit());
    page.answer(tasks.await?, OwnTaskRecord::position, |record| {
        to_json(record, &member)
    })
}

/// `DELETE /api/v1/stress-tests/{stressTestId}`.
pub async fn remove(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
) -> Answer {
    state
        .ratings
        .remove_own_task(&member, path.get("stressTestId"))
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn to_json(record: &OwnTaskRecord, member: &Member) -> Value {
    let task = &record.task;
    json!({
        "id": task.id,
        "organization_id": member.organization.id,
        "dimension": task.dimension,
        "complexity_level": task.complexity_level,
        "domain": task.domain,
        "task_definition": task.task_definition,
        "expected_outcome": task.expected_outcome,
        "created_at": record.created_at,
    })
}
