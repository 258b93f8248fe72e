//! Authentication and authorization. They run before a handler and before any byte of the request's
//! body is read.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::Response;

use crate::access::Scope;
use crate::http::HttpHost;
use crate::http::answer::Failure;
use crate::http::lines;
use crate::http::negotiation::Spoken;
use crate::http::peer::Peer;
use crate::service::access::{Caller, authorise};
use crate::service::keys::unknown;
use crate::telemetry::names;
use touchstone_kit::error::Problem;
use touchstone_openwop::wire::Major;

/// The requirements of a guarded route.
#[derive(Clone)]
pub struct AuthRequirements {
    pub host: Arc<HttpHost>,
    /// The scope the caller must hold; `None` where the use case decides.
    pub scope: Option<Scope>,
    /// The scope under major 2, if it is another one.
    pub scope_of_v2: Option<Scope>,
    /// Whether the request may wait for events. Such requests have their own concurrency limit.
    pub waits: bool,
}

/// Authenticates a request and attaches its [`Caller`].
///
/// # Errors
/// In this order, so that no error reveals what a later check would say: `503` when the host is at
/// its limit of requests, `401` for a missing or invalid credential, `429` for a rate limit, `403`
/// for a missing scope.
pub async fn guard(
    State(required): State<AuthRequirements>,
    mut request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let limits = &required.host.limits;
    let _place = if required.waits {
        None
    } else {
        limits.enter()?
    };
    let peer = request.extensions().get::<Peer>().copied();
    let caller = authenticate(&required.host, request.headers(), peer).await?;
    limits.admit(&caller)?;
    let _held = match lines::are_sent(request.method(), request.headers()) {
        true => limits.hold_lines(&caller.tenant)?,
        false => limits.hold(&caller.tenant, request.body(), required.waits)?,
    };
    let scope = match request.extensions().get() {
        Some(Spoken(Major::V2)) => required.scope_of_v2.or(required.scope),
        _ => required.scope,
    };
    if let Some(scope) = scope {
        authorise(&caller, scope).inspect_err(refused)?;
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

pub fn address(peer: Option<Peer>) -> Option<IpAddr> {
    peer.map(|Peer(address)| address.ip())
}

/// Authenticates the caller by the `Authorization` header.
///
/// # Errors
/// `401`, and `429` for an address with too many refused credentials.
pub async fn authenticate(
    host: &HttpHost,
    headers: &HeaderMap,
    peer: Option<Peer>,
) -> Result<Caller, Problem> {
    recognise(host, bearer(headers), peer).await
}

/// Authenticates the caller by the key it presents, if any.
///
/// # Errors
/// As [`authenticate`].
pub async fn recognise(
    host: &HttpHost,
    key: Option<&str>,
    peer: Option<Peer>,
) -> Result<Caller, Problem> {
    let found = match key {
        Some(key) => host.keys.authenticate(key).await,
        None => Err(unknown()),
    };
    found.inspect_err(refused).map_err(|refusal| {
        // Internal errors do not count as failed attempts.
        if refusal.code.status() != 401 {
            return refusal;
        }
        host.limits.refuse(address(peer), refusal)
    })
}

/// Counts a refused request in the metrics.
pub fn refused(problem: &Problem) {
    metrics::counter!(names::AUTH_REFUSALS, "code" => problem.code.as_str()).increment(1);
}

pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    // Reject two `Authorization` headers: which one counts must not depend on the reader.
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}
