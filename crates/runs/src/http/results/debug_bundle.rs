//! `GET /v1/runs/{runId}/debug-bundle` (OpenWOP debug-bundle).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::RunsApi;
use crate::http::events::poll::full;
use crate::http::extract::OwnRun;
use crate::service::bundles::MAX_BUNDLE;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::Query;
use touchstone_host::service::access::Caller;

/// `GET /v1/runs/{runId}/debug-bundle`.
pub async fn get(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    OwnRun(run): OwnRun,
) -> Answer {
    // OpenWOP debug-bundle, "Bundle size limits": a host's own parameter is named `host.*`; the
    // plain name is the earlier one.
    let mut most = None;
    for name in ["host.touchstone.maxEvents", "maxEvents"] {
        let asked = query.whole(name, 0, u64::MAX)?;
        most = most.into_iter().chain(asked).min();
    }
    let _room = state.log.rooms().take(MAX_BUNDLE * 2).await.map_err(full)?;
    let bundle = state
        .bundles
        .bundle(&caller.tenant, &run.run_id, most)
        .await?;
    json(StatusCode::OK, &bundle)
}
