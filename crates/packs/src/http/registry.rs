//! This host's pack registry, public (OpenWOP node-packs §Registry HTTP API). Where the operator
//! publishes nothing, these routes do not exist.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;

use crate::http::PacksApi;
use crate::service::publications::{Page, Publications};
use touchstone_host::http::answer::encoding::ARCHIVE;
use touchstone_host::http::answer::etag::conditional_with;
use touchstone_host::http::answer::{Answer, json, no_such_route_problem};
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_kit::error::Problem;

const MOST: u64 = 100;
const USUAL: u64 = 50;

fn registry(state: &PacksApi) -> Result<&Publications, Problem> {
    state
        .publications
        .as_ref()
        .ok_or_else(no_such_route_problem)
}

async fn page(state: &PacksApi, query: &Query) -> Result<Page, Problem> {
    let registry = registry(state)?;
    let limit = query.whole("limit", 1, MOST)?.unwrap_or(USUAL);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let term = query.get("q").unwrap_or_default();
    registry.list(term, query.get("cursor"), limit).await
}

/// `GET /v1/packs`.
pub async fn list(State(state): State<Arc<PacksApi>>, query: Query) -> Answer {
    let _place = state.host.limits.enter()?;
    let page = page(&state, &query).await?;
    json(StatusCode::OK, &page.named("packs"))
}

/// `GET /v1/packs/-/search`.
pub async fn search(State(state): State<Arc<PacksApi>>, query: Query) -> Answer {
    let _place = state.host.limits.enter()?;
    let page = page(&state, &query).await?;
    json(StatusCode::OK, &page.named("results"))
}

/// `GET /v1/packs/{name}` and `GET /v1/packs/{name}/index.json`.
pub async fn catalogue(State(state): State<Arc<PacksApi>>, path: PathParameters) -> Answer {
    let _place = state.host.limits.enter()?;
    let found = registry(&state)?.catalogue(path.get("name")).await?;
    json(StatusCode::OK, &found)
}

/// `GET /v1/packs/{name}/-/{version}.json`.
pub async fn manifest(State(state): State<Arc<PacksApi>>, path: PathParameters) -> Answer {
    let _place = state.host.limits.enter()?;
    let registry = registry(&state)?;
    let found = registry
        .served(path.get("name"), path.get("version"))
        .await?;
    json(StatusCode::OK, &found)
}

/// `GET /v1/packs/{name}/-/{version}.tgz`.
pub async fn archive(
    State(state): State<Arc<PacksApi>>,
    headers: HeaderMap,
    path: PathParameters,
) -> Answer {
    let _place = state.host.limits.enter()?;
    let registry = registry(&state)?;
    let (digest, bytes) = registry
        .archive(path.get("name"), path.get("version"))
        .await?;
    let length = bytes.len();
    let tag = format!("\"{digest}\"");
    let mut response = conditional_with(&headers, ARCHIVE, tag, bytes);
    if response.status() == StatusCode::OK {
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(response)
}

/// `GET /v1/packs/{name}/-/{version}.sig`.
pub async fn signature(State(state): State<Arc<PacksApi>>, path: PathParameters) -> Answer {
    let _place = state.host.limits.enter()?;
    let registry = registry(&state)?;
    let bytes = registry
        .signature(path.get("name"), path.get("version"))
        .await?;
    Ok(of_type("application/octet-stream", bytes))
}

/// `GET /v1/packs/{name}/-/keychain`.
pub async fn keychain(State(state): State<Arc<PacksApi>>, path: PathParameters) -> Answer {
    let _place = state.host.limits.enter()?;
    let found = registry(&state)?.keychain(path.get("name")).await?;
    json(StatusCode::OK, &found)
}

/// `GET /.well-known/openwop-registry`.
pub async fn discovery(State(state): State<Arc<PacksApi>>) -> Answer {
    let _place = state.host.limits.enter()?;
    let found = registry(&state)?.discovery().await?;
    json(StatusCode::OK, &found)
}

/// `GET /keys/{keyId}.pub`.
pub async fn key(State(state): State<Arc<PacksApi>>, path: PathParameters) -> Answer {
    let _place = state.host.limits.enter()?;
    let pem = registry(&state)?.key(path.get("keyId")).await?;
    Ok(of_type("application/x-pem-file", pem.into()))
}

fn of_type(kind: &'static str, bytes: Bytes) -> Response {
    let mut response = Response::new(bytes.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
