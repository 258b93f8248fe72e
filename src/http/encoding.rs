//! Answers in fewer octets, for whoever asks (OpenWOP `restTransport.contentEncodings`).
//!
//! Event streams are left as they are: a frame has to go out at once.

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, ETAG};
use axum::response::Response;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate};

/// The content type of pack archives (OpenWOP node-packs).
pub const ARCHIVE: &str = "application/tar+gzip";

/// What answers can be encoded in.
pub const ENCODINGS: [&str; 1] = ["gzip"];

/// Encodes what a client takes encoded.
pub fn layer() -> CompressionLayer<impl Predicate + Send + Sync + 'static> {
    // Archives are compressed as they are, and their digest is that of the octets served.
    let worthwhile = DefaultPredicate::new().and(NotForContentType::const_new(ARCHIVE));
    CompressionLayer::new()
        .quality(CompressionLevel::Fastest)
        .compress_when(worthwhile)
}

/// Leaves a plain answer possible, as the last resort, whatever the client takes. [`layer`] would say 406 when the request has
/// been carried out already; a client that takes nothing at all is told in plain text what came of it (RFC 9110 §12.5.3).
pub async fn take_plain(mut request: Request) -> Request {
    if let Some(taken) = request.headers().get(ACCEPT_ENCODING) {
        let taken = [b"identity;q=0.001, ", taken.as_bytes()].concat();
        if let Ok(taken) = HeaderValue::from_bytes(&taken) {
            request.headers_mut().insert(ACCEPT_ENCODING, taken);
        }
    }
    request
}

/// The tag of an answer once it is encoded, quotes included.
pub fn encoded_tag(tag: &str) -> Option<String> {
    Some(format!("{}-gzip\"", tag.strip_suffix('"')?))
}

/// A strong tag promises the same octets, so an encoded answer has one of its own (RFC 9110 §8.8.3.3). It stays a strong one,
/// as `restTransport.conditionalRunGet` says. Either can be asked with.
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
