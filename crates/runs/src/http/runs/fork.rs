//! Runs made from another run: forks (OpenWOP replay) and retries.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::RunsApi;
use crate::http::extract::RunPath;
use crate::rules::run::fork::parse;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, OptionalJsonBody, members};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::http::negotiation::Spoken;
use touchstone_host::ports::idempotency::IdempotencyClaim;
use touchstone_host::service::access::{Caller, authorise};
use touchstone_kit::error::Problem;

/// `POST /v1/runs/{runId}:fork`.
pub async fn fork(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    Spoken(major): Spoken,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    // Forking a run reads it, so it needs this scope too.
    authorise(&caller, Scope::RunsRead)?;
    let source = state.runs.record(&caller.tenant, &run).await?;
    let request = parse(&body)?;
    let mut asked = body;
    if let Some(from) = asked.get_mut("fromSeq").filter(|from| from.is_u64()) {
        // The same number may name another event under the other major.
        let numbers = source.log.under(major);
        *from = numbers.read_up_to(request.from_seq).into();
    }
    let endpoint = format!("POST /v1/runs/{run}:fork");
    let (runs, who) = (state.runs.clone(), caller.clone());
    let operation = |claim: Option<IdempotencyClaim>| async move {
        let created = runs
            .fork(&who, &run, &request, major, claim.as_ref())
            .await?;
        Ok(Done::new(StatusCode::CREATED, created.body).recorded(claim.is_some()))
    };
    once(&state.host, &caller, endpoint, key, &asked, operation).await
}

/// `POST /v1/host/touchstone/runs/{runId}:retry`.
pub async fn retry(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    RunPath(run): RunPath,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    state.runs.record(&caller.tenant, &run).await?;
    if let Some(unknown) = members(&body)?.keys().next() {
        return Err(Problem::validation(unknown, "a retry takes no fields; send `{}`").into());
    }
    let endpoint = format!("POST /v1/host/touchstone/runs/{run}:retry");
    let (runs, who) = (state.runs.clone(), caller.clone());
    let operation = |claim: Option<IdempotencyClaim>| async move {
        let created = runs.retry(&who, &run, claim.as_ref()).await?;
        Ok(Done::new(StatusCode::CREATED, created.body).recorded(created.recorded))
    };
    once(&state.host, &caller, endpoint, key, &body, operation).await
}
