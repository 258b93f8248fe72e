//! `GET /v1/openapi.json` and `GET /openapi.json`: the API descriptions of the majors, maintained by
//! hand as `openapi.yaml` and `openapi-v2.yaml`.

use std::sync::LazyLock;

use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use serde_json::Value;

use touchstone_host::http::answer::Answer;
use touchstone_host::http::answer::etag::conditional;
use touchstone_host::http::negotiation::Spoken;
use touchstone_openwop::wire::Major;

// The descriptions as JSON. Converted at the first request, because no other command needs them.
static OF_V1: LazyLock<Bytes> = LazyLock::new(|| read(Major::V1).to_string().into());
static OF_V2: LazyLock<Bytes> = LazyLock::new(|| read(Major::V2).to_string().into());

/// Parses the description of a major.
#[expect(
    clippy::expect_used,
    reason = "the files are compiled into the binary, and tests parse them"
)]
pub fn read(major: Major) -> Value {
    let yaml = match major {
        Major::V1 => include_str!("../../openapi.yaml"),
        Major::V2 => include_str!("../../openapi-v2.yaml"),
    };
    // The limit on YAML aliases protects from files of others.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            enforce_alias_anchor_ratio: false,
        },
    };
    serde_saphyr::from_str_with_options(yaml, options).expect("the API description is valid")
}

/// The description of the request's major.
pub async fn get(Spoken(major): Spoken, headers: HeaderMap) -> Answer {
    let description = match major {
        Major::V1 => &OF_V1,
        Major::V2 => &OF_V2,
    };
    let mut response = conditional(&headers, Bytes::clone(description));
    response.headers_mut().insert(
        CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=300"),
    );
    Ok(response)
}
