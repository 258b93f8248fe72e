//! `POST /v1/host/sample/test/reset`. The seams keep no state, so there is nothing to clear; runs
//! are real and stay.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;

use crate::host::http::HttpState;
use crate::host::http::answer::{Answer, json};
use crate::host::service::access::Caller;
use crate::sample::open_to;

/// `POST /v1/host/sample/test/reset`.
pub async fn reset(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    open_to(&state, &caller)?;
    json(StatusCode::OK, &json!({"reset": true}))
}
