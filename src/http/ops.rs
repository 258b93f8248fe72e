//! For operators: liveness, readiness, metrics.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use super::HttpState;
use super::answer::{Answer, json};
use super::auth::authenticate;
use super::server::Peer;
use crate::protocol::error::{ErrorCode, Problem};
use crate::service::access::{Scope, authorise};
use crate::service::fault::unavailable;

/// What proxies leave on a request.
const PROXY_HEADERS: &[&str] = &[
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

/// `GET /healthz`: the process answers.
pub async fn healthz() -> Answer {
    json(StatusCode::OK, &json!({"status": "ok"}))
}

/// `GET /readyz`: the database takes writes and the host is not shutting down.
pub async fn readyz(State(state): State<Arc<HttpState>>) -> Answer {
    if state.shutdown.is_cancelled() {
        return Err(Problem::new(ErrorCode::Unavailable, "the host is shutting down").into());
    }
    if let Err(cause) = state.store.check_writable().await {
        return Err(unavailable(&cause).into());
    }
    json(StatusCode::OK, &json!({"status": "ready"}))
}

/// `GET /metrics`: for a scraper on this machine, or one with a key. A request that came through a proxy is not from this
/// machine, wherever the proxy runs.
pub async fn metrics(
    State(state): State<Arc<HttpState>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Answer {
    let proxied = PROXY_HEADERS.iter().any(|name| headers.contains_key(*name));
    let local = peer
        .as_ref()
        .is_some_and(|Extension(Peer(address))| address.ip().to_canonical().is_loopback());
    if proxied || !local {
        let peer = peer.map(|Extension(peer)| peer);
        let caller = authenticate(&state, &headers, peer).await?;
        authorise(&caller, Scope::MetricsRead)?;
    }
    let mut response: Response = state.metrics.render().into_response();
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    );
    Ok(response)
}
