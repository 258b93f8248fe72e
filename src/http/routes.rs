//! The only list of endpoints.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware;
use axum::routing::{MethodFilter, MethodRouter, on};

use super::HttpState;
use super::answer::{method_not_allowed, no_such_route};
use super::auth::{Door, guard, guard_token};
use super::{aaaf, discovery, ops, paths, v1};
use crate::service::access::Scope;

/// An operation as the API description names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub method: &'static str,
    /// The documented path.
    pub path: &'static str,
    /// Whether it needs an API key.
    pub keyed: bool,
    /// The required scope; `None` if no key is needed, or if the scope depends on the request.
    pub scope: Option<Scope>,
    /// `false` for routes that only answer that a capability is not offered, and for test seams;
    /// the API description leaves them out.
    pub described: bool,
}

/// Collects routes and their operations.
struct Table {
    state: Option<Arc<HttpState>>,
    router: Router<Arc<HttpState>>,
    operations: Vec<Operation>,
}

impl Table {
    fn add<H, T>(
        mut self,
        method: &Method,
        path: &'static str,
        (keyed, scope): (bool, Option<Scope>),
        described: bool,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Arc<HttpState>>,
        T: 'static,
    {
        let (filter, method) = match *method {
            Method::POST => (MethodFilter::POST, "POST"),
            Method::DELETE => (MethodFilter::DELETE, "DELETE"),
            _ => (MethodFilter::GET, "GET"),
        };
        self.operations.push(Operation {
            method,
            path,
            keyed,
            scope,
            described,
        });
        if let Some(state) = &self.state {
            let mut route: MethodRouter<Arc<HttpState>> = on(filter, handler);
            if keyed {
                let door = Door {
                    state: state.clone(),
                    scope,
                    waits: matches!(
                        path,
                        "/v1/runs/{runId}/events" | "/v1/runs/{runId}/events/poll"
                    ),
                };
                route = route.route_layer(middleware::from_fn_with_state(door, guard));
            }
            self.router = self.router.route(&paths::internal(path), route);
        }
        self
    }

    fn open<H, T>(self, method: &Method, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<HttpState>>,
        T: 'static,
    {
        self.add(method, path, (false, None), true, handler)
    }

    fn keyed<H, T>(self, method: &Method, path: &'static str, scope: Scope, handler: H) -> Self
    where
        H: Handler<T, Arc<HttpState>>,
        T: 'static,
    {
        self.add(method, path, (true, Some(scope)), true, handler)
    }

    /// A route authenticated by the token in its path.
    fn tokened<H, T>(mut self, method: &Method, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<HttpState>>,
        T: 'static,
    {
        let Some(state) = self.state.take() else {
            return self.open(method, path, handler);
        };
        let door = Door {
            state: state.clone(),
            scope: None,
            waits: false,
        };
        self.state = Some(state);
        self.open(
            method,
            path,
            handler.layer(middleware::from_fn_with_state(door, guard_token)),
        )
    }

    /// A route that needs a key; the use case checks the scope.
    fn authenticated<H, T>(self, method: &Method, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<HttpState>>,
        T: 'static,
    {
        self.add(method, path, (true, None), true, handler)
    }

    fn not_offered<H, T>(
        self,
        method: &Method,
        path: &'static str,
        scope: Scope,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Arc<HttpState>>,
        T: 'static,
    {
        self.add(method, path, (true, Some(scope)), false, handler)
    }

    /// A route for conformance suites; 404 unless the host is in conformance mode and the caller
    /// has a test key.
    fn seam<H, T>(self, method: &Method, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<HttpState>>,
        T: 'static,
    {
        self.add(method, path, (true, None), false, handler)
    }
}

fn fill(state: Option<Arc<HttpState>>) -> Table {
    let (get, post, delete) = (&Method::GET, &Method::POST, &Method::DELETE);
    let table = Table {
        state,
        router: Router::new(),
        operations: Vec::new(),
    };
    table
        .open(get, "/healthz", ops::healthz)
        .open(get, "/readyz", ops::readyz)
        .open(get, "/metrics", ops::metrics)
        .open(get, "/.well-known/openwop", discovery::get)
        .open(get, "/v1/openapi.json", v1::openapi::get)
        .open(get, "/.well-known/openwop-registry", v1::packs::discovery)
        .open(get, "/keys/{keyId}.pub", v1::packs::key)
        .open(get, "/v1/packs", v1::packs::list)
        .open(get, "/v1/packs/-/search", v1::packs::search)
        .open(get, "/v1/packs/{name}", v1::packs::catalogue)
        .open(get, "/v1/packs/{name}/index.json", v1::packs::catalogue)
        .open(get, "/v1/packs/{name}/-/keychain", v1::packs::keychain)
        .open(
            get,
            "/v1/packs/{name}/-/{version}.json",
            v1::packs::manifest,
        )
        .open(get, "/v1/packs/{name}/-/{version}.tgz", v1::packs::archive)
        .open(
            get,
            "/v1/packs/{name}/-/{version}.sig",
            v1::packs::signature,
        )
        .open(get, "/status/{statusListId}", aaaf::public::status_list)
        .open(
            get,
            "/orgs/{organizationId}/did.json",
            aaaf::public::did_document,
        )
        .keyed(
            get,
            "/v1/workflows/{workflowId}",
            Scope::ManifestRead,
            v1::workflows::get,
        )
        .keyed(
            post,
            "/v1/runs",
            Scope::RunsCreate,
            v1::runs::create::create,
        )
        .keyed(
            post,
            "/v1/runs:bulk-cancel",
            Scope::RunsCancel,
            v1::runs::bulk_cancel::bulk_cancel,
        )
        .keyed(
            get,
            "/v1/runs/{runId}",
            Scope::RunsRead,
            v1::runs::snapshot::get,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/events",
            Scope::RunsRead,
            v1::runs::events::stream,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/events/poll",
            Scope::RunsRead,
            v1::runs::poll::poll,
        )
        .keyed(
            post,
            "/v1/runs/{runId}/cancel",
            Scope::RunsCancel,
            v1::runs::cancel::cancel,
        )
        .keyed(
            post,
            "/v1/runs/{runId}:pause",
            Scope::RunsCancel,
            v1::runs::pause::pause,
        )
        .keyed(
            post,
            "/v1/runs/{runId}:resume",
            Scope::RunsCancel,
            v1::runs::pause::resume,
        )
        .keyed(
            post,
            "/v1/runs/{runId}/interrupts/{nodeId}",
            Scope::ApprovalsRespond,
            v1::interrupts::resolve,
        )
        .tokened(get, "/v1/interrupts/{token}", v1::interrupts::inspect)
        .tokened(
            post,
            "/v1/interrupts/{token}",
            v1::interrupts::resolve_by_token,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/interrupts",
            Scope::ApprovalsRespond,
            v1::interrupts::list,
        )
        .keyed(
            get,
            "/v1/runs/{runId}:diff",
            Scope::RunsRead,
            v1::runs::diff::get,
        )
        .keyed(
            post,
            "/v1/runs/{runId}:fork",
            Scope::RunsCreate,
            v1::runs::fork::fork,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/eval-summary",
            Scope::RunsRead,
            v1::runs::eval_summary::get,
        )
        .not_offered(
            get,
            "/v1/runs/{runId}/artifacts/{artifactId}",
            Scope::ArtifactsRead,
            v1::not_offered::artifact,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/annotations",
            Scope::RunsRead,
            v1::runs::annotations::list,
        )
        .keyed(
            post,
            "/v1/runs/{runId}/annotations",
            Scope::RunsCreate,
            v1::runs::annotations::create,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/debug-bundle",
            Scope::RunsRead,
            v1::runs::debug_bundle::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/attestation-key",
            Scope::RunsRead,
            v1::host::attestation::key,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/attestation",
            Scope::RunsRead,
            v1::host::attestation::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/comparison",
            Scope::RunsRead,
            v1::host::comparison::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/report",
            Scope::RunsRead,
            v1::host::report::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/statistics",
            Scope::RunsRead,
            v1::host::statistics::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/oasis-verdict",
            Scope::RunsRead,
            v1::host::oasis::verdict,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/oasis-report",
            Scope::RunsRead,
            v1::host::oasis::report,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/oasis-evidence/{scenarioId}",
            Scope::RunsRead,
            v1::host::oasis::evidence,
        )
        .keyed(
            get,
            "/v1/host/touchstone/oasis/profiles",
            Scope::ManifestRead,
            v1::host::oasis::profiles,
        )
        .keyed(
            post,
            "/v1/host/touchstone/oasis/preflight",
            Scope::RunsCreate,
            v1::host::oasis::preflight,
        )
        .keyed(
            post,
            "/v1/host/touchstone/oasis/compute",
            Scope::RunsRead,
            v1::host::oasis::compute,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:retry",
            Scope::RunsCreate,
            v1::host::retry::retry,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:void",
            Scope::RunsVoid,
            v1::host::void::void,
        )
        .keyed(
            post,
            "/v1/webhooks",
            Scope::WebhooksManage,
            v1::webhooks::register::register,
        )
        .keyed(
            delete,
            "/v1/webhooks/{webhookId}",
            Scope::WebhooksManage,
            v1::webhooks::unregister::unregister,
        )
        .keyed(
            post,
            "/v1/webhooks/{webhookId}/rotate-secret",
            Scope::WebhooksManage,
            v1::webhooks::rotate_secret::rotate_secret,
        )
        .keyed(
            get,
            "/v1/host/touchstone/webhooks",
            Scope::WebhooksManage,
            v1::host::webhooks::list,
        )
        .keyed(get, "/v1/agents", Scope::ManifestRead, v1::agents::list)
        .keyed(
            get,
            "/v1/agents/{agentId}",
            Scope::ManifestRead,
            v1::agents::get,
        )
        .keyed(
            get,
            "/v1/agents/{agentId}/deployments",
            Scope::ManifestRead,
            v1::deployments::list,
        )
        .authenticated(
            post,
            "/v1/agents/{agentId}/deployments",
            v1::deployments::transition,
        )
        .keyed(get, "/v1/audit/verify", Scope::AuditRead, v1::audit::verify)
        .keyed(
            get,
            "/v1/host/touchstone/audit",
            Scope::AuditRead,
            v1::host::audit::list,
        )
        .keyed(
            get,
            "/v1/host/touchstone/gates",
            Scope::ManifestRead,
            v1::host::gates::list,
        )
        .keyed(
            post,
            "/v1/host/touchstone/gates",
            Scope::GatesWrite,
            v1::host::gates::set,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/gates",
            Scope::GatesWrite,
            v1::host::gates::remove,
        )
        .keyed(
            post,
            "/v1/host/touchstone/gates/check",
            Scope::RunsRead,
            v1::host::gates::check,
        )
        .keyed(
            post,
            "/v1/host/touchstone/agent-cards/score",
            Scope::AssessmentsWrite,
            v1::host::agent_cards::score,
        )
        .keyed(
            post,
            "/v1/host/touchstone/agent-cards/rank",
            Scope::AssessmentsWrite,
            v1::host::agent_cards::rank,
        )
        .keyed(
            get,
            "/v1/host/touchstone/agent-cards/history",
            Scope::AssessmentsRead,
            v1::host::agent_cards::history,
        )
        .keyed(
            get,
            "/v1/host/touchstone/agent-cards/watches",
            Scope::AssessmentsRead,
            v1::host::agent_cards::watches,
        )
        .keyed(
            post,
            "/v1/host/touchstone/agent-cards/watches",
            Scope::AssessmentsWrite,
            v1::host::agent_cards::watch,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/agent-cards/watches",
            Scope::AssessmentsWrite,
            v1::host::agent_cards::unwatch,
        )
        .keyed(
            get,
            "/v1/host/touchstone/judge/calibrations",
            Scope::ManifestRead,
            v1::host::judge::list,
        )
        .keyed(
            post,
            "/v1/host/touchstone/judge/calibrations",
            Scope::GatesWrite,
            v1::host::judge::calibrate,
        )
        .keyed(
            get,
            "/v1/host/touchstone/judge/calibrations/{calibrationId}",
            Scope::ManifestRead,
            v1::host::judge::show,
        )
        .keyed(
            get,
            "/v1/host/touchstone/packs",
            Scope::ManifestRead,
            v1::host::packs::list,
        )
        .keyed(
            post,
            "/v1/host/touchstone/packs",
            Scope::PacksInstall,
            v1::host::packs::install,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/packs/{name}/{version}",
            Scope::PacksInstall,
            v1::host::packs::remove,
        )
        .keyed(
            get,
            "/v1/host/touchstone/suites",
            Scope::ManifestRead,
            v1::host::suites::list,
        )
        .keyed(
            post,
            "/v1/host/touchstone/suites",
            Scope::SuitesWrite,
            v1::host::suites::import,
        )
        .keyed(
            get,
            "/v1/host/touchstone/suites/{suiteId}/{version}",
            Scope::ManifestRead,
            v1::host::suites::get,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/suites/{suiteId}/{version}",
            Scope::SuitesWrite,
            v1::host::suites::remove,
        )
        .keyed(
            get,
            "/v1/host/touchstone/usage",
            Scope::RunsRead,
            v1::host::storage::usage,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/runs/{runId}",
            Scope::RunsDelete,
            v1::host::storage::delete_run,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:hold",
            Scope::RunsHold,
            v1::host::storage::hold,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:release",
            Scope::RunsHold,
            v1::host::storage::release,
        )
        .seam(
            get,
            "/v1/host/sample/test/runs/{runId}/events",
            v1::sample::log::get,
        )
        .seam(
            post,
            "/v1/host/sample/test/debug-bundle/export",
            v1::sample::bundle::export,
        )
        .seam(post, "/v1/host/sample/test/reset", v1::sample::reset::reset)
        .seam(
            post,
            "/v1/host/sample/agents/eval-run",
            v1::sample::agents::eval_run,
        )
        .seam(
            post,
            "/v1/host/sample/agents/live-invoke",
            v1::sample::agents::live_invoke,
        )
        .seam(
            post,
            "/v1/host/sample/agents/deployment-transition",
            v1::sample::agents::deployment_transition,
        )
        .seam(
            post,
            "/v1/host/sample/budget/run",
            v1::sample::agents::budget_run,
        )
        .seam(
            post,
            "/v1/host/sample/test/idempotency/concurrent-claim",
            v1::sample::agents::concurrent_claim,
        )
        .seam(
            post,
            "/v1/host/sample/agents/{agentId}/dispatch",
            v1::sample::agents::dispatch,
        )
        .seam(
            post,
            "/v1/host/sample/authorization/decide",
            v1::sample::people::decide,
        )
        .seam(
            post,
            "/v1/host/sample/governance/approval-gate",
            v1::sample::people::approval_gate,
        )
        .seam(
            get,
            "/v1/host/sample/identity/owned-run",
            v1::sample::people::owned_run,
        )
        .seam(
            post,
            "/v1/host/sample/identity/cross-workspace-read",
            v1::sample::people::cross_workspace_read,
        )
        .seam(
            post,
            "/v1/host/sample/test/surface",
            v1::sample::people::surface,
        )
}

pub fn table(state: &Arc<HttpState>) -> Router<Arc<HttpState>> {
    fill(Some(state.clone()))
        .router
        .merge(aaaf::routes::table(state))
        .fallback(no_such_route)
        .method_not_allowed_fallback(method_not_allowed)
}

pub fn operations() -> Vec<Operation> {
    fill(None).operations
}
