//! Checks that a request must pass before a handler sees it.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use secrecy::ExposeSecret as _;

use crate::api::ConsoleApi;
use crate::page::answer::{own_place, see_other};
use crate::page::error::Frame;
use crate::page::form::Form;
use crate::page::visit::Visit;
use crate::routes::Kind;
use crate::session::{bounce, cookie, csrf, local};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Failure;
use touchstone_host::http::unread_body::HeldPermits;
use touchstone_host::service::access::authorise;
use touchstone_host::service::sessions::Session;
use touchstone_kit::error::{ErrorCode, Problem};

/// The requirements of a route.
#[derive(Clone)]
pub struct Guard {
    pub api: Arc<ConsoleApi>,
    pub kind: Kind,
    /// `None` if the use case decides.
    pub scope: Option<Scope>,
    /// Largest form, in bytes.
    pub most: usize,
}

/// Finds the session of a request and attaches its [`Visit`]; a browser without a session is sent
/// to sign in.
///
/// # Errors
/// In this order: `503` at the limit of requests, `403` for a form of another site, `429` for a rate
/// limit, `403` for a missing scope, `403` for a form without the token of the session.
pub async fn guard(
    State(required): State<Guard>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let api = &required.api;
    let limits = &api.host.limits;
    let _place = match required.kind {
        Kind::Stream => None,
        _ => limits.enter()?,
    };
    if required.kind == Kind::Form {
        same_site(request.headers())?;
    }
    let headers = request.headers().clone();
    let Some(session) = session(api, &headers).await? else {
        // Without its body, which cannot be shared between threads.
        let (head, _) = request.into_parts();
        return without_session(&required, &head).await;
    };
    let visit = Visit::of(api, &session, &request);
    let frame = Frame::of(&visit, &headers, required.kind == Kind::Form);
    let answer = enter(&required, &session, visit, request, next).await;
    let mut response = answer.into_response();
    frame.attach(&mut response);
    // A refused request has a renewed token too: the one that it replaced is soon invalid.
    renew(api, &session, &mut response);
    Ok(response)
}

/// Adds the cookie of a token that replaces the presented one.
pub fn renew(api: &ConsoleApi, session: &Session, response: &mut Response) {
    if let Some(token) = &session.renewed {
        let cookie = cookie::session(api.secure, token.expose_secret());
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// Lets a signed-in person's request through to its handler.
async fn enter(
    required: &Guard,
    session: &Session,
    visit: Visit,
    mut request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let limits = &required.api.host.limits;
    limits.admit(&session.caller)?;
    let waits = required.kind == Kind::Stream;
    let _held = limits.hold(&session.caller.tenant, request.body(), waits)?;
    if let Some(scope) = required.scope {
        authorise(&session.caller, scope)?;
    }
    if required.kind == Kind::Form {
        request = read_form(request, session, required).await?;
    }
    request.extensions_mut().insert(visit);
    Ok(next.run(request).await)
}

/// The open session of a request.
///
/// # Errors
/// The store failed.
pub async fn session(api: &ConsoleApi, headers: &HeaderMap) -> Result<Option<Session>, Problem> {
    let Some(token) = cookie::read(headers, cookie::session_name(api.secure)) else {
        return Ok(None);
    };
    match api.sessions.recognise(token).await {
        Ok(session) => Ok(Some(session)),
        Err(problem) if problem.code.status() == 401 => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// On a host without keys, a browser of the same machine gets a session; others sign in.
async fn without_session(required: &Guard, head: &Parts) -> Result<Response, Failure> {
    let api = &required.api;
    if required.kind == Kind::Stream {
        return Err(signed_out().into());
    }
    let place = match required.kind {
        Kind::Form => crate::ROOT.to_owned(),
        _ => place(&head.uri),
    };
    if bounce::is_from_elsewhere(&head.headers) && required.kind == Kind::Page {
        return bounce::page(&place);
    }
    if local::opens(api, head).await? {
        let new = api.sessions.begin_local().await?;
        let mut response = see_other(&place);
        let cookie = cookie::session(api.secure, new.token.expose_secret());
        response.headers_mut().append(SET_COOKIE, cookie);
        return Ok(response);
    }
    let to: String = url::form_urlencoded::byte_serialize(place.as_bytes()).collect();
    Ok(see_other(&format!("/console/sign-in?to={to}")))
}

fn signed_out() -> Problem {
    Problem::new(
        ErrorCode::Unauthenticated,
        "the session has ended; sign in again",
    )
}

/// The path and the query of a page, to come back to.
fn place(uri: &Uri) -> String {
    let text = uri
        .path_and_query()
        .map_or(crate::ROOT, |place| place.as_str());
    without_done(own_place(text).unwrap_or(crate::ROOT))
}

/// A place without what an earlier form did.
fn without_done(place: &str) -> String {
    let Some((path, query)) = place.split_once('?') else {
        return place.to_owned();
    };
    let kept = query.split('&').filter(|it| !it.starts_with("done="));
    let kept: Vec<&str> = kept.collect();
    match kept.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", kept.join("&")),
    }
}

/// Refuses a form that another site sent.
///
/// # Errors
/// `forbidden`.
pub fn same_site(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |value: Option<&HeaderValue>| value.map(|it| it.to_str().unwrap_or("?").to_owned());
    let host = text(headers.get(HOST)).unwrap_or_default();
    let is_own = text(headers.get(ORIGIN)).is_none_or(|origin| {
        let (_, place) = origin.split_once("://").unwrap_or_default();
        !place.is_empty() && place == host
    });
    let site = text(headers.get("sec-fetch-site"));
    let is_same = site.is_none_or(|site| matches!(site.as_str(), "same-origin" | "none"));
    match is_own && is_same {
        true => Ok(()),
        false => Err(Problem::new(
            ErrorCode::Forbidden,
            "the form came from another site; open the console and send the form there",
        )),
    }
}

async fn read_form(
    request: Request,
    session: &Session,
    required: &Guard,
) -> Result<Request, Problem> {
    let most = required.most;
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, most).await.map_err(|_| {
        Problem::new(
            ErrorCode::PayloadTooLarge,
            format!("the form is larger than {most} bytes; shorten its texts"),
        )
    })?;
    // The body and the texts of its fields are in memory together; the permit is held until the
    // request ends.
    let memory = required.api.host.limits.weigh(bytes.len() * 2)?;
    if let Some(held) = parts.extensions.get::<HeldPermits>() {
        held.keep(memory);
    }
    let form = Form::parse(&bytes)?;
    if !csrf::matches(&session.record.csrf, form.get("csrf").unwrap_or_default()) {
        return Err(Problem::new(
            ErrorCode::Forbidden,
            "the form is older than the session; open the page again and send the form there",
        ));
    }
    let mut request = Request::from_parts(parts, axum::body::Body::empty());
    request.extensions_mut().insert(form);
    Ok(request)
}
