//! `POST /v1/runs/{runId}:pause` and `:resume`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Map, Value};

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use crate::http::runs::cancel::reason;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, OptionalJsonBody, members};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;
use touchstone_kit::error::Problem;
use touchstone_openwop::events::DrainPolicy;

/// `POST /v1/runs/{runId}:pause`.
pub async fn pause(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    let fields = members(&body)?;
    let (reason, policy) = (reason(fields)?, policy(fields)?);
    let endpoint = format!("POST /v1/runs/{run}:pause");
    let (runs, who) = (state.runs.clone(), caller.clone());
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let paused = runs.pause(&who, &run, policy, reason).await?;
        Ok(Done::new(StatusCode::ACCEPTED, paused))
    })
    .await
}

/// `POST /v1/runs/{runId}:resume`.
pub async fn resume(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    members(&body)?;
    let endpoint = format!("POST /v1/runs/{run}:resume");
    let (runs, who) = (state.runs.clone(), caller.clone());
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let resumed = runs.resume(&who, &run).await?;
        Ok(Done::new(StatusCode::ACCEPTED, resumed))
    })
    .await
}

fn policy(body: &Map<String, Value>) -> Result<DrainPolicy, Problem> {
    let known = || DrainPolicy::ALL.iter().map(|policy| policy.as_str());
    match body.get("drainPolicy") {
        None | Some(Value::Null) => Ok(DrainPolicy::default()),
        Some(asked) => DrainPolicy::ALL
            .iter()
            .find(|policy| asked == policy.as_str())
            .copied()
            .ok_or_else(|| {
                let known: Vec<&str> = known().collect();
                Problem::validation(
                    "drainPolicy",
                    format!("`drainPolicy` must be one of {}", known.join(", ")),
                )
            }),
    }
}
