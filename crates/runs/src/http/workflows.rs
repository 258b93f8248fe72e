//! `GET /v1/workflows/{workflowId}`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use crate::http::RunsApi;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::PathParameters;

/// `GET /v1/workflows/{workflowId}`.
pub async fn get(State(state): State<Arc<RunsApi>>, path: PathParameters) -> Answer {
    let definition = state.runs.workflow(path.get("workflowId"))?;
    json(StatusCode::OK, &definition)
}
