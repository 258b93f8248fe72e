//! Signing in with OpenID Connect: Authorization Code with PKCE.
//!
//! The provider sends people back from another site, so their browser sends no `SameSite=Strict`
//! cookie: a `Lax` cookie of ten minutes shows that the same browser began the sign-in. The answer is
//! a page that leads on, because a redirect would still count as a request of the other site.

pub mod config;
pub mod provider;
mod refusal;
mod token;
mod transport;

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use secrecy::ExposeSecret as _;

use crate::api::ConsoleApi;
use crate::guard::session;
use crate::page::answer::add_headers;
use crate::session::oidc::provider::Provider;
use crate::session::oidc::refusal::Refusal;
use crate::session::{bounce, cookie, sign_in};
use touchstone_host::http::Peer;
use touchstone_host::http::answer::{Answer, own_header};
use touchstone_host::http::auth::{address, refused};
use touchstone_host::http::extract::Query;
use touchstone_host::rules::claims::Claims;
use touchstone_host::service::sign_in::TakenAttempt;
use touchstone_kit::error::{ErrorCode, Problem};

pub const START: &str = "/console/sign-in/oidc";
pub const CALLBACK: &str = "/console/sign-in/oidc/callback";

/// The principal in the audit log if the claims name none.
const UNKNOWN: &str = "unknown";

fn provider(api: &ConsoleApi) -> Result<&Arc<Provider>, Problem> {
    api.oidc.as_ref().ok_or_else(|| {
        Problem::new(
            ErrorCode::NotFound,
            "this host has no single sign-on; sign in with an API key",
        )
    })
}

/// Counts an answer without a sign-in like a refused key: many from one address have to wait.
fn count(api: &ConsoleApi, peer: Option<Extension<Peer>>) -> Result<(), Problem> {
    let refusal = Problem::new(ErrorCode::Unauthenticated, "this sign-in was refused");
    let peer = peer.map(|Extension(peer)| peer);
    let counted = api.host.limits.refuse(address(peer), refusal);
    match counted.code {
        ErrorCode::RateLimited => Err(counted),
        _ => Ok(()),
    }
}

/// `GET /console/sign-in/oidc?to=PLACE`: sends the browser to the provider.
pub async fn start(
    State(api): State<Arc<ConsoleApi>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    query: Query,
) -> Answer {
    let _place = api.host.limits.enter()?;
    let provider = provider(&api)?;
    let peer = peer.map(|Extension(peer)| peer);
    api.host.limits.begin_sign_in(address(peer))?;
    let to = sign_in::to(query.get("to"));
    // The callback is a request of the other site, which brings no cookie of a session.
    let before = session(&api, &headers).await?;
    let before = before.map(|session| session.record.id);
    let secrets = api.sessions.begin_attempt(to, before).await?;
    let page = match provider.sign_in_page(&secrets).await {
        Ok(page) => page,
        Err(fault) => {
            tracing::warn!(%fault, "a person could not be sent to the OpenID provider");
            return Refusal::Provider(fault).page(to);
        }
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    add_headers(&mut response);
    let headers = response.headers_mut();
    headers.insert(LOCATION, own_header(page.as_str()));
    let browser = secrets.browser.expose_secret();
    headers.append(SET_COOKIE, cookie::attempt(api.secure, browser));
    Ok(response)
}

/// `GET /console/sign-in/oidc/callback`: the provider sent a person back.
pub async fn callback(
    State(api): State<Arc<ConsoleApi>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    query: Query,
) -> Answer {
    let _place = api.host.limits.enter()?;
    let provider = provider(&api)?;
    let browser = cookie::read(&headers, cookie::attempt_name(api.secure));
    let state = query.get("state").unwrap_or_default();
    let attempt = match api.sessions.take_attempt(state, browser).await? {
        Ok(attempt) => attempt,
        Err(fault) => {
            refused(&Problem::new(ErrorCode::Unauthenticated, "sign-in refused"));
            count(&api, peer)?;
            let home = provider.redirect().trim_end_matches(CALLBACK);
            return Refusal::Attempt(fault, home.to_owned()).page(crate::ROOT);
        }
    };
    let mut response = match finish(&api, provider, &attempt, &query).await? {
        Ok(response) => response,
        Err(refusal) => {
            refused(&Problem::new(ErrorCode::Unauthenticated, "sign-in refused"));
            refusal.page(&attempt.to)?
        }
    };
    let cookie = cookie::no_attempt(api.secure);
    response.headers_mut().append(SET_COOKIE, cookie);
    Ok(response)
}

/// Turns the provider's answer into a session.
async fn finish(
    api: &ConsoleApi,
    provider: &Provider,
    attempt: &TakenAttempt,
    query: &Query,
) -> Result<Result<Response, Refusal>, Problem> {
    let claims = match answered(provider, attempt, query).await {
        Ok(claims) => claims,
        Err(refusal) => return note(api, provider, None, refusal).await.map(Err),
    };
    let identity = match provider.rules.apply(&claims) {
        Ok(identity) => identity,
        Err(fault) => {
            let refusal = Refusal::Claims(fault);
            return note(api, provider, Some(&claims), refusal).await.map(Err);
        }
    };
    let new = api.sessions.begin_oidc(provider.issuer(), identity).await?;
    if let Some(before) = &attempt.session {
        api.sessions.end_before(before).await?;
    }
    let mut response = bounce::page(&attempt.to).map_err(|failure| failure.0)?;
    let cookie = cookie::session(api.secure, new.token.expose_secret());
    response.headers_mut().append(SET_COOKIE, cookie);
    Ok(Ok(response))
}

/// The claims of the person whom the provider sent back.
async fn answered(
    provider: &Provider,
    attempt: &TakenAttempt,
    query: &Query,
) -> Result<Claims, Refusal> {
    // RFC 9207: an answer that names its provider must name this one.
    if query.get("iss").is_some_and(|iss| iss != provider.issuer()) {
        return Err(Refusal::OtherProvider);
    }
    if let Some(error) = query.get("error") {
        return Err(Refusal::answered(error));
    }
    let code = query.get("code").ok_or(Refusal::NoCode)?;
    let claims = provider.claims(code, &attempt.secrets).await;
    claims.map_err(Refusal::Provider)
}

/// Writes a refusal to the log, and to the audit log of the tenant if the provider named a person of
/// it. Anyone could fill the audit log with other refusals.
async fn note(
    api: &ConsoleApi,
    provider: &Provider,
    claims: Option<&Claims>,
    refusal: Refusal,
) -> Result<Refusal, Problem> {
    let rules = &provider.rules;
    let principal = claims.and_then(|claims| rules.principal(claims).ok());
    let principal = principal.as_deref().unwrap_or(UNKNOWN);
    let tenant = claims.and_then(|claims| rules.tenant(claims).ok());
    let reason = refusal.reason();
    tracing::warn!(principal, %reason, "a sign-in with OpenID Connect was refused");
    if let Some(tenant) = tenant {
        let issuer = provider.issuer();
        let noted = api
            .sessions
            .note_refusal(&tenant, principal, issuer, reason);
        noted.await?;
    }
    Ok(refusal)
}
