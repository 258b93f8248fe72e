//! `POST /v1/host/sample/test/debug-bundle/export`: a run's debug bundle, requested by a body
//! (OpenWOP host-sample test seams).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;

use crate::conformance::http::ConformanceApi;
use crate::conformance::http::open_to_those_with;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::JsonBody;
use touchstone_host::service::access::Caller;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::RunId;

/// `POST /v1/host/sample/test/debug-bundle/export`.
pub async fn export(
    State(state): State<Arc<ConformanceApi>>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody,
) -> Answer {
    open_to_those_with(&state, &caller, Scope::RunsRead)?;
    let run = body.get("runId").and_then(Value::as_str);
    let run =
        run.ok_or_else(|| Problem::validation("runId", "`runId` is required: the id of a run"))?;
    let bundle = state
        .bundles
        .bundle(&caller.tenant, &RunId::from(run), None)
        .await?;
    json(StatusCode::OK, &bundle)
}
