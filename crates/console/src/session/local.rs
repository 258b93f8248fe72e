//! The console of a host without keys, on the machine itself.

use axum::http::HeaderMap;
use axum::http::header::HOST;

use crate::api::ConsoleApi;
use touchstone_host::http::Peer;
use touchstone_host::http::ops::is_proxied;
use touchstone_kit::error::Problem;

/// Whether the request gets a session without a key. A name of another host in `Host` may be one
/// that an attacker lets point to this machine, and a proxy's requests come from anywhere. Pages of
/// other sites can make a browser send requests here; they begin no sessions.
///
/// # Errors
/// The store failed.
pub async fn opens(
    api: &ConsoleApi,
    headers: &HeaderMap,
    peer: Option<Peer>,
) -> Result<bool, Problem> {
    let is_near = peer.is_some_and(|Peer(address)| address.ip().to_canonical().is_loopback());
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let is_named = host.is_some_and(names_this_machine);
    let is_own = headers
        .get("sec-fetch-site")
        .is_none_or(|site| site == "same-origin" || site == "none");
    let is_allowed = api.settings.open_on_loopback && api.oidc.is_none() && !is_proxied(headers);
    if !is_allowed || !is_near || !is_named || !is_own {
        return Ok(false);
    }
    api.sessions.opens_locally().await
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
}
