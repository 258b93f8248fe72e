//! Answers in fewer octets, for whoever asks (OpenWOP `restTransport.contentEncodings`).
//!
//! Event streams are left as they are: a frame has to go out at once.

use axum::http::HeaderValue;
use axum::http::header::{CONTENT_ENCODING, ETAG};
use axum::response::Response;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

/// What answers can be encoded in.
pub const ENCODINGS: [&str; 1] = ["gzip"];

/// Encodes what a client takes encoded.
pub fn layer() -> CompressionLayer {
    CompressionLayer::new().quality(CompressionLevel::Fastest)
}

/// A strong tag promises the same octets, so an encoded answer has a weak one (RFC 9110 §8.8.3.3). Either can be asked with.
pub async fn weaken_tag(mut response: Response) -> Response {
    if response.headers().contains_key(CONTENT_ENCODING)
        && let Some(tag) = response.headers().get(ETAG)
        && tag.as_bytes().starts_with(b"\"")
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        response.headers_mut().insert(ETAG, weak);
    }
    response
}
