//! A tenant's storage: usage, deletion of runs, legal holds.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, OptionalJsonBody, members};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::http::routes::Table;
use touchstone_host::service::access::Caller;
use touchstone_kit::error::{ErrorCode, Problem};

pub fn routes(table: Table<RunsApi>) -> Table<RunsApi> {
    let (get, post, delete) = (&Method::GET, &Method::POST, &Method::DELETE);
    table
        .keyed(get, "/v1/host/touchstone/usage", Scope::RunsRead, usage)
        .keyed(
            delete,
            "/v1/host/touchstone/runs/{runId}",
            Scope::RunsDelete,
            delete_run,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:hold",
            Scope::RunsHold,
            hold,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:release",
            Scope::RunsHold,
            release,
        )
        .keyed(
            post,
            "/v1/host/touchstone/runs/{runId}:archive",
            Scope::RunsDelete,
            archive,
        )
}

/// `GET /v1/host/touchstone/usage`.
pub async fn usage(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let used = state.storage.usage(&caller.tenant).await?;
    let quotas = state.storage.quotas();
    let member =
        |used: u64, quota: u64| json!({"used": used, "quota": (quota > 0).then_some(quota)});
    json(
        StatusCode::OK,
        &json!({
            "packs": member(used.packs, quotas.max_packs),
            "suites": member(used.suites, quotas.max_suites),
            "runs": member(used.runs, quotas.max_runs),
            "bytes": member(used.bytes, quotas.max_bytes),
        }),
    )
}

/// `DELETE /v1/host/touchstone/runs/{runId}`.
pub async fn delete_run(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
) -> Answer {
    let endpoint = format!("DELETE /v1/host/touchstone/runs/{run}");
    let (storage, who) = (state.storage.clone(), caller.clone());
    let operation = |_| async move {
        storage.delete(&who, &run).await?;
        Ok(Done::new(
            StatusCode::OK,
            json!({"runId": run, "deleted": true}),
        ))
    };
    once(&state.host, &caller, endpoint, key, &Value::Null, operation).await
}

/// `POST /v1/host/touchstone/runs/{runId}:hold`.
pub async fn hold(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    if let Some(unknown) = members(&body)?.keys().find(|name| *name != "reason") {
        return Err(Problem::validation(
            unknown,
            format!("unknown field `{unknown}`; send `reason`"),
        )
        .into());
    }
    let reason = body.get("reason").and_then(Value::as_str);
    let reason = reason
        .ok_or_else(|| Problem::validation("reason", "`reason` is required and must be a string"))?
        .to_owned();
    let endpoint = format!("POST /v1/host/touchstone/runs/{run}:hold");
    let (storage, who) = (state.storage.clone(), caller.clone());
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let hold = storage.hold(&who, &run, &reason).await?;
        Ok(Done::new(
            StatusCode::OK,
            json!({"runId": run, "legalHold": hold}),
        ))
    })
    .await
}

/// `POST /v1/host/touchstone/runs/{runId}:release`.
pub async fn release(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    if let Some(unknown) = members(&body)?.keys().next() {
        return Err(Problem::validation(
            unknown,
            format!("unknown field `{unknown}`; send `{{}}`"),
        )
        .into());
    }
    let endpoint = format!("POST /v1/host/touchstone/runs/{run}:release");
    let (storage, who) = (state.storage.clone(), caller.clone());
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        storage.release(&who, &run).await?;
        Ok(Done::new(
            StatusCode::OK,
            json!({"runId": run, "legalHold": null}),
        ))
    })
    .await
}

/// `POST /v1/host/touchstone/runs/{runId}:archive`.
pub async fn archive(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    if let Some(unknown) = members(&body)?.keys().next() {
        return Err(Problem::validation(
            unknown,
            format!("unknown field `{unknown}`; send `{{}}`"),
        )
        .into());
    }
    let Some(archive) = state.archive.clone() else {
        return Err(Problem::new(
            ErrorCode::CapabilityNotProvided,
            "this host has no archive; the operator sets one with `archive.url`",
        )
        .into());
    };
    let endpoint = format!("POST /v1/host/touchstone/runs/{run}:archive");
    let who = caller.clone();
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let archived = archive.archive(&who, &run).await?;
        Ok(Done::new(
            StatusCode::OK,
            json!({"runId": run, "archive": archived}),
        ))
    })
    .await
}
