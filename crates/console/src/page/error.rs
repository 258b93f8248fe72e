//! Pages for errors.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Request, State};
use axum::http::header::REFERER;
use axum::http::{Extensions, HeaderMap};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use url::Url;

use crate::api::ConsoleApi;
use crate::guard::{renew, session};
use crate::page::answer::{HEADERS, own_place};
use crate::page::assets::{self, Links};
use crate::page::chrome::Chrome;
use crate::page::visit::Visit;
use touchstone_host::http::Dialect;
use touchstone_host::http::answer::{Answer, Failure};
use touchstone_kit::error::{ErrorCode, Problem};

const SIGN_IN: &str = "/console/sign-in";

/// Errors of the console are pages.
pub const DIALECT: Dialect = Dialect {
    owns,
    code: ErrorCode::as_str,
    headers: HEADERS,
    envelope,
};

fn owns(path: &str) -> bool {
    path.strip_prefix(crate::ROOT)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The page for a person without a session.
#[derive(Template)]
#[template(path = "error.html")]
struct BarePage<'a> {
    links: &'static Links,
    it: Words<'a>,
}

/// The page for a signed-in person.
#[derive(Template)]
#[template(path = "error-framed.html")]
struct FramedPage<'a> {
    chrome: Chrome,
    it: Words<'a>,
    back: Option<&'a str>,
    is_form: bool,
}

struct Words<'a> {
    status: u16,
    title: &'static str,
    message: &'a str,
    scope: &'a str,
    correlation_id: &'a str,
    code: &'static str,
}

/// What the error page of a signed-in person needs; a part of the failed response.
#[derive(Clone)]
pub struct Frame {
    visit: Visit,
    /// The page that led to the error.
    back: Option<String>,
    is_form: bool,
}

impl Frame {
    pub fn of(visit: &Visit, headers: &HeaderMap, is_form: bool) -> Self {
        let back = referer(headers);
        let place = match is_form {
            true => back.as_deref().unwrap_or(crate::ROOT),
            false => visit.place(),
        };
        Self {
            visit: visit.at(place),
            back: back.filter(|back| is_form || back != visit.place()),
            is_form,
        }
    }

    /// Adds the frame to a failed response.
    pub fn attach(self, response: &mut Response) {
        let status = response.status();
        if status.is_client_error() || status.is_server_error() {
            response.extensions_mut().insert(self);
        }
    }
}

/// The page of the console that the browser comes from.
fn referer(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(REFERER)?.to_str().ok()?;
    let url = Url::parse(text).ok()?;
    let place = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let place = own_place(&place)?;
    (!place.starts_with(SIGN_IN)).then(|| place.to_owned())
}

fn envelope(problem: &Problem, extensions: &Extensions) -> Vec<u8> {
    let status = problem.code.status();
    let title = match status {
        401 => "Sign in again",
        403 => "You may not do this",
        404 => "Not found",
        409 => "This is not possible now",
        429 | 503 => "Try again in a moment",
        400..=499 => "Check what you entered",
        _ => "Something went wrong",
    };
    let detail = |name: &str| {
        let found = problem.details.get(name);
        found.and_then(Value::as_str).unwrap_or_default()
    };
    let it = Words {
        status,
        title,
        message: &problem.message,
        scope: detail("scopeRequired"),
        correlation_id: detail("correlationId"),
        code: problem.code.as_str(),
    };
    let page = match extensions.get::<Frame>() {
        Some(frame) => FramedPage {
            chrome: frame.visit.chrome(None),
            it,
            back: frame.back.as_deref(),
            is_form: frame.is_form,
        }
        .render(),
        None => BarePage {
            links: assets::links(),
            it,
        }
        .render(),
    };
    page.unwrap_or_else(|_| title.to_owned()).into_bytes()
}

/// Every address under `/console` without a page.
pub async fn no_such_page(State(api): State<Arc<ConsoleApi>>, request: Request) -> Answer {
    let _place = api.host.limits.enter()?;
    let problem = Problem::new(
        ErrorCode::NotFound,
        "this page does not exist, or you have no access to it; check the address",
    );
    let mut response = Failure(problem).into_response();
    if let Some(session) = session(&api, request.headers()).await? {
        let visit = Visit::of(&api, &session, &request);
        Frame::of(&visit, request.headers(), false).attach(&mut response);
        renew(&api, &session, &mut response);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("http://127.0.0.1:7800/console/runs?q=a", Some("/console/runs?q=a"))]
    #[case("https://host.example/console/keys", Some("/console/keys"))]
    #[case("https://host.example/console/sign-in?to=/console", None)]
    #[case("https://evil.example/", None)]
    #[case("https://evil.example//console", None)]
    #[case("javascript:alert(1)", None)]
    #[case("", None)]
    fn only_pages_of_the_console_lead_back(#[case] text: &str, #[case] expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        headers.insert(REFERER, text.parse().unwrap());
        assert_eq!(referer(&headers).as_deref(), expected);
    }
}
