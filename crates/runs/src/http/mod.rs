//! Routes of runs, their logs and webhooks.

pub mod events;
pub mod extract;
pub mod interrupts;
pub mod judge;
pub mod results;
pub mod runs;
pub mod storage;
pub mod webhooks;
pub mod workflows;

use std::sync::Arc;

use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, on};

use crate::http::interrupts::token::guard_token;
use crate::service::annotations::Annotating;
use crate::service::bundles::Bundles;
use crate::service::diffs::Diffs;
use crate::service::log_reader::LogReader;
use crate::service::projections::Projections;
use crate::service::runs::Runs;
use crate::service::score_review::ScoreReview;
use crate::service::storage::Storage;
use crate::service::webhooks::Webhooks;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpHost;
use touchstone_host::http::routes::{Operation, Table};

/// What the routes of runs share.
pub struct RunsApi {
    pub host: Arc<HttpHost>,
    pub runs: Arc<Runs>,
    pub annotations: Arc<Annotating>,
    pub bundles: Arc<Bundles>,
    pub diffs: Diffs,
    pub log: LogReader,
    pub projections: Arc<Projections>,
    pub storage: Arc<Storage>,
    pub webhooks: Arc<Webhooks>,
    pub reviews: Arc<dyn ScoreReview>,
}

impl AsRef<Arc<HttpHost>> for RunsApi {
    fn as_ref(&self) -> &Arc<HttpHost> {
        &self.host
    }
}

impl AsRef<Runs> for RunsApi {
    fn as_ref(&self) -> &Runs {
        &self.runs
    }
}

pub fn routes(table: Table<RunsApi>) -> Table<RunsApi> {
    let (get, post, delete) = (&Method::GET, &Method::POST, &Method::DELETE);
    table
        .keyed(
            get,
            "/v1/workflows/{workflowId}",
            Scope::ManifestRead,
            workflows::get,
        )
        .keyed(post, "/v1/runs", Scope::RunsCreate, runs::create::create)
        .keyed(
            post,
            "/v1/runs:bulk-cancel",
            Scope::RunsCancel,
            runs::bulk_cancel::bulk_cancel,
        )
        .keyed(
            get,
            "/v1/runs/{runId}",
            Scope::RunsRead,
            runs::snapshot::get,
        )
        .waiting(
            get,
            "/v1/runs/{runId}/events",
            Scope::RunsRead,
            events::stream,
        )
        .waiting(
            get,
            "/v1/runs/{runId}/events/poll",
            Scope::RunsRead,
            events::poll::poll,
        )
        .keyed(
            post,
            "/v1/runs/{runId}/cancel",
            Scope::RunsCancel,
            runs::cancel::cancel,
        )
        .keyed(
            post,
            "/v1/runs/{runId}:pause",
            Scope::RunsCancel,
            runs::pause::pause,
        )
        .keyed(
            post,
            "/v1/runs/{runId}:resume",
            Scope::RunsCancel,
            runs::pause::resume,
        )
        .keyed(
            post,
            "/v1/runs/{runId}/interrupts/{nodeId}",
            Scope::ApprovalsRespond,
            interrupts::resolve,
        )
        .guarded(by_token("GET", "/v1/interrupts/{token}"), |api| {
            on(MethodFilter::GET, interrupts::inspect)
                .route_layer(from_fn_with_state(api.clone(), guard_token))
        })
        .guarded(by_token("POST", "/v1/interrupts/{token}"), |api| {
            on(MethodFilter::POST, interrupts::resolve_by_token)
                .route_layer(from_fn_with_state(api.clone(), guard_token))
        })
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/interrupts",
            Scope::ApprovalsRespond,
            interrupts::list,
        )
        .keyed(
            get,
            "/v1/runs/{runId}:diff",
            Scope::RunsRead,
            results::diff::get,
        )
        .keyed(
            post,
            "/v1/runs/{runId}:fork",
            Scope::RunsCreate,
            runs::fork::fork,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/eval-summary",
            Scope::RunsRead,
            results::eval_summary::get,
        )
        .not_offered(
            get,
            "/v1/runs/{runId}/artifacts/{artifactId}",
            Scope::ArtifactsRead,
            results::not_offered::artifact,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/annotations",
            Scope::RunsRead,
            runs::annotations::list,
        )
        .keyed(
            post,
            "/v1/runs/{runId}/annotations",
            Scope::RunsCreate,
            runs::annotations::create,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/debug-bundle",
            Scope::RunsRead,
            results::debug_bundle::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/comparison",
            Scope::RunsRead,
            results::comparison::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/report",
            Scope::RunsRead,
            results::report::get,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/statistics",
            Scope::RunsRead,
            results::statistics::get,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:retry",
            Scope::RunsCreate,
            runs::retry::retry,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:void",
            Scope::RunsVoid,
            runs::void::void,
        )
        .keyed(
            post,
            "/v1/webhooks",
            Scope::WebhooksManage,
            webhooks::register::register,
        )
        .keyed(
            delete,
            "/v1/webhooks/{webhookId}",
            Scope::WebhooksManage,
            webhooks::unregister::unregister,
        )
        .keyed(
            post,
            "/v1/webhooks/{webhookId}/rotate-secret",
            Scope::WebhooksManage,
            webhooks::rotate_secret::rotate_secret,
        )
        .keyed(
            get,
            "/v1/host/touchstone/webhooks",
            Scope::WebhooksManage,
            webhooks::list::list,
        )
        .keyed(
            get,
            "/v1/host/touchstone/judge/calibrations",
            Scope::ManifestRead,
            judge::list,
        )
        .keyed(
            post,
            "/v1/host/touchstone/judge/calibrations",
            Scope::GatesWrite,
            judge::calibrate,
        )
        .keyed(
            get,
            "/v1/host/touchstone/judge/calibrations/{calibrationId}",
            Scope::ManifestRead,
            judge::show,
        )
        .keyed(
            get,
            "/v1/host/touchstone/usage",
            Scope::RunsRead,
            storage::usage,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/runs/{runId}",
            Scope::RunsDelete,
            storage::delete_run,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:hold",
            Scope::RunsHold,
            storage::hold,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:release",
            Scope::RunsHold,
            storage::release,
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
