//! Response compression by `Accept-Encoding` (OpenWOP `restTransport.contentEncodings`).
//!
//! Event streams are not compressed: each frame has to be sent at once.

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, ETAG};
use axum::response::Response;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate};

pub const ARCHIVE: &str = "application/tar+gzip";

/// The content encodings of responses.
pub const ENCODINGS: [&str; 1] = ["gzip"];

/// Compresses responses for clients that accept it.
pub fn layer() -> CompressionLayer<impl Predicate + Send + Sync + 'static> {
    // Archives are compressed already, and their digest covers the bytes served.
    let worthwhile = DefaultPredicate::new().and(NotForContentType::const_new(ARCHIVE));
    CompressionLayer::new()
        .quality(CompressionLevel::Fastest)
        .compress_when(worthwhile)
}

/// Adds `identity` with the lowest weight to `Accept-Encoding`, whatever the client accepts.
/// Otherwise [`layer`] would answer 406 after the request has been executed. A client that accepts
/// no encoding at all gets the plain response (RFC 9110 §12.5.3).
pub async fn take_plain(mut request: Request) -> Request {
    if let Some(taken) = request.headers().get(ACCEPT_ENCODING) {
        let taken = [b"identity;q=0.001, ", taken.as_bytes()].concat();
        if let Ok(taken) = HeaderValue::from_bytes(&taken) {
            request.headers_mut().insert(ACCEPT_ENCODING, taken);
        }
    }
    request
}

/// The ETag of the compressed form of a response, quotes included.
pub fn encoded_tag(tag: &str) -> Option<String> {
    Some(format!("{}-gzip\"", tag.strip_suffix('"')?))
}

/// Gives a compressed response its own ETag: a strong ETag promises identical bytes (RFC 9110
/// §8.8.3.3). The new ETag stays strong, as `restTransport.conditionalRunGet` promises. Clients may
/// send either one.
pub async fn retag(mut response: Response) -> Response {
    if response.headers().contains_key(CONTENT_ENCODING)
        && let Some(tag) = response.headers().get(ETAG)
        && let Some(tag) = tag.to_str().ok().and_then(encoded_tag)
        && let Ok(tag) = HeaderValue::from_str(&tag)
    {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}
