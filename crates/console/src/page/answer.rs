//! Responses of pages.

use askama::Template;
use axum::body::Body;
use axum::http::header::{HeaderName, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;

use touchstone_host::http::answer::{Answer, own_header};
use touchstone_host::service::fault::internal;

/// The headers of every page. Nothing on a page is inline, comes from another host, or may be
/// framed.
pub const HEADERS: &[(&str, &str)] = &[
    ("content-type", "text/html; charset=utf-8"),
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-frame-options", "DENY"),
    // A form is sent with its origin, which `no-referrer` would hide.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "permissions-policy",
        "camera=(), geolocation=(), microphone=()",
    ),
    ("cache-control", "no-store"),
    ("vary", "Cookie"),
    ("x-robots-tag", "noindex"),
];

/// A page.
///
/// # Errors
/// The template engine failed: an internal error.
pub fn html(page: &impl Template) -> Answer {
    let text = page.render().map_err(|cause| internal(&cause))?;
    let mut response = Response::new(Body::from(text));
    add_headers(&mut response);
    Ok(response)
}

pub fn add_headers(response: &mut Response) {
    for (name, value) in HEADERS {
        let name = HeaderName::from_static(name);
        let headers = response.headers_mut();
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Sends the browser to another page, which it gets with `GET`.
pub fn see_other(place: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    add_headers(&mut response);
    let place = own_place(place).unwrap_or(crate::ROOT);
    response.headers_mut().insert(LOCATION, own_header(place));
    response
}

/// A text as one segment of a path.
pub fn segment(text: &str) -> String {
    let encoded: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
    encoded.replace('+', "%20")
}

/// The place itself, if it is a page of the console.
pub fn own_place(place: &str) -> Option<&str> {
    let rest = place.strip_prefix(crate::ROOT)?;
    let inside = rest.is_empty() || rest.starts_with(['/', '?']);
    let plain = rest.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    (inside && plain && !rest.starts_with("//")).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("/console", true)]
    #[case("/console?x=1", true)]
    #[case("/console/runs/run_1?sort=score", true)]
    #[case("/consoles", false)]
    #[case("//evil.example/console", false)]
    #[case("/console//evil.example", false)]
    #[case("/console/\\evil.example", false)]
    #[case("https://evil.example/console", false)]
    #[case("/console/\r\nset-cookie: a=b", false)]
    #[case("/console.evil.example", false)]
    #[case("/v1/runs", false)]
    #[case("", false)]
    fn only_pages_of_the_console_are_places(#[case] place: &str, #[case] expected: bool) {
        assert_eq!(own_place(place).is_some(), expected);
    }
}
