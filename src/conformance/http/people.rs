//! Test seams for authorization decisions, approval gates, and the isolation of tenants.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::conformance::http::open_to_those_with;
use crate::conformance::http::{ConformanceApi, seam};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::OptionalJsonBody;
use touchstone_host::service::access::Caller;
use touchstone_kit::error::{ErrorCode, Problem};

seam! {
    /// `POST /v1/host/sample/authorization/decide`.
    decide(Scope::AuditRead) => decide
}

seam! {
    /// `POST /v1/host/sample/governance/approval-gate`; responds once the gate has been resolved.
    approval_gate(Scope::RunsCreate) => approval_gate
}

/// `GET /v1/host/sample/identity/owned-run`.
pub async fn owned_run(
    State(state): State<Arc<ConformanceApi>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    open_to_those_with(&state, &caller, Scope::RunsCreate)?;
    json(StatusCode::OK, &state.seams.owned_run(&caller).await?)
}

/// `POST /v1/host/sample/identity/cross-workspace-read`. On the regular API the refusal is a 404;
/// here a 404 would mean that this seam does not exist.
pub async fn cross_workspace_read(
    State(state): State<Arc<ConformanceApi>>,
    Extension(caller): Extension<Caller>,
    // Suites send a body that says nothing.
    OptionalJsonBody(_): OptionalJsonBody,
) -> Answer {
    open_to_those_with(&state, &caller, Scope::RunsCreate)?;
    match state.seams.read_from_elsewhere(&caller).await? {
        Ok(snapshot) => json(StatusCode::OK, &snapshot),
        Err(refusal) => Err(Problem::new(ErrorCode::RunForbidden, refusal.message).into()),
    }
}

seam! {
    /// `POST /v1/host/sample/test/surface`.
    surface(Scope::WebhooksManage) => surface
}
