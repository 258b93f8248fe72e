//! Endpoints for operators: liveness, readiness, metrics.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use crate::access::Scope;
use crate::http::HostApi;
use crate::http::answer::{Answer, json};
use crate::http::auth::authenticate;
use crate::http::peer::Peer;
use crate::service::access::authorise;
use crate::service::fault::unavailable;
use touchstone_kit::error::{ErrorCode, Problem};

/// Headers that proxies add to a request, besides `X-Forwarded-…`.
const PROXY_HEADERS: &[&str] = &[
    "cdn-loop",
    "cf-connecting-ip",
    "fastly-client-ip",
    "forwarded",
    "max-forwards",
    "proxy-connection",
    "true-client-ip",
    "via",
    "x-amzn-trace-id",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-original-forwarded-for",
    "x-original-host",
    "x-original-url",
    "x-proxyuser-ip",
    "x-real-ip",
];

/// The media type of metrics.
pub const METRICS_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `GET /healthz`: the process answers.
pub async fn healthz() -> Answer {
    json(StatusCode::OK, &json!({"status": "ok"}))
}

/// `GET /readyz`: the database takes writes and the host is not shutting down.
pub async fn readyz(State(api): State<Arc<HostApi>>) -> Answer {
    if api.host.shutdown.is_cancelled() {
        return Err(Problem::new(ErrorCode::Unavailable, "the host is shutting down").into());
    }
    if let Err(cause) = api.host.store.check_writable().await {
        return Err(unavailable(&cause).into());
    }
    json(StatusCode::OK, &json!({"status": "ready"}))
}

/// Whether a proxy has added headers.
pub fn is_proxied(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        let name = name.as_str();
        name.starts_with("x-forwarded") || PROXY_HEADERS.contains(&name)
    })
}

/// `GET /metrics`: needs a key with the scope `metrics:read`. A proxy on this machine need not add
/// a header, so a loopback address proves nothing unless the operator states that there is no proxy
/// (`metrics.allow_loopback`). Even then, a request with proxy headers needs a key.
pub async fn metrics(
    State(api): State<Arc<HostApi>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Answer {
    let local = peer
        .as_ref()
        .is_some_and(|Extension(Peer(address))| address.ip().to_canonical().is_loopback());
    if !api.host.settings.metrics_to_loopback || is_proxied(&headers) || !local {
        let peer = peer.map(|Extension(peer)| peer);
        let caller = authenticate(&api.host, &headers, peer).await?;
        authorise(&caller, Scope::MetricsRead)?;
    }
    let mut response: Response = api.host.metrics.render().into_response();
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(METRICS_FORMAT));
    Ok(response)
}
