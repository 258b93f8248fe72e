//! `POST /v1/runs`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use crate::http::RunsApi;
use crate::service::runs::create::Dedup;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, JsonBody};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::http::negotiation::Spoken;
use touchstone_host::ports::idempotency::IdempotencyClaim;
use touchstone_host::service::access::Caller;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_openwop::events::ENGINE_VERSION;

/// `POST /v1/runs`.
pub async fn create(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    Spoken(major): Spoken,
    headers: HeaderMap,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let dedup = dedup(&headers)?;
    engine_version(&headers, caller.test)?;
    let (runs, who, request) = (state.runs.clone(), caller.clone(), body.clone());
    let operation = |claim: Option<IdempotencyClaim>| async move {
        let created = runs
            .create(&who, &request, dedup, major, claim.as_ref())
            .await?;
        Ok(Done::new(StatusCode::CREATED, created.body).recorded(claim.is_some()))
    };
    once(
        &state.host,
        &caller,
        "POST /v1/runs".to_owned(),
        key,
        &body,
        operation,
    )
    .await
}

/// The value of `X-Dedup`.
///
/// # Errors
/// `validation_error`: a misspelt guard would not guard.
fn dedup(headers: &HeaderMap) -> Result<Dedup, Problem> {
    let mut values = headers.get_all("x-dedup").iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(Dedup::Off),
        (Some(value), None) if value == "enforce" => Ok(Dedup::Enforce),
        _ => Err(Problem::validation(
            "X-Dedup",
            "`X-Dedup` has one value: `enforce`",
        )),
    }
}

/// Checks `X-Force-Engine-Version`: this host has a single engine version.
///
/// # Errors
/// `force_engine_version_forbidden` for a live key, `validation_error` for another version.
fn engine_version(headers: &HeaderMap, test_key: bool) -> Result<(), Problem> {
    let mut values = headers.get_all("x-force-engine-version").iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(()),
        (Some(_), _) if !test_key => Err(Problem::new(
            ErrorCode::ForceEngineVersionForbidden,
            "`X-Force-Engine-Version` is for test keys only; leave it out",
        )),
        (Some(value), None) if value == ENGINE_VERSION => Ok(()),
        _ => Err(Problem::validation(
            "X-Force-Engine-Version",
            format!(
                "`X-Force-Engine-Version` must be {ENGINE_VERSION}, the only engine version of \
                 this host"
            ),
        )),
    }
}
