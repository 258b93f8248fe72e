//! `GET /v1/workflows/{workflowId}`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use crate::http::HttpState;
use crate::http::answer::{Answer, json};
use crate::http::extract::PathParameters;

/// `GET /v1/workflows/{workflowId}`.
pub async fn get(State(state): State<Arc<HttpState>>, path: PathParameters) -> Answer {
    let definition = state.runs.workflow(path.get("workflowId"))?;
    json(StatusCode::OK, &definition)
}
