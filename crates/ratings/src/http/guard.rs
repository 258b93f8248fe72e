//! Authentication, authorization and rate limits of the AAAF API. All of them are checked before
//! the body is read.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use crate::http::RatingsApi;
use crate::service::Member;
use touchstone_host::access::Scope;
use touchstone_host::http::Peer;
use touchstone_host::http::answer::Failure;
use touchstone_host::http::auth::{bearer, recognise, refused};
use touchstone_host::service::access::authorise;
use touchstone_kit::error::{ErrorCode, Problem};

const API_KEY: &str = "x-api-key";

/// The identity that a request acts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestIdentity {
    /// The caller's organization.
    Organization,
    /// The caller itself, which may have no organization or ask about other ones.
    Caller,
    /// Anonymous, unless the request has a key; the use case decides what is shown.
    Anonymous,
}

/// The reader of a public resource: the member whose key was sent, if any.
#[derive(Clone, Debug)]
pub struct Viewer(pub Option<Member>);

/// The access rules of a guarded route.
#[derive(Clone)]
pub struct RouteGuard {
    pub api: Arc<RatingsApi>,
    /// The required scope; `None` if the use case decides.
    pub scope: Option<Scope>,
    pub identity: RequestIdentity,
    /// Whether the request may change anything.
    pub writes: bool,
}

/// Authenticates a request and attaches its caller, and its member if the route acts for an
/// organization.
///
/// # Errors
/// In this order: `503` if too many requests are in progress, `401` for a missing or invalid
/// credential, `429` for a caller over its rate limit, `403` for a missing scope or organization.
pub async fn guard(
    State(route): State<RouteGuard>,
    mut request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let limits = &route.api.host.limits;
    let _place = limits.enter()?;
    let peer = request.extensions().get::<Peer>().copied();
    if route.identity == RequestIdentity::Anonymous && !presents_a_key(request.headers()) {
        request.extensions_mut().insert(Viewer(None));
        let response = next.run(request).await;
        // Repeated requests for badges that do not exist are guesses, so they count against the
        // limit.
        if response.status() == StatusCode::NOT_FOUND {
            let nothing = Problem::new(ErrorCode::NotFound, "no such badge");
            let address = peer.map(|Peer(address)| address.ip());
            let refusal = limits.refuse(address, nothing);
            if refusal.code == ErrorCode::RateLimited {
                return Err(refusal.into());
            }
        }
        return Ok(response);
    }
    let caller = recognise(&route.api.host, credential(request.headers()), peer).await?;
    limits.admit(&caller)?;
    route.api.allowances.request(&caller.key_id)?;
    let _held = limits.hold(&caller.tenant, request.body(), false)?;
    if let Some(scope) = route.scope {
        authorise(&caller, scope).inspect_err(refused)?;
    }
    match route.identity {
        RequestIdentity::Organization => {
            let member = route
                .api
                .ratings
                .member(caller.clone(), route.writes)
                .await?;
            request.extensions_mut().insert(member);
        }
        RequestIdentity::Anonymous => {
            let member = route.api.ratings.member(caller.clone(), route.writes).await;
            let viewer = match member {
                Ok(member) => Viewer(Some(member)),
                // A key without an organization, or of one that may not read, sees only what is
                // public.
                Err(refusal) if refusal.code == ErrorCode::Forbidden => Viewer(None),
                Err(fault) => return Err(fault.into()),
            };
            request.extensions_mut().insert(viewer);
        }
        RequestIdentity::Caller => {}
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

fn presents_a_key(headers: &HeaderMap) -> bool {
    headers.contains_key(API_KEY) || headers.contains_key(AUTHORIZATION)
}

/// The key from either of two headers. Sending both counts as none, because the choice must not
/// depend on the reader.
fn credential(headers: &HeaderMap) -> Option<&str> {
    let mut keys = headers.get_all(API_KEY).iter();
    match (keys.next(), keys.next()) {
        (None, _) => bearer(headers),
        (Some(key), None) if !headers.contains_key(AUTHORIZATION) => {
            key.to_str().ok().map(str::trim)
        }
        _ => None,
    }
}
