//! Pages for errors.

use askama::Template;
use axum::http::StatusCode;
use serde_json::Value;

use crate::page::answer::HEADERS;
use crate::page::assets::{self, Links};
use touchstone_host::http::Dialect;
use touchstone_host::http::answer::Failure;
use touchstone_kit::error::{ErrorCode, Problem};

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

#[derive(Template)]
#[template(path = "error.html")]
struct Page<'a> {
    links: &'static Links,
    status: u16,
    title: &'static str,
    message: &'a str,
    scope: &'a str,
    correlation_id: &'a str,
    code: &'static str,
}

fn envelope(problem: &Problem) -> Vec<u8> {
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
    let page = Page {
        links: assets::links(),
        status,
        title,
        message: &problem.message,
        scope: detail("scopeRequired"),
        correlation_id: detail("correlationId"),
        code: problem.code.as_str(),
    };
    let page = page.render();
    page.unwrap_or_else(|_| title.to_owned()).into_bytes()
}

/// Every address under `/console` without a page.
pub async fn no_such_page() -> (StatusCode, Failure) {
    let problem = Problem::new(
        ErrorCode::NotFound,
        "this page does not exist, or you have no access to it; check the address",
    );
    (StatusCode::NOT_FOUND, Failure(problem))
}
