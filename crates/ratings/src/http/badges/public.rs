//! Status lists and DID documents, which verifiers of badges fetch. Public, and outside the API at
//! the addresses that credentials name.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;

use crate::http::RatingsApi;
use crate::http::badges::CREDENTIAL;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::answer::etag::conditional_as;
use touchstone_host::http::extract::PathParameters;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};

/// `GET /status/{statusListId}`: the revoked badges of a list.
pub async fn status_list(
    State(state): State<Arc<RatingsApi>>,
    headers: HeaderMap,
    path: PathParameters,
) -> Answer {
    let _place = state.host.limits.enter()?;
    let number = path.get("statusListId");
    // Accept only the canonical spelling of the number, so that a list has one address.
    let number: Option<i64> = number
        .parse()
        .ok()
        .filter(|n: &i64| n.to_string() == number);
    let list = match number {
        Some(number) => state.ratings.status_list(number).await?,
        None => None,
    };
    let list = list.ok_or_else(|| Problem::new(ErrorCode::NotFound, "no such status list"))?;
    Ok(cached_for_a_minute(&headers, CREDENTIAL, list))
}

/// `GET /orgs/{organizationId}/did.json`: the keys of an organization that uses a `did:web` under
/// the host's name.
pub async fn did_document(
    State(state): State<Arc<RatingsApi>>,
    headers: HeaderMap,
    path: PathParameters,
) -> Answer {
    let _place = state.host.limits.enter()?;
    let document = state
        .ratings
        .did_document(path.get("organizationId"))
        .await?;
    let text = serde_json::to_vec(&document).map_err(|cause| internal(&cause))?;
    Ok(cached_for_a_minute(
        &headers,
        "application/did+json",
        text.into(),
    ))
}

/// Caches an answer for a minute: revocations become visible within that time, however many clients
/// read.
fn cached_for_a_minute(headers: &HeaderMap, kind: &'static str, body: Bytes) -> Response {
    let mut response = conditional_as(headers, kind, body);
    response.headers_mut().insert(
        CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=60"),
    );
    response
}
