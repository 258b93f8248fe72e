//! Signing in with an API key, and out.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::SET_COOKIE;
use axum::response::Response;
use secrecy::ExposeSecret as _;

use crate::api::ConsoleApi;
use crate::guard::{same_site, session};
use crate::page::answer::{html, own_place, see_other};
use crate::page::assets::{self, Links};
use crate::page::form::Form;
use crate::page::visit::Visit;
use crate::session::{cookie, oidc};
use touchstone_host::http::Peer;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::auth::{address, recognise};
use touchstone_host::http::extract::Query;
use touchstone_host::service::sign_in::SIGN_OUT;
use touchstone_kit::error::{ErrorCode, Problem};

/// Largest form of a sign-in, in bytes: anyone may send one.
const MAX_FORM: usize = 16 * 1024;
/// Longest page to open after sign-in, in bytes.
const MAX_PLACE: usize = 512;
/// The form of a sign-in must arrive within this time.
const FORM_TIME: Duration = Duration::from_secs(10);

#[derive(Template)]
#[template(path = "session/sign-in.html")]
struct SignIn<'a> {
    links: &'static Links,
    to: &'a str,
    failure: &'static str,
    /// The text on the button of the OpenID provider, if there is one.
    provider: Option<&'a str>,
    /// The address that the button leads to.
    start: String,
}

/// `GET /console/sign-in?to=PLACE`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, query: Query) -> Answer {
    let failure = match query.get("failed") {
        None => "",
        Some("key_revoked") => "This key was revoked. Use another one.",
        Some("key_expired") => "This key has expired. Use another one.",
        Some("rate_limited") => "Too many wrong keys. Wait a minute, then try again.",
        Some(_) => "This is not an API key of this host. Check that you copied all of it.",
    };
    let to = to(query.get("to"));
    let place: String = url::form_urlencoded::byte_serialize(to.as_bytes()).collect();
    html(&SignIn {
        links: assets::links(),
        to,
        failure,
        provider: api.oidc.as_ref().map(|it| it.button.as_str()),
        start: format!("{}?to={place}", oidc::START),
    })
}

/// The page to open after sign-in. A sign-in that is under way keeps it, so a long one is not kept.
pub fn to(place: Option<&str>) -> &str {
    let place = place.filter(|place| place.len() <= MAX_PLACE);
    place.and_then(own_place).unwrap_or(crate::ROOT)
}

/// `POST /console/sign-in`: exchanges a key for a session.
pub async fn send(State(api): State<Arc<ConsoleApi>>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let (headers, peer) = (parts.headers, parts.extensions.get::<Peer>().copied());
    same_site(&headers)?;
    let form = {
        let _place = api.host.limits.enter_sign_in(address(peer))?;
        read(body).await?
    };
    let _place = api.host.limits.enter()?;
    let to = to(form.get("to"));
    let key = form.get("key").map(str::trim);
    let caller = match recognise(&api.host, key, peer).await {
        Ok(caller) => caller,
        Err(problem) => {
            // Only who knows the secret of a key learns that it was revoked or has expired.
            let known = [ErrorCode::KeyRevoked, ErrorCode::KeyExpired];
            if let Some(key) = key.filter(|_| known.contains(&problem.code)) {
                api.sessions.note_refused_key(key, &problem).await?;
            }
            return refused(problem, to);
        }
    };
    api.host.limits.admit(&caller)?;
    // An earlier session ends: its token may be known to others.
    if let Some(before) = session(&api, &headers).await? {
        let (caller, id) = (&before.caller, &before.record.id);
        api.sessions.end_by(caller, SIGN_OUT, id).await?;
    }
    let new = api.sessions.begin(&caller, key.unwrap_or_default()).await?;
    let mut response = see_other(to);
    let cookie = cookie::session(api.secure, new.token.expose_secret());
    response.headers_mut().append(SET_COOKIE, cookie);
    Ok(response)
}

/// Reads the form of a person who is not known yet.
async fn read(body: Body) -> Result<Form, Problem> {
    let read = tokio::time::timeout(FORM_TIME, to_bytes(body, MAX_FORM)).await;
    let read = read.map_err(|_| {
        let seconds = FORM_TIME.as_secs();
        Problem::new(
            ErrorCode::Unavailable,
            format!("the form did not arrive within {seconds} seconds; send it again"),
        )
        .with("retryAfter", 1)
    })?;
    let bytes = read.map_err(|_| {
        Problem::new(
            ErrorCode::PayloadTooLarge,
            format!("the form is larger than {MAX_FORM} bytes; enter only the key"),
        )
    })?;
    Form::parse(&bytes)
}

fn refused(problem: Problem, to: &str) -> Answer {
    let reason = match problem.code {
        ErrorCode::KeyRevoked => "key_revoked",
        ErrorCode::KeyExpired => "key_expired",
        ErrorCode::RateLimited => "rate_limited",
        ErrorCode::Unauthenticated => "unknown_key",
        _ => return Err(problem.into()),
    };
    let to: String = url::form_urlencoded::byte_serialize(to.as_bytes()).collect();
    Ok(see_other(&format!(
        "/console/sign-in?failed={reason}&to={to}"
    )))
}

/// `POST /console/sign-out`.
pub async fn sign_out(State(api): State<Arc<ConsoleApi>>, visit: Visit) -> Answer {
    let (caller, id) = (&visit.caller, &visit.session_id);
    api.sessions.end_by(caller, SIGN_OUT, id).await?;
    let mut response = see_other("/console/sign-in");
    let cookie = cookie::no_session(api.secure);
    response.headers_mut().append(SET_COOKIE, cookie);
    Ok(response)
}

/// `POST /console/theme`: `light`, `dark`, or the browser's preference.
pub async fn theme(State(api): State<Arc<ConsoleApi>>, visit: Visit, form: Form) -> Answer {
    let theme = match form.get("theme") {
        Some("light") => "light",
        Some("dark") => "dark",
        _ => "auto",
    };
    let mut response: Response = see_other(form.place().unwrap_or(crate::ROOT));
    let cookie = cookie::theme(api.secure, theme);
    response.headers_mut().append(SET_COOKIE, cookie);
    drop(visit);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_page_is_not_kept() {
        let page = |bytes: usize| format!("/console/{}", "a".repeat(bytes - 9));
        assert_eq!(to(Some(&page(512))), page(512));
        assert_eq!(to(Some(&page(513))), crate::ROOT);
    }
}
