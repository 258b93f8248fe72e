//! Conditional reads. The strong ETag is a digest of the body, so it changes exactly when the body
//! does.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::http::answer::encoding::encoded_tag;
use crate::http::answer::own_header;

/// The ETag of a body, quotes included.
pub fn tag(body: &[u8]) -> String {
    let digest = Sha256::digest(body);
    let half: Vec<u8> = digest.iter().take(18).copied().collect();
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(half))
}

/// A JSON body, or `304` if the client already has it.
pub fn conditional(headers: &HeaderMap, body: Bytes) -> Response {
    conditional_as(headers, "application/json", body)
}

/// As [`conditional`], with another content type.
pub fn conditional_as(headers: &HeaderMap, kind: &'static str, body: Bytes) -> Response {
    let tag = tag(&body);
    conditional_with(headers, kind, tag, body)
}

/// As [`conditional_as`], with an ETag that is already known, quotes included.
pub fn conditional_with(
    headers: &HeaderMap,
    kind: &'static str,
    tag: String,
    body: Bytes,
) -> Response {
    let (tag, mut response) = match known(headers, &tag) {
        Some(known) => (known, StatusCode::NOT_MODIFIED.into_response()),
        None => {
            let mut response = Response::new(Body::from(body));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            (tag, response)
        }
    };
    response.headers_mut().insert(ETAG, own_header(&tag));
    response
}

/// The ETag, plain or of the compressed form, that the client sent for this body.
fn known(headers: &HeaderMap, tag: &str) -> Option<String> {
    let encoded = encoded_tag(tag);
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .map(|candidate| candidate.strip_prefix("W/").unwrap_or(candidate))
        .find_map(|candidate| match candidate {
            "*" => Some(tag.to_owned()),
            _ if candidate == tag => Some(tag.to_owned()),
            _ => encoded.clone().filter(|encoded| encoded == candidate),
        })
}
