//! The door: who calls is settled before anything else is looked at, then what they may do. Nothing of a request's body is
//! read before that.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::Response;

use super::HttpState;
use super::answer::Failure;
use super::server::Peer;
use crate::protocol::error::{ErrorCode, Problem};
use crate::service::access::{Caller, Scope, authorise};
use crate::service::keys::unknown;
use crate::telemetry::names;

/// What a guarded route needs to know.
#[derive(Clone)]
pub struct Door {
    /// The host.
    pub state: Arc<HttpState>,
    /// What the caller must be allowed to do; `None` where the use case decides.
    pub scope: Option<Scope>,
    /// Whether a request may take as long as events take to come: such have places of their own.
    pub waits: bool,
}

/// Lets a request pass with its [`Caller`] attached.
///
/// # Errors
/// `503` for one too many, `401` for a credential that is missing or no good, `429` for a caller that asks too much, `403`
/// for one that lacks the scope; in this order, so that none of them tells what a later one would.
pub async fn guard(
    State(door): State<Door>,
    mut request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let limits = &door.state.limits;
    let _place = if door.waits { None } else { limits.enter()? };
    let peer = request.extensions().get::<Peer>().copied();
    let caller = authenticate(&door.state, request.headers(), peer).await?;
    limits.admit(&caller)?;
    let _held = limits.hold(&caller.tenant, request.body(), door.waits)?;
    if let Some(scope) = door.scope {
        authorise(&caller, scope).inspect_err(refused)?;
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// Lets a request pass whose path holds the token of an interrupt, with the [`InterruptToken`] attached.
///
/// # Errors
/// `503` for one too many, the refusals of tokens, `429` for an address that guesses and a tenant that is asked too much.
pub async fn guard_token(
    State(door): State<Door>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let limits = &door.state.limits;
    let _place = limits.enter()?;
    let peer = request.extensions().get::<Peer>().copied();
    let text = parameters.as_ref().ok().and_then(|parameters| {
        let mut parameters = parameters.iter();
        parameters.find_map(|(name, text)| (name == "token").then_some(text))
    });
    let token = door.state.runs.interrupt_token(text.unwrap_or_default());
    let token = token.await.map_err(|refusal| match refusal.code {
        ErrorCode::InterruptNotFound => limits.refuse(address(peer), refusal),
        _ => refusal,
    })?;
    limits.admit_tenant(&token.tenant)?;
    let _held = limits.hold(&token.tenant, request.body(), false)?;
    request.extensions_mut().insert(token);
    Ok(next.run(request).await)
}

fn address(peer: Option<Peer>) -> Option<IpAddr> {
    peer.map(|Peer(address)| address.ip())
}

/// Recognises the caller by the `Authorization` header.
///
/// # Errors
/// `401`, and `429` for an address of which too many were refused.
pub async fn authenticate(
    state: &HttpState,
    headers: &HeaderMap,
    peer: Option<Peer>,
) -> Result<Caller, Problem> {
    recognise(state, bearer(headers), peer).await
}

/// Recognises the caller by the key it presents, if it does.
///
/// # Errors
/// As [`authenticate`].
pub async fn recognise(
    state: &HttpState,
    key: Option<&str>,
    peer: Option<Peer>,
) -> Result<Caller, Problem> {
    let found = match key {
        Some(key) => state.keys.authenticate(key).await,
        None => Err(unknown()),
    };
    found.inspect_err(refused).map_err(|refusal| {
        // A fault of ours is nobody's failed attempt.
        if refusal.code.status() != 401 {
            return refusal;
        }
        state.limits.refuse(address(peer), refusal)
    })
}

/// Counts who was turned away.
pub fn refused(problem: &Problem) {
    metrics::counter!(names::AUTH_REFUSALS, "code" => problem.code.as_str()).increment(1);
}

/// The key in the `Authorization` header.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    // Two credentials are none: which one counts must not depend on who reads.
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}
