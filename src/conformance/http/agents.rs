//! Test seams for agents and their runs: an eval run, one invocation, a deployment transition, a
//! budget, a race for an effect.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::conformance::http::{ConformanceApi, seam};
use crate::conformance::http::{open_to, open_to_those_with};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{OptionalJsonBody, PathParameters};
use touchstone_host::service::access::Caller;

seam! {
    /// `POST /v1/host/sample/agents/eval-run`; responds once the run has ended.
    eval_run(Scope::RunsCreate) => eval
}

seam! {
    /// `POST /v1/host/sample/agents/live-invoke`; responds once the invocation has ended.
    live_invoke(Scope::RunsCreate) => invoke
}

/// `POST /v1/host/sample/agents/{agentId}/dispatch`; responds once the agent has decided.
pub async fn dispatch(
    State(state): State<Arc<ConformanceApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    open_to_those_with(&state, &caller, Scope::RunsCreate)?;
    let agent = path.get("agentId");
    json(
        StatusCode::OK,
        &state.seams.dispatch(&caller, agent, &body).await?,
    )
}

/// `POST /v1/host/sample/agents/deployment-transition`. The use case checks the scope.
pub async fn deployment_transition(
    State(state): State<Arc<ConformanceApi>>,
    Extension(caller): Extension<Caller>,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    open_to(&state, &caller)?;
    json(
        StatusCode::OK,
        &state.seams.transition(&caller, &body).await?,
    )
}

seam! {
    /// `POST /v1/host/sample/budget/run`; responds once the run has ended.
    budget_run(Scope::RunsCreate) => budget
}

seam! {
    /// `POST /v1/host/sample/test/idempotency/concurrent-claim`.
    concurrent_claim(Scope::RunsCreate) => claim_concurrently
}
