//! The only list of endpoints.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::discovery;
use crate::host::access::Scope;
use crate::host::http::HttpState;
use crate::host::http::answer::{method_not_allowed, no_such_route};
use crate::host::http::auth::{Door, guard, guard_token};
use crate::host::http::{ops, paths};
use crate::ratings::http as aaaf;

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
        .open(get, "/v1/openapi.json", crate::openapi::get)
        .open(
            get,
            "/.well-known/openwop-registry",
            crate::packs::http::registry::discovery,
        )
        .open(get, "/keys/{keyId}.pub", crate::packs::http::registry::key)
        .open(get, "/v1/packs", crate::packs::http::registry::list)
        .open(
            get,
            "/v1/packs/-/search",
            crate::packs::http::registry::search,
        )
        .open(
            get,
            "/v1/packs/{name}",
            crate::packs::http::registry::catalogue,
        )
        .open(
            get,
            "/v1/packs/{name}/index.json",
            crate::packs::http::registry::catalogue,
        )
        .open(
            get,
            "/v1/packs/{name}/-/keychain",
            crate::packs::http::registry::keychain,
        )
        .open(
            get,
            "/v1/packs/{name}/-/{version}.json",
            crate::packs::http::registry::manifest,
        )
        .open(
            get,
            "/v1/packs/{name}/-/{version}.tgz",
            crate::packs::http::registry::archive,
        )
        .open(
            get,
            "/v1/packs/{name}/-/{version}.sig",
            crate::packs::http::registry::signature,
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
            crate::runs::http::workflows::get,
        )
        .keyed(
            post,
            "/v1/runs",
            Scope::RunsCreate,
            crate::runs::http::create::create,
        )
        .keyed(
            post,
            "/v1/runs:bulk-cancel",
            Scope::RunsCancel,
            crate::runs::http::bulk_cancel::bulk_cancel,
        )
        .keyed(
            get,
            "/v1/runs/{runId}",
            Scope::RunsRead,
            crate::runs::http::snapshot::get,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/events",
            Scope::RunsRead,
            crate::runs::http::events::stream,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/events/poll",
            Scope::RunsRead,
            crate::runs::http::poll::poll,
        )
        .keyed(
            post,
            "/v1/runs/{runId}/cancel",
            Scope::RunsCancel,
            crate::runs::http::cancel::cancel,
        )
        .keyed(
            post,
            "/v1/runs/{runId}:pause",
            Scope::RunsCancel,
            crate::runs::http::pause::pause,
        )
        .keyed(
            post,
            "/v1/runs/{runId}:resume",
            Scope::RunsCancel,
            crate::runs::http::pause::resume,
        )
        .keyed(
            post,
            "/v1/runs/{runId}/interrupts/{nodeId}",
            Scope::ApprovalsRespond,
            crate::runs::http::interrupts::resolve,
        )
        .tokened(
            get,
            "/v1/interrupts/{token}",
            crate::runs::http::interrupts::inspect,
        )
        .tokened(
            post,
            "/v1/interrupts/{token}",
            crate::runs::http::interrupts::resolve_by_token,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/interrupts",
            Scope::ApprovalsRespond,
            crate::runs::http::interrupts::list,
        )
        .keyed(
            get,
            "/v1/runs/{runId}:diff",
            Scope::RunsRead,
            crate::runs::http::diff::get,
        )
        .keyed(
            post,
            "/v1/runs/{runId}:fork",
            Scope::RunsCreate,
            crate::runs::http::fork::fork,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/eval-summary",
            Scope::RunsRead,
            crate::runs::http::eval_summary::get,
        )
        .not_offered(
            get,
            "/v1/runs/{runId}/artifacts/{artifactId}",
            Scope::ArtifactsRead,
            crate::runs::http::not_offered::artifact,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/annotations",
            Scope::RunsRead,
            crate::runs::http::annotations::list,
        )
        .keyed(
            post,
            "/v1/runs/{runId}/annotations",
            Scope::RunsCreate,
            crate::runs::http::annotations::create,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/debug-bundle",
            Scope::RunsRead,
            crate::runs::http::debug_bundle::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/attestation-key",
            Scope::RunsRead,
            crate::deployments::http::attestation::key,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/attestation",
            Scope::RunsRead,
            crate::deployments::http::attestation::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/comparison",
            Scope::RunsRead,
            crate::runs::http::comparison::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/report",
            Scope::RunsRead,
            crate::runs::http::report::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/statistics",
            Scope::RunsRead,
            crate::runs::http::statistics::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/oasis-verdict",
            Scope::RunsRead,
            crate::oasis::http::verdict,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/oasis-report",
            Scope::RunsRead,
            crate::oasis::http::report,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/oasis-evidence/{scenarioId}",
            Scope::RunsRead,
            crate::oasis::http::evidence,
        )
        .keyed(
            get,
            "/v1/host/touchstone/oasis/profiles",
            Scope::ManifestRead,
            crate::oasis::http::profiles,
        )
        .keyed(
            post,
            "/v1/host/touchstone/oasis/preflight",
            Scope::RunsCreate,
            crate::oasis::http::preflight,
        )
        .keyed(
            post,
            "/v1/host/touchstone/oasis/compute",
            Scope::RunsRead,
            crate::oasis::http::compute,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:retry",
            Scope::RunsCreate,
            crate::runs::http::retry::retry,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:void",
            Scope::RunsVoid,
            crate::runs::http::void::void,
        )
        .keyed(
            post,
            "/v1/webhooks",
            Scope::WebhooksManage,
            crate::runs::http::webhooks::register::register,
        )
        .keyed(
            delete,
            "/v1/webhooks/{webhookId}",
            Scope::WebhooksManage,
            crate::runs::http::webhooks::unregister::unregister,
        )
        .keyed(
            post,
            "/v1/webhooks/{webhookId}/rotate-secret",
            Scope::WebhooksManage,
            crate::runs::http::webhooks::rotate_secret::rotate_secret,
        )
        .keyed(
            get,
            "/v1/host/touchstone/webhooks",
            Scope::WebhooksManage,
            crate::runs::http::webhooks::list::list,
        )
        .keyed(
            get,
            "/v1/agents",
            Scope::ManifestRead,
            crate::runs::http::agents::list,
        )
        .keyed(
            get,
            "/v1/agents/{agentId}",
            Scope::ManifestRead,
            crate::runs::http::agents::get,
        )
        .keyed(
            get,
            "/v1/agents/{agentId}/deployments",
            Scope::ManifestRead,
            crate::deployments::http::deployments::list,
        )
        .authenticated(
            post,
            "/v1/agents/{agentId}/deployments",
            crate::deployments::http::deployments::transition,
        )
        .keyed(
            get,
            "/v1/audit/verify",
            Scope::AuditRead,
            crate::host::http::audit::verify,
        )
        .keyed(
            get,
            "/v1/host/touchstone/audit",
            Scope::AuditRead,
            crate::host::http::audit_log::list,
        )
        .keyed(
            get,
            "/v1/host/touchstone/gates",
            Scope::ManifestRead,
            crate::deployments::http::gates::list,
        )
        .keyed(
            post,
            "/v1/host/touchstone/gates",
            Scope::GatesWrite,
            crate::deployments::http::gates::set,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/gates",
            Scope::GatesWrite,
            crate::deployments::http::gates::remove,
        )
        .keyed(
            post,
            "/v1/host/touchstone/gates/check",
            Scope::RunsRead,
            crate::deployments::http::gates::check,
        )
        .keyed(
            post,
            "/v1/host/touchstone/agent-cards/score",
            Scope::AssessmentsWrite,
            crate::agent_cards::http::score,
        )
        .keyed(
            post,
            "/v1/host/touchstone/agent-cards/rank",
            Scope::AssessmentsWrite,
            crate::agent_cards::http::rank,
        )
        .keyed(
            get,
            "/v1/host/touchstone/agent-cards/history",
            Scope::AssessmentsRead,
            crate::agent_cards::http::history,
        )
        .keyed(
            get,
            "/v1/host/touchstone/agent-cards/watches",
            Scope::AssessmentsRead,
            crate::agent_cards::http::watches,
        )
        .keyed(
            post,
            "/v1/host/touchstone/agent-cards/watches",
            Scope::AssessmentsWrite,
            crate::agent_cards::http::watch,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/agent-cards/watches",
            Scope::AssessmentsWrite,
            crate::agent_cards::http::unwatch,
        )
        .keyed(
            get,
            "/v1/host/touchstone/judge/calibrations",
            Scope::ManifestRead,
            crate::runs::http::judge::list,
        )
        .keyed(
            post,
            "/v1/host/touchstone/judge/calibrations",
            Scope::GatesWrite,
            crate::runs::http::judge::calibrate,
        )
        .keyed(
            get,
            "/v1/host/touchstone/judge/calibrations/{calibrationId}",
            Scope::ManifestRead,
            crate::runs::http::judge::show,
        )
        .keyed(
            get,
            "/v1/host/touchstone/packs",
            Scope::ManifestRead,
            crate::packs::http::packs::list,
        )
        .keyed(
            post,
            "/v1/host/touchstone/packs",
            Scope::PacksInstall,
            crate::packs::http::packs::install,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/packs/{name}/{version}",
            Scope::PacksInstall,
            crate::packs::http::packs::remove,
        )
        .keyed(
            get,
            "/v1/host/touchstone/suites",
            Scope::ManifestRead,
            crate::packs::http::suites::list,
        )
        .keyed(
            post,
            "/v1/host/touchstone/suites",
            Scope::SuitesWrite,
            crate::packs::http::suites::import,
        )
        .keyed(
            get,
            "/v1/host/touchstone/suites/{suiteId}/{version}",
            Scope::ManifestRead,
            crate::packs::http::suites::get,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/suites/{suiteId}/{version}",
            Scope::SuitesWrite,
            crate::packs::http::suites::remove,
        )
        .keyed(
            get,
            "/v1/host/touchstone/usage",
            Scope::RunsRead,
            crate::runs::http::storage::usage,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/runs/{runId}",
            Scope::RunsDelete,
            crate::runs::http::storage::delete_run,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:hold",
            Scope::RunsHold,
            crate::runs::http::storage::hold,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:release",
            Scope::RunsHold,
            crate::runs::http::storage::release,
        )
        .seam(
            get,
            "/v1/host/sample/test/runs/{runId}/events",
            crate::sample::log::get,
        )
        .seam(
            post,
            "/v1/host/sample/test/debug-bundle/export",
            crate::sample::bundle::export,
        )
        .seam(
            post,
            "/v1/host/sample/test/reset",
            crate::sample::reset::reset,
        )
        .seam(
            post,
            "/v1/host/sample/agents/eval-run",
            crate::sample::agents::eval_run,
        )
        .seam(
            post,
            "/v1/host/sample/agents/live-invoke",
            crate::sample::agents::live_invoke,
        )
        .seam(
            post,
            "/v1/host/sample/agents/deployment-transition",
            crate::sample::agents::deployment_transition,
        )
        .seam(
            post,
            "/v1/host/sample/budget/run",
            crate::sample::agents::budget_run,
        )
        .seam(
            post,
            "/v1/host/sample/test/idempotency/concurrent-claim",
            crate::sample::agents::concurrent_claim,
        )
        .seam(
            post,
            "/v1/host/sample/agents/{agentId}/dispatch",
            crate::sample::agents::dispatch,
        )
        .seam(
            post,
            "/v1/host/sample/authorization/decide",
            crate::sample::people::decide,
        )
        .seam(
            post,
            "/v1/host/sample/governance/approval-gate",
            crate::sample::people::approval_gate,
        )
        .seam(
            get,
            "/v1/host/sample/identity/owned-run",
            crate::sample::people::owned_run,
        )
        .seam(
            post,
            "/v1/host/sample/identity/cross-workspace-read",
            crate::sample::people::cross_workspace_read,
        )
        .seam(
            post,
            "/v1/host/sample/test/surface",
            crate::sample::people::surface,
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
