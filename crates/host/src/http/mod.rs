//! The part of the HTTP API that all features share: authentication, limits, parsing, answers.
//!
//! A request passes, from outside in: the observer (major of the protocol, id, deadline, envelope,
//! headers, log line), the panic guard, the path rewrite for action suffixes, the router,
//! authentication (key, scope), the translation from and to major 2, and the handler, which parses
//! its input strictly and calls a use case. Each feature lists its own routes in a
//! [`routes::Table`]; a test compares them with `openapi.yaml`.

pub mod answer;
pub mod audit;
pub mod auth;
pub mod extract;
pub mod idempotency;
pub mod keys;
pub mod limits;
pub mod lines;
pub mod negotiation;
pub mod observe;
pub mod ops;
mod peer;
pub mod routes;
pub mod server;
pub mod translation;
pub mod unread_body;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{Extensions, Method};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tower_http::catch_panic::CatchPanicLayer;

pub use crate::http::limits::Rates;
pub use crate::http::peer::Peer;
pub use crate::http::server::{ServerSettings, serve, serve_with};

use crate::access::Scope;
use crate::http::answer::encoding;
use crate::http::answer::{Failure, method_not_allowed, no_such_route};
use crate::http::limits::Limits;
use crate::http::limits::subscribers::Subscribers;
use crate::http::routes::{Table, paths};
use crate::ports::clock::Clock;
use crate::ports::ids::Ids;
use crate::service::audit::Audit;
use crate::service::keys::Keys;
use crate::store::database::Database;
use crate::telemetry::Metrics;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_openwop::wire::version::{Majors, Offered};

#[derive(Clone, Copy, Debug)]
pub struct HttpSettings {
    /// Largest request body, in bytes.
    pub max_body_bytes: usize,
    /// Memory for all parsed request bodies together, in bytes.
    pub max_body_memory: usize,
    /// Maximum number of open event streams and long polls.
    pub max_subscribers: usize,
    /// Longest silence on a stream.
    pub keepalive: Duration,
    pub rates: Rates,
    /// Whether this host is in conformance mode: fixtures exist, and test keys may use the seams.
    pub conformance: bool,
    /// The majors of the protocol, and their clients.
    pub protocol: Offered,
    /// Whether `/metrics` is served without a key to direct connections from this machine.
    pub metrics_to_loopback: bool,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            max_body_bytes: 16 * 1024 * 1024,
            max_body_memory: 64 * 1024 * 1024,
            max_subscribers: 4096,
            // Clients give up after 30 s of silence.
            keepalive: Duration::from_secs(15),
            rates: Rates::default(),
            conformance: false,
            protocol: Offered::to_all(Majors::Both),
            metrics_to_loopback: false,
        }
    }
}

/// The state that the routes of all features share.
pub struct HttpHost {
    pub keys: Arc<Keys>,
    /// For idempotency records and health.
    pub store: Arc<Database>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub metrics: Metrics,
    pub settings: HttpSettings,
    pub limits: Limits,
    pub subscribers: Subscribers,
    /// Errors of APIs that have their own envelope.
    pub dialects: Vec<Dialect>,
    /// Ends streams and polls; the same token that [`serve`] gets.
    pub shutdown: CancellationToken,
}

/// An API with its own error envelope.
#[derive(Clone, Copy)]
pub struct Dialect {
    /// Whether a path belongs to the API.
    pub owns: fn(&str) -> bool,
    /// The wire name of a code in the envelope.
    pub code: fn(ErrorCode) -> &'static str,
    /// Headers of the response, such as its media type.
    pub headers: &'static [(&'static str, &'static str)],
    /// Serializes an error; the extensions are those of the failed response.
    pub envelope: fn(&Problem, &Extensions) -> Vec<u8>,
}

impl HttpHost {
    /// The limits of this host and its places for subscribers, by their settings.
    pub fn limits(settings: &HttpSettings) -> (Limits, Subscribers) {
        let limits = Limits::new(
            settings.rates,
            settings.max_body_bytes,
            settings.max_body_memory,
        );
        (limits, Subscribers::new(settings.max_subscribers))
    }
}

/// The state that the routes of health, metrics and the audit log share.
pub struct HostApi {
    pub host: Arc<HttpHost>,
    pub audit: Audit,
}

impl AsRef<Arc<HttpHost>> for HostApi {
    fn as_ref(&self) -> &Arc<HttpHost> {
        &self.host
    }
}

pub fn routes(table: Table<HostApi>) -> Table<HostApi> {
    let (get, post) = (&Method::GET, &Method::POST);
    let table = table
        .open(get, "/healthz", ops::healthz)
        .open(get, "/readyz", ops::readyz)
        .open(get, "/metrics", ops::metrics)
        .keyed(get, "/v1/audit/verify", Scope::AuditRead, audit::verify)
        .keyed(
            get,
            "/v1/host/touchstone/audit",
            Scope::AuditRead,
            audit::list,
        );
    let keys = "/v1/host/touchstone/keys";
    table
        .keyed(get, keys, Scope::KeysManage, keys::list)
        .keyed(post, keys, Scope::KeysManage, keys::create)
        .keyed(
            post,
            "/v1/host/touchstone/keys/{keyId}/rotate",
            Scope::KeysManage,
            keys::rotate,
        )
        .keyed(
            post,
            "/v1/host/touchstone/keys/{keyId}/revoke",
            Scope::KeysManage,
            keys::revoke,
        )
}

/// The layers around the routes of all features.
pub fn layered(routes: Router, host: Arc<HttpHost>) -> Router {
    let routed = routes
        .fallback(no_such_route)
        .method_not_allowed_fallback(method_not_allowed)
        .route_layer(middleware::from_fn(observe::note_route));
    // Routing happens inside, after the rewrite.
    let rewritten = routed.map_request(|request: Request| paths::rewrite(request));
    Router::new()
        .fallback_service(rewritten)
        .layer(middleware::from_fn(limits::head::check))
        .layer(encoding::layer())
        .layer(middleware::map_request(encoding::take_plain))
        .layer(middleware::map_response(encoding::retag))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(host, observe::observe))
        .layer(middleware::from_fn(unread_body::drain_body))
}

fn panicked(_: Box<dyn std::any::Any + Send + 'static>) -> Response {
    // The panic hook has logged the location. The panic's message may hold content, so it is not
    // logged.
    tracing::error!("a handler panicked");
    Failure(Problem::new(
        ErrorCode::InternalError,
        "internal error; try again, and contact the operator if it persists",
    ))
    .into_response()
}
