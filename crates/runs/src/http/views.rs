//! Reading a run and its results. Every view is computed from the log.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use crate::http::documents::document;
use crate::http::events::poll::full;
use crate::http::extract::{OwnRun, RunPath};
use crate::http::summary;
use crate::http::{RunsApi, comparison};
use crate::render::document::json::ReportJson;
use crate::render::document::list::JsonForm;
use crate::rules::eval::flaky::MAX_RUNS as MAX_FLAKY_RUNS;
use crate::rules::eval::report::RunTotals;
use crate::service::bundles::MAX_BUNDLE;
use crate::service::runs::Runs;
use crate::service::runs::reading::flaky::FlakyQuery;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::etag::conditional;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::http::negotiation::Spoken;
use touchstone_host::http::routes::Table;
use touchstone_host::service::access::Caller;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::RunId;

pub fn routes(table: Table<RunsApi>) -> Table<RunsApi> {
    let get = &Method::GET;
    table
        .keyed(get, "/v1/runs/{runId}", Scope::RunsRead, snapshot)
        .keyed(get, "/v1/runs/{runId}:diff", Scope::RunsRead, diff)
        .keyed(
            get,
            "/v1/runs/{runId}/eval-summary",
            Scope::RunsRead,
            summary::show,
        )
        .keyed(get, "/v1/runs/{runId}/effects", Scope::RunsRead, effects)
        .not_offered(
            get,
            "/v1/runs/{runId}/artifacts/{artifactId}",
            Scope::ArtifactsRead,
            artifact,
        )
        .keyed(
            get,
            "/v1/runs/{runId}/debug-bundle",
            Scope::RunsRead,
            debug_bundle,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/comparison",
            Scope::RunsRead,
            comparison::show,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/report",
            Scope::RunsRead,
            report,
        )
        .keyed(
            get,
            "/v1/host/touchstone/runs/{runId}/statistics",
            Scope::RunsRead,
            statistics,
        )
        .keyed(
            get,
            "/v1/host/touchstone/suites/{suiteId}/flaky",
            Scope::RunsRead,
            flaky,
        )
}

/// `GET /v1/host/touchstone/suites/{suiteId}/flaky`.
pub async fn flaky(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    query: Query,
) -> Answer {
    let asked = flaky_query(path.get("suiteId"), &query)?;
    let found = state.runs.flaky(&caller.tenant, &asked).await?;
    json(StatusCode::OK, &found)
}

/// The runs of a suite that a query names.
///
/// # Errors
/// `validation_error` that names the parameter.
pub fn flaky_query(suite: &str, query: &Query) -> Result<FlakyQuery, Problem> {
    let limit = query.whole("limit", 2, MAX_FLAKY_RUNS as u64)?;
    Ok(FlakyQuery {
        suite_id: suite.to_owned(),
        agent_id: query.get("agentId").map(str::to_owned),
        agent_version: query.get("agentVersion").map(str::to_owned),
        limit: limit.map_or(MAX_FLAKY_RUNS, |it| {
            usize::try_from(it).unwrap_or(MAX_FLAKY_RUNS)
        }),
    })
}

/// `GET /v1/runs/{runId}`.
pub async fn snapshot(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    headers: HeaderMap,
) -> Answer {
    let snapshot = shown(&state.runs, &caller, &run).await?;
    Ok(conditional(&headers, snapshot.to_string().into()))
}

/// The snapshot of a run, with the question that it waits for.
///
/// # Errors
/// `not_found`.
pub async fn shown(runs: &Runs, caller: &Caller, run: &RunId) -> Result<Value, Problem> {
    let mut snapshot = runs.snapshot(&caller.tenant, run).await?;
    if let Some(members) = snapshot.as_object_mut()
        && members.contains_key("currentNodeId")
        && let Some(interrupt) = runs.suspended(caller, run).await?
    {
        members.insert("interrupt".to_owned(), interrupt);
    }
    Ok(snapshot)
}

/// `GET /v1/host/touchstone/runs/{runId}/report`.
pub async fn report(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    RunPath(run): RunPath,
) -> Answer {
    match query.get("tasks") {
        None | Some("all") => {
            let json = |totals: &RunTotals| ReportJson::new(totals, JsonForm::Compact);
            let body = document(&state.runs, &caller.tenant, &run, json).await?;
            let mut response = Response::new(body);
            let media_type = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, media_type);
            Ok(response)
        }
        Some("none") => {
            let assessed = state.runs.shared_totals(&caller.tenant, &run).await?;
            json(StatusCode::OK, &assessed.report)
        }
        Some(_) => Err(Problem::validation("tasks", "`tasks` must be `all` or `none`").into()),
    }
}

/// `GET /v1/host/touchstone/runs/{runId}/statistics`.
pub async fn statistics(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    RunPath(run): RunPath,
) -> Answer {
    let (runs, tenant) = (&state.runs, &caller.tenant);
    let statistics = match query.get("pool") {
        None | Some("all") => runs.statistics(tenant, &run).await?,
        Some("none") => runs.own_statistics(tenant, &run).await?,
        Some(_) => {
            return Err(Problem::validation("pool", "`pool` must be `all` or `none`").into());
        }
    };
    json(StatusCode::OK, &statistics)
}

/// Memory for one comparison, in bytes: two pages, and the differences found.
const DIFF_BYTES: usize = 16 * 1024 * 1024;

/// `GET /v1/runs/{runId}:diff`.
pub async fn diff(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    Spoken(major): Spoken,
    query: Query,
    OwnRun(run): OwnRun,
) -> Answer {
    let against = query.run("against")?;
    let _permit = state.log.memory().reserve(DIFF_BYTES).await.map_err(full)?;
    let diff = state
        .diffs
        .diff(&caller, (&run.run_id, &against), major)
        .await?;
    json(StatusCode::OK, &diff)
}

/// Memory for reading the effects of a run, in bytes: one page.
const EFFECTS_BYTES: usize = 8 * 1024 * 1024;

/// `GET /runs/{runId}/effects`, only under major 2.
pub async fn effects(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    OwnRun(run): OwnRun,
) -> Answer {
    let memory = state.log.memory();
    let _permit = memory.reserve(EFFECTS_BYTES).await.map_err(full)?;
    let effects = state.runs.effects(&caller.tenant, &run.run_id).await?;
    json(
        StatusCode::OK,
        &json!({"runId": run.run_id, "effects": effects}),
    )
}

/// `GET /v1/runs/{runId}/debug-bundle`.
pub async fn debug_bundle(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    OwnRun(run): OwnRun,
) -> Answer {
    // OpenWOP debug-bundle, "Bundle size limits": a host's own parameter is named `host.*`; the
    // plain name is the earlier one.
    let mut max_events = None;
    for name in ["host.touchstone.maxEvents", "maxEvents"] {
        let limit = query.whole(name, 0, u64::MAX)?;
        max_events = max_events.into_iter().chain(limit).min();
    }
    let _permit = state
        .log
        .memory()
        .reserve(MAX_BUNDLE * 2)
        .await
        .map_err(full)?;
    let bundle = state
        .bundles
        .bundle(&caller.tenant, &run.run_id, max_events)
        .await?;
    json(StatusCode::OK, &bundle)
}

/// Eval runs create no artifacts, so every artifact id is unknown, whether the run exists or not.
pub async fn artifact(OwnRun(_): OwnRun) -> Answer {
    Err(Problem::new(ErrorCode::NotFound, "this run has no such artifact").into())
}
