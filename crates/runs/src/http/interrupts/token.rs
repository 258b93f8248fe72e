//! Authentication by the interrupt token in a path.

use std::sync::Arc;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::http::RunsApi;
use touchstone_host::http::Peer;
use touchstone_host::http::answer::Failure;
use touchstone_host::http::auth::address;
use touchstone_host::http::translation::ActingFor;
use touchstone_kit::error::ErrorCode;
use touchstone_openwop::wire::Major;

/// Admits a request whose path holds an interrupt token, and attaches the [`InterruptToken`].
///
/// # Errors
/// `503` when the host is at its limit of requests, the errors of tokens, `429` for an address with
/// too many invalid tokens and for a tenant at its rate limit.
pub async fn guard_token(
    State(api): State<Arc<RunsApi>>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let limits = &api.host.limits;
    let _place = limits.enter()?;
    let peer = request.extensions().get::<Peer>().copied();
    let text = parameters.as_ref().ok().and_then(|parameters| {
        let mut parameters = parameters.iter();
        parameters.find_map(|(name, text)| (name == "token").then_some(text))
    });
    let admits_v1 = api.host.settings.protocol.majors.has(Major::V1);
    let token = api
        .runs
        .interrupt_token(text.unwrap_or_default(), admits_v1);
    let token = token.await.map_err(|refusal| match refusal.code {
        ErrorCode::InterruptTokenInvalid => limits.refuse(address(peer), refusal),
        _ => refusal,
    })?;
    limits.admit_tenant(&token.tenant)?;
    let _held = limits.hold(&token.tenant, request.body(), false)?;
    let acting = ActingFor(token.tenant.clone());
    request.extensions_mut().insert(acting);
    request.extensions_mut().insert(token);
    Ok(next.run(request).await)
}
