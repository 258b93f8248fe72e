//! `GET /v1/runs/{runId}:diff?against=` (RFC 0054).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::RunsApi;
use crate::http::events::poll::full;
use crate::http::extract::OwnRun;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::Query;
use touchstone_host::service::access::Caller;

/// Memory for one comparison, in bytes: two pages, and the differences found.
const ROOM: usize = 16 * 1024 * 1024;

/// `GET /v1/runs/{runId}:diff`.
pub async fn get(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    OwnRun(run): OwnRun,
) -> Answer {
    let against = query.run("against")?;
    let _room = state.log.rooms().take(ROOM).await.map_err(full)?;
    let diff = state
        .diffs
        .diff(&caller.tenant, &run.run_id, &against)
        .await?;
    json(StatusCode::OK, &diff)
}
