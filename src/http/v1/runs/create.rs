//! `POST /v1/runs`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;

use crate::http::HttpState;
use crate::http::answer::Answer;
use crate::http::extract::{IdempotencyKey, JsonBody};
use crate::http::idempotency::{Done, once};
use crate::service::access::Caller;

/// `POST /v1/runs`.
pub async fn create(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let (runs, who, request) = (state.runs.clone(), caller.clone(), body.clone());
    once(
        &state,
        &caller,
        "POST /v1/runs".to_owned(),
        key,
        &body,
        |claim| async move {
            let created = runs.create(&who, &request, claim.as_ref()).await?;
            Ok(Done {
                status: StatusCode::CREATED,
                body: created.body,
                recorded: claim.is_some(),
            })
        },
    )
    .await
}
