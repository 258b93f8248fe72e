//! `GET /v1/host/touchstone/errors/{code}`: the documentation of an error code, which the `Link`
//! header of every error names.

use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse as _;

use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_kit::error::{ErrorCode, Problem};

/// Codes and their pages, of both error envelopes.
static PAGES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/error_pages.rs"));

pub async fn get(path: PathParameters) -> Answer {
    let code = path.get("code");
    let (_, page) = PAGES
        .iter()
        .find(|(known, _)| *known == code)
        .ok_or_else(|| Problem::new(ErrorCode::NotFound, "there is no such error code"))?;
    let fixed = [
        (
            CONTENT_TYPE,
            HeaderValue::from_static("text/markdown; charset=utf-8"),
        ),
        (
            CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=300"),
        ),
    ];
    Ok((fixed, *page).into_response())
}
