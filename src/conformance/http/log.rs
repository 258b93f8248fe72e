//! `GET /v1/host/sample/test/runs/{runId}/events`: a run's log, filtered; empty for a run that does
//! not exist.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;

use crate::conformance::Asked;
use crate::conformance::http::ConformanceApi;
use crate::conformance::http::open_to_those_with;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::service::access::Caller;

/// `GET /v1/host/sample/test/runs/{runId}/events`.
pub async fn get(
    State(state): State<Arc<ConformanceApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    query: Query,
) -> Answer {
    open_to_those_with(&state, &caller, Scope::RunsRead)?;
    let text = |name: &str| query.get(name).map(str::to_owned);
    let asked = Asked {
        kind: text("type"),
        node_id: text("nodeId"),
        correlation_id: text("correlationId"),
        causation_id: text("causationId"),
    };
    let run = path.get("runId").into();
    let events = state.seams.log(&caller.tenant, &run, &asked).await?;
    json(StatusCode::OK, &json!({"events": events}))
}
