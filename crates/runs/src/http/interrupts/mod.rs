//! Resolving interrupts: by node with an API key, by token without one (OpenWOP interrupt).

pub mod token;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, on};
use serde_json::{Value, json};

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use crate::http::interrupts::token::guard_token;
use crate::rules::workflow::token::InterruptToken;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, PathParameters, members};
use touchstone_host::http::idempotency::{Done, once, once_for};
use touchstone_host::http::routes::{Operation, Table};
use touchstone_host::http::translation;
use touchstone_host::service::access::Caller;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::NodeId;

pub fn routes(table: Table<RunsApi>) -> Table<RunsApi> {
    let (get, post) = (&Method::GET, &Method::POST);
    let inspection = by_token("GET", "/v1/interrupts/{token}");
    let answer = by_token("POST", "/v1/interrupts/{token}");
    table
        .keyed(
            post,
            "/v1/runs/{runId}/interrupts/{nodeId}",
            Scope::ApprovalsRespond,
            resolve,
        )
        .guarded(inspection, |api| {
            let route = on(MethodFilter::GET, inspect);
            translation::around(route, &api.host, inspection)
                .route_layer(from_fn_with_state(api.clone(), guard_token))
        })
        .guarded(answer, |api| {
            let route = on(MethodFilter::POST, resolve_by_token);
            translation::around(route, &api.host, answer)
                .route_layer(from_fn_with_state(api.clone(), guard_token))
        })
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/interrupts",
            Scope::ApprovalsRespond,
            list,
        )
}

/// An operation whose path holds an interrupt token instead of a key.
fn by_token(method: &'static str, path: &'static str) -> Operation {
    Operation {
        method,
        path,
        keyed: false,
        scope: None,
        described: true,
    }
}

/// `GET /v1/host/touchstone/runs/{runId}/interrupts`.
pub async fn list(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
) -> Answer {
    let pending = state.runs.interrupts(&caller.tenant, &run).await?;
    json(StatusCode::OK, &pending)
}

/// `POST /v1/runs/{runId}/interrupts/{nodeId}`.
pub async fn resolve(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    let node = NodeId::from(path.get("nodeId"));
    let value = resume_value(&body)?;
    let endpoint = format!("POST /v1/runs/{run}/interrupts/{node}");
    let (runs, who) = (state.runs.clone(), caller.clone());
    // The principal is part of the request: the response to one principal is not replayed to
    // another with the same key.
    let asked = json!([caller.principal, body]);
    let operation = |_| async move {
        let answered = runs.resolve(&who, &run, &node, &value).await?;
        Ok(Done::new(StatusCode::OK, answered))
    };
    once(&state.host, &caller, endpoint, key, &asked, operation).await
}

/// `GET /v1/interrupts/{token}`.
pub async fn inspect(
    State(state): State<Arc<RunsApi>>,
    Extension(token): Extension<InterruptToken>,
) -> Answer {
    let asked = state.runs.inspect_interrupt(&token).await?;
    json(StatusCode::OK, &asked)
}

/// `POST /v1/interrupts/{token}`.
pub async fn resolve_by_token(
    State(state): State<Arc<RunsApi>>,
    Extension(token): Extension<InterruptToken>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let value = resume_value(&body)?;
    // The token is a credential and is not stored; the endpoint names the token's run and node
    // instead.
    let endpoint = format!(
        "POST /v1/interrupts/{}/{}",
        token.run_id, token.interrupt_id
    );
    let (runs, tenant) = (state.runs.clone(), token.tenant.clone());
    once_for(&state.host, &tenant, endpoint, key, &body, |_| async move {
        let answered = runs.resolve_by_token(&token, &value).await?;
        Ok(Done::new(StatusCode::OK, answered))
    })
    .await
}

/// `resumeValue` of a body. Any JSON value passes here; the interrupt knows its schema.
fn resume_value(body: &Value) -> Result<Value, Problem> {
    let members = members(body)?;
    if let Some(unknown) = members.keys().find(|key| *key != "resumeValue") {
        return Err(Problem::validation(
            unknown,
            "unknown field; the only field is `resumeValue`",
        ));
    }
    members
        .get("resumeValue")
        .cloned()
        .ok_or_else(|| Problem::validation("resumeValue", "`resumeValue` is required"))
}
