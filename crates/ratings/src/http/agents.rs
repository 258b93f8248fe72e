//! `/api/v1/agents`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde_json::{Value, json};

use crate::http::RatingsApi;
use crate::http::assessments::badge_urls;
use crate::http::page::Page;
use crate::ports::Position;
use crate::ports::agents::AgentRecord;
use crate::ports::assessments::{AssessmentOutcome, AssessmentRecord};
use crate::rules::Axis;
use crate::rules::agent::{Change, Enrollment, Status};
use crate::service::assessments::{needs_review, valid_until};
use crate::service::{Member, Ratings};
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, PathParameters, Query};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_kit::error::Problem;

/// `POST /api/v1/agents`.
pub async fn enroll(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let enrollment = Enrollment::parse(&body)?;
    let (ratings, caller) = (state.ratings.clone(), member.caller.clone());
    let endpoint = "POST /api/v1/agents".to_owned();
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let agent = ratings.enroll(&member, enrollment).await?;
        let profile = profile(&ratings, &member, &agent).await?;
        Ok(Done::new(StatusCode::CREATED, profile))
    })
    .await
}

/// `GET /api/v1/agents`.
pub async fn list(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    query: Query,
) -> Answer {
    let page = Page::<Position>::of(&query)?;
    let status = query.get("status").map(|name| {
        Status::parse(name).ok_or_else(|| {
            let message = "`status` must be enrolled, active, suspended or archived";
            Problem::validation("status", message)
        })
    });
    let status = status.transpose()?;
    // An agent of another organization has nothing to list.
    let own = query
        .get("org_id")
        .is_none_or(|id| id == member.organization.id);
    let agents = if own {
        let agents = state
            .ratings
            .agents(&member, status, page.after.as_ref(), page.fetch_limit());
        agents.await?
    } else {
        Vec::new()
    };
    page.answer(agents, AgentRecord::position, |agent| {
        to_json(agent, &member)
    })
}

/// `GET /api/v1/agents/{agentId}`.
pub async fn get(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
) -> Answer {
    let agent = state.ratings.agent(&member, path.get("agentId")).await?;
    json(
        StatusCode::OK,
        &profile(&state.ratings, &member, &agent).await?,
    )
}

/// `GET /api/v1/agents/{agentId}/progress`.
pub async fn progress(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
) -> Answer {
    let id = path.get("agentId");
    let progress = state.ratings.progress(&member, id).await?;
    let axis = |(tasks, required): (usize, usize)| json!({"tasks": tasks, "required": required, "enough": tasks >= required});
    let body = json!({
        "agent_id": id,
        "window_start": progress.window.window_start,
        "window_end": progress.window.window_end,
        "performance": axis(progress.performance),
        "capability": axis(progress.capability),
    });
    json(StatusCode::OK, &body)
}

/// `PATCH /api/v1/agents/{agentId}`.
pub async fn change(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    JsonBody(body): JsonBody,
) -> Answer {
    let id = path.get("agentId");
    // Check that the agent exists and belongs to the caller before validating the body.
    state.ratings.agent(&member, id).await?;
    let change = Change::parse(&body)?;
    let agent = state.ratings.change_agent(&member, id, change).await?;
    json(
        StatusCode::OK,
        &profile(&state.ratings, &member, &agent).await?,
    )
}

/// `DELETE /api/v1/agents/{agentId}`.
pub async fn archive(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
) -> Answer {
    let id = path.get("agentId");
    state.ratings.archive_agent(&member, id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// An agent with its published rating and badge.
async fn profile(
    ratings: &Ratings,
    member: &Member,
    agent: &AgentRecord,
) -> Result<Value, Problem> {
    let rating = ratings.published_rating(member, agent).await?;
    let rating = rating.as_ref();
    let mut profile = to_json(agent, member);
    if let Value::Object(members) = &mut profile {
        members.insert("rating".to_owned(), json!(rating.map(rated)));
        let badge = rating.and_then(|it| badge(it, ratings));
        members.insert("badge".to_owned(), json!(badge));
    }
    Ok(profile)
}

fn rated(rating: &AssessmentRecord) -> Value {
    let result = match &rating.outcome {
        Some(AssessmentOutcome::Scored { result, .. }) => Some(result),
        _ => None,
    };
    let axis = |axis: Axis| {
        let axis = result.and_then(|it| it.get(axis.as_str()));
        let member = |name: &str| axis.and_then(|it| it.get(name));
        json!({"composite_score": member("composite_score"), "tier": member("tier")})
    };
    json!({
        "assessment_id": rating.id,
        "performance": axis(Axis::Performance),
        "capability": axis(Axis::Capability),
        "review_required": needs_review(rating),
        "completed_at": rating.ended_at,
    })
}

fn badge(rating: &AssessmentRecord, ratings: &Ratings) -> Option<Value> {
    let badge = rating.badge.as_ref()?;
    let urls = badge_urls(&ratings.badge_address(&rating.id));
    Some(json!({
        "id": badge.id,
        "state": badge.state,
        "urls": badge.state.is_public().then_some(urls),
        "valid_until": valid_until(rating),
    }))
}

fn to_json(agent: &AgentRecord, member: &Member) -> Value {
    let profile = &agent.profile;
    json!({
        "id": agent.id,
        "organization_id": member.organization.id,
        "name": agent.name,
        "description": profile.description,
        "version": profile.version,
        "domains": profile.domains,
        "claimed_domains": profile.domains,
        "tools": profile.tools,
        "metadata": profile.metadata,
        "openwop_agent": profile.openwop_agent,
        "reached_by": profile.reached_by,
        "keys": profile.keys,
        "status": agent.status(),
        "created_at": agent.created_at,
        "updated_at": agent.updated_at,
    })
}
