//! `/api/v1/dimensions`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::http::RatingsApi;
use crate::service::Member;
use touchstone_host::http::answer::{Answer, json};

/// `GET /api/v1/dimensions`.
pub async fn list(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
) -> Answer {
    let found = state.ratings.dimensions(&member).await?;
    let not_rated = found.not_rated.iter();
    let not_rated: Vec<Value> = not_rated
        .map(|agent| json!({"agent_id": agent.id, "name": agent.name}))
        .collect();
    let body = json!({
        "organization_id": member.organization.id,
        "agents": found.agents,
        "not_rated": not_rated,
        "more": found.more,
        "dimensions": found.dimensions,
    });
    json(StatusCode::OK, &body)
}
