//! The size of a request's head.

use axum::extract::Request;
use axum::http::Version;
use axum::http::header::HOST;
use axum::middleware::Next;
use axum::response::Response;

use crate::http::answer::Failure;
use crate::http::peer::Peer;
use touchstone_kit::error::{ErrorCode, Problem};

const MAX_URI_BYTES: usize = 8 * 1024;
const MAX_HEADER_BYTES: usize = 32 * 1024;
const MAX_HEADERS: usize = 128;

/// Refuses requests whose head is too large with an error envelope; the HTTP library would only
/// close the connection. Also refuses requests with a missing or repeated `Host` (RFC 9112 §3.2)
/// that come over a connection.
pub async fn check(request: Request, next: Next) -> Result<Response, Failure> {
    let uri = request.uri();
    let over_a_connection = request.extensions().get::<Peer>().is_some();
    let hosts = request.headers().get_all(HOST).iter().count();
    if over_a_connection && (hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11)) {
        return Err(Problem::validation("Host", "`Host` must be sent once").into());
    }
    if uri.path().len() + uri.query().map_or(0, str::len) > MAX_URI_BYTES {
        return Err(Problem::new(
            ErrorCode::UriTooLong,
            format!("the URL is longer than {MAX_URI_BYTES} bytes"),
        )
        .into());
    }
    let headers = request.headers();
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if bytes > MAX_HEADER_BYTES || headers.len() > MAX_HEADERS {
        return Err(Problem::new(
            ErrorCode::HeaderFieldsTooLarge,
            format!("the headers exceed {MAX_HEADER_BYTES} bytes or {MAX_HEADERS} fields"),
        )
        .into());
    }
    Ok(next.run(request).await)
}
