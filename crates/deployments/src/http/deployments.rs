//! Deployments of agents (OpenWOP agent-deployment, RFC 0082).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::http::DeploymentsApi;
use crate::service::deployments::may_ask;
use touchstone_host::http::answer::{Answer, Failure, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, PathParameters};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;
use touchstone_kit::ids::AgentId;

/// `GET /v1/agents/{agentId}/deployments`: a bare array.
pub async fn list(
    State(state): State<Arc<DeploymentsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let agent = AgentId::from(path.get("agentId"));
    let records = state.deployments.list(&caller.tenant, &agent).await?;
    json(StatusCode::OK, &records)
}

/// `POST /v1/agents/{agentId}/deployments`. The required scope depends on the transition, so the
/// use case checks it.
pub async fn transition(
    State(state): State<Arc<DeploymentsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    body: Result<JsonBody, Failure>,
) -> Answer {
    let JsonBody(body) = match body {
        Ok(body) => body,
        Err(unreadable) => {
            may_ask(&caller, &Value::Null)?;
            return Err(unreadable);
        }
    };
    let agent = AgentId::from(path.get("agentId"));
    let endpoint = format!("POST /v1/agents/{agent}/deployments");
    let (deployments, mover, asked) = (state.deployments.clone(), caller.clone(), body.clone());
    // The principal is part of the request: repeating the request must not show one principal the
    // response to another.
    let request = json!([caller.principal, body]);
    once(
        &state.host,
        &caller,
        endpoint,
        key,
        &request,
        |claim| async move {
            let moved = deployments
                .transition(&mover, &agent, &asked, claim.as_ref())
                .await?;
            let done = Done::new(StatusCode::OK, json!(moved.record));
            Ok(done.recorded(claim.is_some()))
        },
    )
    .await
}
