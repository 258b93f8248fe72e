//! `/api/v1/agents`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde_json::{Value, json};

use super::page::Page;
use crate::domain::aaaf::agent::{Change, Enrolment};
use crate::http::HttpState;
use crate::http::answer::{Answer, json};
use crate::http::extract::{IdempotencyKey, JsonBody, PathParameters, Query};
use crate::http::idempotency::{Done, once};
use crate::ports::aaaf::{AgentRecord, Position};
use crate::protocol::error::Problem;
use crate::service::aaaf::Member;

/// `POST /api/v1/agents`.
pub async fn enrol(
    State(state): State<Arc<HttpState>>,
    Extension(member): Extension<Member>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let asked = Enrolment::parse(&body)?;
    let (aaaf, caller) = (state.aaaf.clone(), member.caller.clone());
    let endpoint = "POST /api/v1/agents".to_owned();
    once(&state, &caller, endpoint, key, &body, |_| async move {
        let agent = aaaf.enrol(&member, asked).await?;
        Ok(Done::new(StatusCode::CREATED, shown(&agent, &member)))
    })
    .await
}

/// `GET /api/v1/agents`.
pub async fn list(
    State(state): State<Arc<HttpState>>,
    Extension(member): Extension<Member>,
    query: Query,
) -> Answer {
    let page = Page::<Position>::of(&query)?;
    let archived = match query.get("status") {
        None => None,
        Some("active") => Some(false),
        Some("archived") => Some(true),
        Some(_) => {
            return Err(
                Problem::validation("status", "`status` must be active or archived").into(),
            );
        }
    };
    // Of another organization there is nothing to be seen.
    let own = query
        .get("org_id")
        .is_none_or(|id| id == member.organization.id);
    let agents = if own {
        let agents = state
            .aaaf
            .agents(&member, archived, page.after.as_ref(), page.reach());
        agents.await?
    } else {
        Vec::new()
    };
    let answer = page.answer(agents, AgentRecord::position, |agent| shown(agent, &member));
    json(StatusCode::OK, &answer)
}

/// `GET /api/v1/agents/{agentId}`.
pub async fn get(
    State(state): State<Arc<HttpState>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
) -> Answer {
    let agent = state.aaaf.agent(&member, path.get("agentId")).await?;
    json(StatusCode::OK, &shown(&agent, &member))
}

/// `PATCH /api/v1/agents/{agentId}`.
pub async fn change(
    State(state): State<Arc<HttpState>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    JsonBody(body): JsonBody,
) -> Answer {
    let id = path.get("agentId");
    // Whether it is there, and theirs, is settled before anything is said of the body.
    state.aaaf.agent(&member, id).await?;
    let change = Change::parse(&body)?;
    let agent = state.aaaf.change_agent(&member, id, change).await?;
    json(StatusCode::OK, &shown(&agent, &member))
}

/// `DELETE /api/v1/agents/{agentId}`.
pub async fn archive(
    State(state): State<Arc<HttpState>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
) -> Answer {
    let id = path.get("agentId");
    state.aaaf.archive_agent(&member, id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn shown(agent: &AgentRecord, member: &Member) -> Value {
    let profile = &agent.profile;
    json!({
        "id": agent.id,
        "organization_id": member.organization.id,
        "name": agent.name,
        "description": profile.description,
        "version": profile.version,
        "domains": profile.domains,
        "tools": profile.tools,
        "openwop_agent": profile.openwop_agent,
        "keys": profile.keys,
        "status": if agent.archived { "archived" } else { "active" },
        "created_at": agent.created_at,
        "updated_at": agent.updated_at,
    })
}
