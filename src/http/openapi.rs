//! `GET /v1/openapi.json`: the API description, maintained by hand as `openapi.yaml`.

use std::sync::LazyLock;

use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use serde_json::Value;

use touchstone_host::http::answer::Answer;
use touchstone_host::http::etag::conditional;

const YAML: &str = include_str!("../../openapi.yaml");

/// The description as JSON. Converted at the first request, because no other command needs it.
static JSON: LazyLock<Bytes> = LazyLock::new(|| read().to_string().into());

/// Parses the description.
#[expect(
    clippy::expect_used,
    reason = "the file is compiled into the binary, and tests parse it"
)]
pub fn read() -> Value {
    // The limit on YAML aliases protects from files of others.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            enforce_alias_anchor_ratio: false,
        },
    };
    serde_saphyr::from_str_with_options(YAML, options).expect("openapi.yaml is valid")
}

/// `GET /v1/openapi.json`.
pub async fn get(headers: HeaderMap) -> Answer {
    let mut response = conditional(&headers, JSON.clone());
    response.headers_mut().insert(
        CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=300"),
    );
    Ok(response)
}
