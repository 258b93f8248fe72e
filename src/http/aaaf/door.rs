//! The door of the AAAF API: who calls, in whose name, and how much of it. Nothing of a body is read before that.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use crate::http::HttpState;
use crate::http::answer::Failure;
use crate::http::auth::{bearer, recognise, refused};
use crate::http::server::Peer;
use crate::protocol::error::{ErrorCode, Problem};
use crate::service::aaaf::Member;
use crate::service::access::{Scope, authorise};

const API_KEY: &str = "x-api-key";

/// In whose name a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// That of the caller's organization.
    Organization,
    /// The caller's own: it need not have an organization, or asks about others.
    Caller,
    /// Nobody's, unless a key says whose: the use case decides what is shown.
    Anybody,
}

/// Who looks at what anybody may look at: the member whose key came along, if one did.
#[derive(Clone, Debug)]
pub struct Viewer(pub Option<Member>);

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
    if door.name == Name::Anybody && !presents_a_key(request.headers()) {
        request.extensions_mut().insert(Viewer(None));
        let response = next.run(request).await;
        // Whoever asks for badge after badge that is not there is guessing.
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
    let caller = recognise(&door.state, credential(request.headers()), peer).await?;
    limits.admit(&caller)?;
    door.state.allowances.request(&caller.key_id)?;
    let _held = limits.hold(&caller.tenant, request.body(), false)?;
    if let Some(scope) = door.scope {
        authorise(&caller, scope).inspect_err(refused)?;
    }
    match door.name {
        Name::Organization => {
            let member = door.state.aaaf.member(caller.clone(), door.writes).await?;
            request.extensions_mut().insert(member);
        }
        Name::Anybody => {
            let member = door.state.aaaf.member(caller.clone(), door.writes).await;
            let viewer = match member {
                Ok(member) => Viewer(Some(member)),
                // It has no organization, or one that may not read: it sees what everybody sees.
                Err(refusal) if refusal.code == ErrorCode::Forbidden => Viewer(None),
                Err(fault) => return Err(fault.into()),
            };
            request.extensions_mut().insert(viewer);
        }
        Name::Caller => {}
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

fn presents_a_key(headers: &HeaderMap) -> bool {
    headers.contains_key(API_KEY) || headers.contains_key(AUTHORIZATION)
}

/// The key, in either of two headers. Two credentials are none: which one counts must not depend on who reads.
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
