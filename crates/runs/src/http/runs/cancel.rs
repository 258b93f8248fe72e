//! `POST /v1/runs/{runId}/cancel`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, OptionalJsonBody, members};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;
use touchstone_kit::error::Problem;
use touchstone_kit::redaction::mask;

const MAX_REASON_CHARS: usize = 512;

/// `POST /v1/runs/{runId}/cancel`.
pub async fn cancel(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    // Check that the run exists before the body: 404 takes precedence over 400.
    state.runs.record(&caller.tenant, &run).await?;
    let reason = reason(members(&body)?)?;
    let endpoint = format!("POST /v1/runs/{run}/cancel");
    let (runs, who) = (state.runs.clone(), caller.clone());
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let status = runs.cancel(&who, &run, reason).await?;
        Ok(Done::new(
            StatusCode::OK,
            json!({"runId": run, "status": status}),
        ))
    })
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
