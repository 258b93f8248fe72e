//! What verifiers of badges fetch beside a badge: status lists and DID documents. Open to everybody, at the addresses that
//! credentials name, outside of the API.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;

use super::badges::CREDENTIAL;
use crate::http::HttpState;
use crate::http::answer::Answer;
use crate::http::etag::conditional_as;
use crate::http::extract::PathParameters;
use crate::protocol::error::{ErrorCode, Problem};
use crate::service::fault::internal;

/// `GET /status/{statusListId}`: which badges are revoked.
pub async fn status_list(
    State(state): State<Arc<HttpState>>,
    headers: HeaderMap,
    path: PathParameters,
) -> Answer {
    let _place = state.limits.enter()?;
    let number = path.get("statusListId");
    // A list has one address.
    let number: Option<i64> = number
        .parse()
        .ok()
        .filter(|n: &i64| n.to_string() == number);
    let list = match number {
        Some(number) => state.aaaf.status_list(number).await?,
        None => None,
    };
    let list = list.ok_or_else(|| Problem::new(ErrorCode::NotFound, "no such status list"))?;
    Ok(kept_for_a_minute(&headers, CREDENTIAL, list))
}

/// `GET /orgs/{organizationId}/did.json`: the keys of an organization that is known by the host's name.
pub async fn did_document(
    State(state): State<Arc<HttpState>>,
    headers: HeaderMap,
    path: PathParameters,
) -> Answer {
    let _place = state.limits.enter()?;
    let document = state.aaaf.did_document(path.get("organizationId")).await?;
    let text = serde_json::to_vec(&document).map_err(|cause| internal(&cause))?;
    Ok(kept_for_a_minute(
        &headers,
        "application/did+json",
        text.into(),
    ))
}

/// Whatever is revoked is known to be so within a minute, however many look.
fn kept_for_a_minute(headers: &HeaderMap, kind: &'static str, body: Bytes) -> Response {
    let mut response = conditional_as(headers, kind, body);
    response.headers_mut().insert(
        CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=60"),
    );
    response
}
