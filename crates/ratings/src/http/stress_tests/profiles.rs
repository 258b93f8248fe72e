//! `/api/v1/profiles`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde_json::{Value, json};

use crate::http::RatingsApi;
use crate::http::page::Page;
use crate::ports::Position;
use crate::ports::profiles::ProfileRecord;
use crate::service::Member;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{JsonBody, PathParameters, Query};

/// `GET /api/v1/profiles`.
pub async fn list(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    query: Query,
) -> Answer {
    let page = Page::<Position>::of(&query)?;
    let profiles = state
        .ratings
        .profiles(&member, page.after.as_ref(), page.fetch_limit());
    page.answer(profiles.await?, ProfileRecord::position, |record| {
        facts(record, "tasks_described", json!(record.profile.tasks.len()))
    })
}

/// `GET /api/v1/profiles/{suiteId}/{suiteVersion}`.
pub async fn get(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
) -> Answer {
    let record = state.ratings.profile(&member, &suite(&path)).await?;
    json(StatusCode::OK, &to_json(&record))
}

/// `PUT /api/v1/profiles/{suiteId}/{suiteVersion}`.
pub async fn set(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    JsonBody(body): JsonBody,
) -> Answer {
    let (record, new) = state
        .ratings
        .set_profile(&member, &suite(&path), &body)
        .await?;
    let status = match new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    json(status, &to_json(&record))
}

/// `DELETE /api/v1/profiles/{suiteId}/{suiteVersion}`.
pub async fn remove(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
) -> Answer {
    state.ratings.remove_profile(&member, &suite(&path)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn suite(path: &PathParameters) -> String {
    format!("{}@{}", path.get("suiteId"), path.get("suiteVersion"))
}

/// The common members of a profile, plus one more.
fn facts(record: &ProfileRecord, name: &str, value: Value) -> Value {
    json!({
        "suite_id": record.profile.suite_id,
        "suite_version": record.profile.suite_version,
        name: value,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    })
}

fn to_json(record: &ProfileRecord) -> Value {
    facts(record, "profile", json!(record.profile))
}
