//! Installed agents (RFC 0072). Another tenant's agent gets the same answer as one that does not
//! exist.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::PacksApi;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::PathParameters;
use touchstone_host::service::access::Caller;
use touchstone_kit::error::{ErrorCode, Problem};

/// `GET /v1/agents`.
pub async fn list(
    State(state): State<Arc<PacksApi>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    json(StatusCode::OK, &state.packs.agents(&caller.tenant).await?)
}

/// `GET /v1/agents/{agentId}`.
pub async fn get(
    State(state): State<Arc<PacksApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let wanted = path.get("agentId");
    let inventory = state.packs.agents(&caller.tenant).await?;
    match inventory
        .agents
        .iter()
        .find(|agent| agent.agent_id == wanted)
    {
        Some(agent) => json(StatusCode::OK, agent),
        None => Err(Problem::new(ErrorCode::NotFound, "no such agent").into()),
    }
}
