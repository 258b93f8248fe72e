//! Cancelling, pausing, resuming and voiding runs.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use crate::rules::run::fold::RunStatus;
use crate::service::runs::{Cancellation, Runs};
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{
    IdempotencyKey, JsonBody, OptionalJsonBody, is_run_id, members, no_such_run,
};
use touchstone_host::http::idempotency::{Done, of_major, once};
use touchstone_host::http::negotiation::Spoken;
use touchstone_host::ports::idempotency::IdempotencyClaim;
use touchstone_host::service::access::Caller;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::RunId;
use touchstone_kit::redaction::mask;
use touchstone_openwop::events::DrainPolicy;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::error::spelled;

const MAX_REASON_CHARS: usize = 512;

/// `POST /v1/runs/{runId}/cancel`.
pub async fn cancel(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    Spoken(major): Spoken,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    // Check that the run exists before the body: 404 takes precedence over 400.
    state.runs.record(&caller.tenant, &run).await?;
    let reason = reason(members(&body)?)?;
    let endpoint = format!("POST /v1/runs/{run}/cancel");
    let (runs, who) = (state.runs.clone(), caller.clone());
    // A run that has ended is a success under major 1 only.
    let asked = of_major(major, body);
    once(
        &state.host,
        &caller,
        endpoint,
        key,
        &asked,
        |_| async move {
            let cancelled = runs.cancel(&who, &run, reason).await?;
            let status = match major {
                Major::V1 => cancelled.status(),
                Major::V2 => cancelled.requested()?,
            };
            Ok(Done::new(
                StatusCode::OK,
                json!({"runId": run, "status": status}),
            ))
        },
    )
    .await
}

/// `reason` of a body, with credentials masked: it is written to the log and sent to webhooks.
///
/// # Errors
/// `validation_error`.
pub fn reason(body: &Map<String, Value>) -> Result<Option<String>, Problem> {
    match body.get("reason") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(reason)) if reason.chars().count() <= MAX_REASON_CHARS => {
            Ok(Some(mask(reason).into_owned()))
        }
        Some(_) => Err(Problem::validation(
            "reason",
            format!("`reason` must be a string of at most {MAX_REASON_CHARS} characters"),
        )),
    }
}

const MAX_RUN_IDS: usize = 100;

/// `POST /v1/runs:bulk-cancel`.
pub async fn bulk_cancel(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    Spoken(major): Spoken,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let fields = members(&body)?;
    let (ids, reason) = (run_ids(fields)?, reason(fields)?);
    let (runs, who) = (state.runs.clone(), caller.clone());
    let endpoint = "POST /v1/runs:bulk-cancel".to_owned();
    let asked = of_major(major, body);
    once(
        &state.host,
        &caller,
        endpoint,
        key,
        &asked,
        |_| async move {
            let mut results = Vec::with_capacity(ids.len());
            for id in ids {
                results.push(cancel_one(&runs, &who, &id, reason.clone(), major).await);
            }
            Ok(Done::new(StatusCode::OK, json!({"results": results})))
        },
    )
    .await
}

fn run_ids(body: &Map<String, Value>) -> Result<Vec<String>, Problem> {
    let shape = || {
        Problem::validation(
            "runIds",
            format!("`runIds` must be an array of 1 to {MAX_RUN_IDS} run ids"),
        )
        .with("maxRunIds", MAX_RUN_IDS)
    };
    let items = body
        .get("runIds")
        .and_then(Value::as_array)
        .filter(|items| (1..=MAX_RUN_IDS).contains(&items.len()))
        .ok_or_else(shape)?;
    items
        .iter()
        .map(|item| item.as_str().map(str::to_owned).ok_or_else(shape))
        .collect()
}

async fn cancel_one(
    runs: &Runs,
    caller: &Caller,
    id: &str,
    reason: Option<String>,
    major: Major,
) -> Value {
    let cancelled = if is_run_id(id) {
        runs.cancel(caller, &RunId::from(id), reason).await
    } else {
        Err(no_such_run())
    };
    let status = cancelled.and_then(|it| match (major, it) {
        // Under major 1, a run that was cancelled before counts as cancelled.
        (Major::V1, Cancellation::Ended(status @ RunStatus::Cancelled)) => Ok(status),
        (_, it) => it.requested(),
    });
    match status {
        Ok(status) => json!({"runId": id, "ok": true, "status": status}),
        Err(problem) => {
            // Bulk cancels name this code under both majors.
            let code = match problem.code {
                ErrorCode::RunTerminal => "run_terminal",
                code => spelled(major, code).0,
            };
            failed(id, code, &problem.message)
        }
    }
}

/// The code under both names that clients look for.
fn failed(id: &str, code: &str, message: &str) -> Value {
    json!({"runId": id, "ok": false, "error": {"code": code, "error": code, "message": message}})
}

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

/// `POST /v1/host/touchstone/runs/{runId}:void`.
pub async fn void(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    let why = "an agent's own key cannot void runs; use another principal's key";
    state.reviews.refuse_own(&caller, why).await?;
    let given = members(&body)?;
    if let Some(unknown) = given.keys().find(|name| *name != "reason") {
        return Err(
            Problem::validation(unknown, "unknown field; the only field is `reason`").into(),
        );
    }
    let reason = reason(given)?
        .filter(|reason| !reason.trim().is_empty())
        .ok_or_else(|| {
            Problem::validation("reason", "`reason` is required: why the run is void")
        })?;
    let endpoint = format!("POST /v1/host/touchstone/runs/{run}:void");
    let (runs, who) = (state.runs.clone(), caller.clone());
    let operation = |claim: Option<IdempotencyClaim>| async move {
        let body = runs.void(&who, &run, reason, claim.as_ref()).await?;
        Ok(Done::new(StatusCode::OK, body).recorded(claim.is_some()))
    };
    once(&state.host, &caller, endpoint, key, &body, operation).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_masked_before_it_is_stored() {
        let body = json!({"reason": "leaks sk-canary123456789"});
        let read = reason(body.as_object().unwrap()).unwrap();
        assert_eq!(read.as_deref(), Some("leaks [REDACTED:api-key]"));
    }
}
