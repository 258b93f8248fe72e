//! The major of the protocol that a request is answered with (OpenWOP v2 versioning).
//!
//! The router knows the paths of major 1. A request under major 2 is routed by its twin, and has
//! [`Spoken`] among its extensions, which [`translation`](crate::http::translation) reads.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Request};
use axum::http::header::VARY;
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::response::Response;
use serde_json::json;

use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_openwop::wire::version::{Offered, Refusal, Selected, select};
use touchstone_openwop::wire::{Major, operation};

pub const VERSION: HeaderName = HeaderName::from_static("openwop-version");
const CLIENT_VERSION: HeaderName = HeaderName::from_static("openwop-client-version");

/// The major that a request of the protocol is answered with. Routes of this host have none; for
/// their handlers it is major 1, whose form the host uses inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spoken(pub Major);

impl<S: Sync> FromRequestParts<S> for Spoken {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let spoken = parts.extensions.get().copied();
        Ok(spoken.unwrap_or(Self(Major::V1)))
    }
}

/// Finds the major of a request and gives the request the path that the router knows.
///
/// # Errors
/// The host does not answer it: the major of the refusal, and why.
pub fn negotiate(
    offered: Offered,
    request: &mut Request,
) -> Result<Option<Major>, (Major, Problem)> {
    let versions = request.headers().get_all(VERSION);
    let versions = versions.iter().map(HeaderValue::as_bytes);
    let client = request.headers().get(CLIENT_VERSION);
    let client = client.map(HeaderValue::as_bytes);
    match select(offered, request.uri().path(), versions, client) {
        Selected::Outside => {
            if let Some(path) = operation::routed(request.uri().path()) {
                route_by(request, &path);
                // A twin of an operation has the form of major 1.
                request.extensions_mut().insert(Spoken(Major::V1));
            }
            Ok(None)
        }
        Selected::Served(major, path) => {
            if path != request.uri().path() {
                route_by(request, &path);
            }
            request.extensions_mut().insert(Spoken(major));
            Ok(Some(major))
        }
        Selected::Refused(major, refusal) => Err((major, refused(offered, refusal))),
    }
}

/// Replaces the path of a request and keeps its query.
pub fn route_by(request: &mut Request, path: &str) {
    let target = match request.uri().query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    aim(request, &target);
}

/// Replaces the path and the query of a request.
pub fn aim(request: &mut Request, target: &str) {
    if let Ok(target) = PathAndQuery::try_from(target) {
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(target);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
}

fn refused(offered: Offered, refusal: Refusal) -> Problem {
    let versions: Vec<&str> = offered
        .majors
        .list()
        .iter()
        .map(|it| it.version())
        .collect();
    let listed = versions.join(" or ");
    match refusal {
        Refusal::Unsupported => Problem::new(
            ErrorCode::ProtocolVersionUnsupported,
            format!("`OpenWOP-Version` names a major that this host does not serve; send {listed}"),
        )
        .with("protocolVersions", json!(versions)),
        Refusal::Mismatch => Problem::new(
            ErrorCode::ProtocolVersionMismatch,
            "`OpenWOP-Version` names another major than the path, which begins with `/v1`; \
             leave `/v1` out, or send 1.0",
        ),
        Refusal::Malformed => Problem::validation(
            "OpenWOP-Version",
            format!("`OpenWOP-Version` must be MAJOR or MAJOR.MINOR, such as {listed}"),
        ),
        Refusal::Retired => Problem::new(
            ErrorCode::NotFound,
            "this host does not serve paths below `/v1` any more; leave `/v1` out",
        ),
        Refusal::ClientTooOld((major, minor)) => Problem::new(
            ErrorCode::ClientVersionUnsupported,
            format!(
                "`OpenWOP-Client-Version` names a client that is older than {major}.{minor}; \
                 update the client"
            ),
        )
        .with("minClientVersion", format!("{major}.{minor}")),
    }
}

/// Names the major of a response, and says that the request's header selected it.
pub fn name_version(response: &mut Response, major: Major) {
    let headers = response.headers_mut();
    headers.insert(VERSION, HeaderValue::from_static(major.version()));
    headers.append(VARY, HeaderValue::from_name(VERSION));
}
