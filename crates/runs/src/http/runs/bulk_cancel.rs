//! `POST /v1/runs:bulk-cancel`: one result per id, in the order of the request.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use crate::http::RunsApi;
use crate::http::runs::cancel::reason;
use crate::rules::run::fold::RunStatus;
use crate::service::runs::Runs;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, is_run_id, members, no_such_run};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::RunId;

const MAX_RUN_IDS: usize = 100;

/// `POST /v1/runs:bulk-cancel`.
pub async fn bulk_cancel(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let fields = members(&body)?;
    let (ids, reason) = (run_ids(fields)?, reason(fields)?);
    let (runs, who) = (state.runs.clone(), caller.clone());
    let endpoint = "POST /v1/runs:bulk-cancel".to_owned();
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let mut results = Vec::with_capacity(ids.len());
        for id in ids {
            results.push(cancel_one(&runs, &who, &id, reason.clone()).await);
        }
        Ok(Done::new(StatusCode::OK, json!({"results": results})))
    })
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

async fn cancel_one(runs: &Runs, caller: &Caller, id: &str, reason: Option<String>) -> Value {
    let cancelled = if is_run_id(id) {
        runs.cancel(caller, &RunId::from(id), reason).await
    } else {
        Err(no_such_run())
    };
    match cancelled {
        Ok(status @ (RunStatus::Completed | RunStatus::Failed)) => failed(
            id,
            "run_terminal",
            &format!("the run has ended: {}", status.as_str()),
        ),
        Ok(status) => json!({"runId": id, "ok": true, "status": status}),
        Err(problem) => failed(id, problem.code.as_str(), &problem.message),
    }
}

/// The code under both names that clients look for.
fn failed(id: &str, code: &str, message: &str) -> Value {
    json!({"runId": id, "ok": false, "error": {"code": code, "error": code, "message": message}})
}
