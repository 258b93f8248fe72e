//! Test seams for conformance suites, under `/v1/host/sample` (OpenWOP host-sample test seams).
//! They exist only on a host in conformance mode, and only for test keys.

pub mod agents;
pub mod bundle;
pub mod log;
pub mod people;
pub mod reset;

use std::sync::Arc;

use axum::http::Method;

use crate::conformance::Seams;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpHost;
use touchstone_host::http::answer::no_such_route_problem;
use touchstone_host::http::routes::Table;
use touchstone_host::service::access::{Caller, authorise};
use touchstone_kit::error::Problem;
use touchstone_runs::service::bundles::Bundles;

/// The state that the routes of test seams share.
pub struct ConformanceApi {
    pub host: Arc<HttpHost>,
    pub bundles: Arc<Bundles>,
    pub seams: Seams,
}

impl AsRef<Arc<HttpHost>> for ConformanceApi {
    fn as_ref(&self) -> &Arc<HttpHost> {
        &self.host
    }
}

pub fn routes(table: Table<ConformanceApi>) -> Table<ConformanceApi> {
    let (get, post) = (&Method::GET, &Method::POST);
    table
        .seam(get, "/v1/host/sample/test/runs/{runId}/events", log::get)
        .seam(
            post,
            "/v1/host/sample/test/debug-bundle/export",
            bundle::export,
        )
        .seam(post, "/v1/host/sample/test/reset", reset::reset)
        .seam(post, "/v1/host/sample/agents/eval-run", agents::eval_run)
        .seam(
            post,
            "/v1/host/sample/agents/live-invoke",
            agents::live_invoke,
        )
        .seam(
            post,
            "/v1/host/sample/agents/deployment-transition",
            agents::deployment_transition,
        )
        .seam(post, "/v1/host/sample/budget/run", agents::budget_run)
        .seam(
            post,
            "/v1/host/sample/test/idempotency/concurrent-claim",
            agents::concurrent_claim,
        )
        .seam(
            post,
            "/v1/host/sample/agents/{agentId}/dispatch",
            agents::dispatch,
        )
        .seam(post, "/v1/host/sample/authorization/decide", people::decide)
        .seam(
            post,
            "/v1/host/sample/governance/approval-gate",
            people::approval_gate,
        )
        .seam(get, "/v1/host/sample/identity/owned-run", people::owned_run)
        .seam(
            post,
            "/v1/host/sample/identity/cross-workspace-read",
            people::cross_workspace_read,
        )
        .seam(post, "/v1/host/sample/test/surface", people::surface)
}

/// Admits a caller to the test seams.
///
/// # Errors
/// `not_found`, as for a route that does not exist.
fn open_to(state: &ConformanceApi, caller: &Caller) -> Result<(), Problem> {
    if state.host.settings.conformance && caller.test {
        Ok(())
    } else {
        Err(no_such_route_problem())
    }
}

/// As [`open_to`], for a seam whose action needs a scope on the regular API.
///
/// # Errors
/// `not_found`, `forbidden`.
fn open_to_those_with(
    state: &ConformanceApi,
    caller: &Caller,
    scope: Scope,
) -> Result<(), Problem> {
    open_to(state, caller)?;
    authorise(caller, scope)
}

/// A handler that passes the body of a caller with a scope to the seam of the use cases.
macro_rules! seam {
    ($(#[$docs:meta])* $handler:ident($scope:expr) => $seam:ident) => {
        $(#[$docs])*
        pub async fn $handler(
            State(state): State<Arc<ConformanceApi>>,
            Extension(caller): Extension<Caller>,
            OptionalJsonBody(body): OptionalJsonBody,
        ) -> Answer {
            open_to_those_with(&state, &caller, $scope)?;
            json(StatusCode::OK, &state.seams.$seam(&caller, &body).await?)
        }
    };
}
use seam;
