//! `GET /v1/openapi.json`: the API description, maintained by hand as `openapi.yaml`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use serde_json::Value;

use crate::http::DocumentsApi;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::answer::etag::conditional;

const YAML: &str = include_str!("../../openapi.yaml");

/// The description built into this binary is not valid YAML.
#[derive(Debug, thiserror::Error)]
#[error("could not parse openapi.yaml: {0}")]
pub struct Unreadable(String);

/// The description as JSON, converted once.
pub struct Document(Bytes);

impl Document {
    /// Converts the description.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn load() -> Result<Self, Unreadable> {
        Ok(Self(read()?.to_string().into()))
    }
}

/// Parses the description.
///
/// # Errors
/// [`Unreadable`].
pub fn read() -> Result<Value, Unreadable> {
    // The file is part of the program, so the limit on YAML aliases is not needed.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            enforce_alias_anchor_ratio: false,
        },
    };
    serde_saphyr::from_str_with_options(YAML, options)
        .map_err(|cause| Unreadable(cause.to_string()))
}

/// `GET /v1/openapi.json`.
pub async fn get(State(api): State<Arc<DocumentsApi>>, headers: HeaderMap) -> Answer {
    let mut response = conditional(&headers, api.openapi.0.clone());
    response.headers_mut().insert(
        CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=300"),
    );
    Ok(response)
}
