//! `GET /v1/openapi.json`: the API description, written by hand as `openapi.yaml`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use serde_json::Value;

use crate::http::HttpState;
use crate::http::answer::Answer;
use crate::http::etag::conditional;

const YAML: &str = include_str!("../../../openapi.yaml");

/// The description built into this binary is no YAML.
#[derive(Debug, thiserror::Error)]
#[error("openapi.yaml cannot be read: {0}")]
pub struct Unreadable(String);

/// The description as JSON, converted once.
pub struct Document(Bytes);

impl Document {
    /// Converts the description.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn load() -> Result<Self, Unreadable> {
        let document: Value =
            serde_saphyr::from_str(YAML).map_err(|cause| Unreadable(cause.to_string()))?;
        Ok(Self(document.to_string().into()))
    }
}

/// `GET /v1/openapi.json`.
pub async fn get(State(state): State<Arc<HttpState>>, headers: HeaderMap) -> Answer {
    let mut response = conditional(&headers, state.openapi.0.clone());
    response.headers_mut().insert(
        CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=300"),
    );
    Ok(response)
}
