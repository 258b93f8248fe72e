//! `POST /v1/host/sample/test/reset`. The seams keep no state, so there is nothing to clear; runs
//! are real and stay.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;

use crate::conformance::http::ConformanceApi;
use crate::conformance::http::open_to;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::service::access::Caller;

/// `POST /v1/host/sample/test/reset`.
pub async fn reset(
    State(state): State<Arc<ConformanceApi>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    open_to(&state, &caller)?;
    json(StatusCode::OK, &json!({"reset": true}))
}
