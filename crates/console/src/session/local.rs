//! The console of a host without keys, on the machine itself.

use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Version};

use crate::api::ConsoleApi;
use touchstone_host::http::Peer;
use touchstone_host::http::ops::is_proxied;
use touchstone_kit::error::Problem;

/// Whether the request gets a session without a key.
///
/// # Errors
/// The store failed.
pub async fn opens(api: &ConsoleApi, head: &Parts) -> Result<bool, Problem> {
    let peer = head.extensions.get::<Peer>();
    let is_near = peer.is_some_and(|Peer(address)| address.ip().to_canonical().is_loopback());
    let is_allowed = api.settings.opens_without_key();
    if !is_allowed || !is_near || !is_direct(head.version, &head.headers) {
        return Ok(false);
    }
    api.sessions.opens_locally().await
}

/// Whether a browser of this machine seems to have sent the request itself. A name of another host
/// in `Host` may be one that an attacker lets point to this machine, and a proxy's requests come
/// from anywhere; a browser speaks HTTP/1.1 or later, a proxy often HTTP/1.0. Pages of other sites
/// can make a browser send requests here; they begin no sessions.
fn is_direct(version: Version, headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let is_own = headers
        .get("sec-fetch-site")
        .is_none_or(|site| site == "same-origin" || site == "none");
    let is_browser = version > Version::HTTP_10 && !is_proxied(headers);
    is_browser && is_own && host.is_some_and(names_this_machine)
}

fn names_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    matches!(name, "localhost" | "127.0.0.1" | "::1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};
    use rstest::rstest;

    #[rstest]
    #[case("localhost:7800", true)]
    #[case("127.0.0.1", true)]
    #[case("[::1]:7800", true)]
    #[case("localhost.example.com", false)]
    #[case("127.0.0.1.example.com:7800", false)]
    #[case("example.com", false)]
    #[case("", false)]
    fn only_names_of_this_machine_count(#[case] host: &str, #[case] expected: bool) {
        assert_eq!(names_this_machine(host), expected);
    }

    fn headers(more: &'static str) -> HeaderMap {
        let own = (HOST, HeaderValue::from_static("localhost:7800"));
        let more = (!more.is_empty()).then(|| {
            let value = HeaderValue::from_static("192.0.2.1");
            (HeaderName::from_static(more), value)
        });
        [own].into_iter().chain(more).collect()
    }

    #[test]
    fn a_request_of_http_1_0_is_not_one_of_a_browser() {
        assert!(is_direct(Version::HTTP_11, &headers("")));
        assert!(is_direct(Version::HTTP_2, &headers("")));
        assert!(!is_direct(Version::HTTP_10, &headers("")));
        assert!(!is_direct(Version::HTTP_09, &headers("")));
    }

    #[rstest]
    fn a_header_of_a_proxy_shows_that_the_request_is_not_direct(
        #[values(
            "x-forwarded-for",
            "x-forwarded-host",
            "x-forwarded-proto",
            "x-forwarded",
            "x-original-forwarded-for",
            "x-original-host",
            "x-real-ip",
            "x-cluster-client-ip",
            "fastly-client-ip",
            "cdn-loop",
            "max-forwards",
            "x-amzn-trace-id",
            "forwarded",
            "via"
        )]
        name: &'static str,
    ) {
        assert!(!is_direct(Version::HTTP_11, &headers(name)));
    }
}
