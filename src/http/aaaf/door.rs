//! The door of the AAAF API: who calls, in whose name, and how much of it. Nothing of a body is read before that.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::Response;

use crate::http::HttpState;
use crate::http::answer::Failure;
use crate::http::auth::{bearer, recognise, refused};
use crate::http::server::Peer;
use crate::service::access::{Scope, authorise};

/// In whose name a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// That of the caller's organization.
    Organization,
    /// The caller's own: it need not have an organization, or asks about others.
    Caller,
}

/// What a guarded route needs to know.
#[derive(Clone)]
pub struct Door {
    /// The host.
    pub state: Arc<HttpState>,
    /// What the caller must be allowed to do; `None` where the use case decides.
    pub scope: Option<Scope>,
    /// In whose name.
    pub name: Name,
    /// Whether anything may become different by it.
    pub writes: bool,
}

/// Lets a request pass with its caller attached, and its member where it is made in the name of an organization.
///
/// # Errors
/// `503` for one too many, `401` for a credential that is missing or no good, `429` for a caller that asks too much, `403`
/// for one that lacks the scope or the organization; in this order.
pub async fn guard(
    State(door): State<Door>,
    mut request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let limits = &door.state.limits;
    let _place = limits.enter()?;
    let peer = request.extensions().get::<Peer>().copied();
    let caller = recognise(&door.state, credential(request.headers()), peer).await?;
    limits.admit(&caller)?;
    door.state.allowances.request(&caller.key_id)?;
    let _held = limits.hold(&caller.tenant, request.body(), false)?;
    if let Some(scope) = door.scope {
        authorise(&caller, scope).inspect_err(refused)?;
    }
    if door.name == Name::Organization {
        let member = door.state.aaaf.member(caller.clone(), door.writes).await?;
        request.extensions_mut().insert(member);
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// The key, in either of two headers. Two credentials are none: which one counts must not depend on who reads.
fn credential(headers: &HeaderMap) -> Option<&str> {
    const API_KEY: &str = "x-api-key";
    let mut keys = headers.get_all(API_KEY).iter();
    match (keys.next(), keys.next()) {
        (None, _) => bearer(headers),
        (Some(key), None) if !headers.contains_key(AUTHORIZATION) => {
            key.to_str().ok().map(str::trim)
        }
        _ => None,
    }
}
