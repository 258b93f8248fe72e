//! Responses: JSON bodies, and the error envelope on every path.
//!
//! A handler fails with a [`Problem`], which travels in the response's extensions. One layer
//! renders it, adds the correlation id, and also converts the framework's own error responses into
//! an envelope (OpenWOP v1 error envelope).

pub mod encoding;
pub mod etag;

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, LINK, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::http::Dialect;
use crate::http::idempotency::REPLAYED;
use crate::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::json::text_of;
use touchstone_kit::redaction::mask;
use touchstone_openwop::wire::version::Majors;
use touchstone_openwop::wire::{self, Major};

/// Where the host serves the documentation of each error code.
pub const ERROR_PAGES: &str = "/v1/host/touchstone/errors";
/// Maximum length of a message, in characters.
const LONGEST_MESSAGE: usize = 8192;
/// Maximum length of a string in `details`, in characters.
const LONGEST_DETAIL: usize = 2048;

pub type Answer = Result<Response, Failure>;

#[derive(Debug)]
pub struct Failure(pub Problem);

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = status_of(self.0.code.status());
        let mut response = status.into_response();
        response.extensions_mut().insert(self.0);
        response
    }
}

/// A JSON response.
///
/// # Errors
/// The value cannot be serialized: an internal error.
pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Answer {
    let text = serde_json::to_vec(value).map_err(|cause| internal(&cause))?;
    Ok(json_text(status, text.into()))
}

/// A JSON response from text that is already serialized.
pub fn json_text(status: StatusCode, text: Bytes) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub async fn no_such_route() -> Failure {
    no_such_route_problem().into()
}

/// The same 404, for a route that only other callers may see.
pub fn no_such_route_problem() -> Problem {
    Problem::new(
        ErrorCode::NotFound,
        "no such endpoint; see `/v1/openapi.json` for the endpoints of this host",
    )
}

pub async fn method_not_allowed() -> Failure {
    Problem::new(
        ErrorCode::MethodNotAllowed,
        "this endpoint does not support that method; the `Allow` header lists the supported ones",
    )
    .into()
}

/// Marks a failed response that is a page of its own and needs no envelope.
#[derive(Clone, Copy, Debug)]
pub struct OwnPage;

/// Renders the envelope of a failed response in the form of the API that was called; leaves any
/// other response unchanged.
pub fn envelope(
    response: Response,
    correlation_id: &str,
    dialect: Option<Dialect>,
    major: Major,
    majors: Majors,
) -> Response {
    let (parts, body) = response.into_parts();
    let is_failed = parts.status.is_client_error() || parts.status.is_server_error();
    if !is_failed || parts.extensions.get::<OwnPage>().is_some() {
        return Response::from_parts(parts, body);
    }
    let mut problem = match parts.extensions.get::<Problem>() {
        Some(problem) => problem.clone(),
        None => framework_problem(parts.status),
    };
    problem = wire::error::linked(majors, without_secrets(problem));
    let (name, status) = wire::error::spelled(major, problem.code);
    let status = status_of(status);
    if status.is_server_error() {
        problem = problem.with("correlationId", correlation_id);
    }
    let (code, text) = match dialect {
        Some(dialect) => (
            (dialect.code)(problem.code),
            (dialect.envelope)(&problem, &parts.extensions),
        ),
        None => (
            name,
            text_of(&wire::error::envelope(major, &problem)).into_bytes(),
        ),
    };
    let mut response = json_text(status, text.into());
    let headers = response.headers_mut();
    for (name, value) in dialect.map_or(&[][..], |it| it.headers) {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    headers.insert(LINK, own_header(&help_link(code)));
    for cookie in parts.headers.get_all(SET_COOKIE) {
        headers.append(SET_COOKIE, cookie.clone());
    }
    for kept in [ALLOW, REPLAYED] {
        if let Some(value) = parts.headers.get(&kept) {
            headers.insert(kept, value.clone());
        }
    }
    match status {
        StatusCode::UNAUTHORIZED => {
            headers.insert(
                WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"touchstone\""),
            );
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after(&problem)));
        }
        StatusCode::CONFLICT if problem.details.contains_key("retryAfter") => {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after(&problem)));
        }
        _ => {}
    }
    response
}

/// The `Link` header that names the page of a code (RFC 8288). The envelope is closed, so the link
/// cannot be one of its members.
pub(super) fn help_link(code: &str) -> String {
    format!("<{ERROR_PAGES}/{code}>; rel=\"help\"")
}

/// The problem with credentials masked and its strings truncated. Messages quote the request, which
/// may hold a credential in the wrong place, at any length (OpenWOP SR-1).
fn without_secrets(problem: Problem) -> Problem {
    Problem {
        code: problem.code,
        message: masked_text(&problem.message, LONGEST_MESSAGE),
        details: masked_members(problem.details),
    }
}

fn masked_members(members: Map<String, Value>) -> Map<String, Value> {
    let masked = members
        .into_iter()
        .map(|(name, value)| (name, masked(value)));
    masked.collect()
}

fn masked(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(masked_text(&text, LONGEST_DETAIL)),
        Value::Array(items) => Value::Array(items.into_iter().map(masked).collect()),
        Value::Object(members) => Value::Object(masked_members(members)),
        other => other,
    }
}

fn masked_text(text: &str, longest: usize) -> String {
    // Mask before truncating: the first half of a credential may not be recognized as one.
    let text = mask(text);
    match text.char_indices().nth(longest) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

/// Whole seconds, at least one.
fn retry_after(problem: &Problem) -> u64 {
    let details = &problem.details;
    let seconds = details.get("retryAfter").and_then(Value::as_u64);
    let millis = details.get("retryAfterMs").and_then(Value::as_u64);
    seconds
        .or_else(|| millis.map(|millis| millis.div_ceil(1000)))
        .unwrap_or(1)
        .max(1)
}

/// A header that this host made from an id or a digest.
#[expect(clippy::expect_used, reason = "ids and digests are printable ASCII")]
pub fn own_header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("an id is a valid header")
}

#[expect(
    clippy::expect_used,
    reason = "the statuses are constants between 400 and 599"
)]
fn status_of(status: u16) -> StatusCode {
    StatusCode::from_u16(status).expect("an error code has a valid status")
}

/// The problem for a status that the framework answered itself.
pub(super) fn framework_problem(status: StatusCode) -> Problem {
    let (code, message) = match status {
        StatusCode::NOT_FOUND => (ErrorCode::NotFound, "no such endpoint"),
        StatusCode::METHOD_NOT_ALLOWED => (
            ErrorCode::MethodNotAllowed,
            "this endpoint does not support that method",
        ),
        StatusCode::PAYLOAD_TOO_LARGE => (ErrorCode::PayloadTooLarge, "the body is too large"),
        StatusCode::URI_TOO_LONG => (ErrorCode::UriTooLong, "the address is too long"),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (
            ErrorCode::HeaderFieldsTooLarge,
            "too many headers, or headers too large",
        ),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => (
            ErrorCode::UnsupportedMediaType,
            "send the body as `application/json`",
        ),
        StatusCode::SERVICE_UNAVAILABLE => {
            (ErrorCode::Unavailable, "the host is overloaded; try again")
        }
        status if status.is_client_error() => (
            ErrorCode::ValidationError,
            "the request is malformed; check its path, headers and body",
        ),
        _ => (
            ErrorCode::InternalError,
            "internal error; try again, and contact the operator if it persists",
        ),
    };
    Problem::new(code, message)
}
