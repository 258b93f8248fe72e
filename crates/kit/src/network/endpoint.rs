//! Hosts with a port, and those that an operator allows although they are internal.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use url::{Host, Url};

use super::is_internal;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The host in the form of the URL Standard.
    pub host: String,
    pub port: u16,
}

impl Endpoint {
    /// The host and port of a URL, if it has any.
    pub fn of(url: &Url) -> Option<Self> {
        Some(Self {
            host: url.host_str()?.to_owned(),
            port: url.port_or_known_default()?,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a host and a port: 10.1.0.7:8443, [fd00::7]:443, agents.internal:8080")]
pub struct NoEndpoint;

impl FromStr for Endpoint {
    type Err = NoEndpoint;

    fn from_str(text: &str) -> Result<Self, NoEndpoint> {
        let (host, port) = text.rsplit_once(':').ok_or(NoEndpoint)?;
        // The URL Standard accepts an asterisk in a name; the author of one probably expects a
        // wildcard.
        if host.contains('*') {
            return Err(NoEndpoint);
        }
        let host = Host::parse(host).map_err(|_| NoEndpoint)?.to_string();
        match port.parse() {
            Ok(port) if port > 0 => Ok(Self { host, port }),
            _ => Err(NoEndpoint),
        }
    }
}

/// Internal addresses that may be contacted: each a host with a port, for company networks and
/// tests. There is no setting that allows all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed(BTreeSet<Endpoint>);

impl Allowed {
    pub fn of(places: impl IntoIterator<Item = Endpoint>) -> Self {
        Self(places.into_iter().collect())
    }

    pub fn contains(&self, place: &Endpoint) -> bool {
        self.0.contains(place)
    }

    /// Whether the host in the text of `url` is internal and not allowed.
    pub fn forbids(&self, url: &Url) -> bool {
        is_internal(url) && !Endpoint::of(url).is_some_and(|place| self.contains(&place))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("127.0.0.1:8080", "http://127.0.0.1:8080/", true)]
    #[case("127.0.0.1:8080", "http://127.0.0.1:8081/", false)]
    #[case("127.0.0.1:80", "http://2130706433/", true)]
    #[case("[fd00::7]:443", "https://[fd00::7]/", true)]
    #[case("Agents.Internal:8443", "https://agents.internal:8443/", true)]
    #[case("agents.internal:8443", "https://agents.internal/", false)]
    #[case("agents.internal:8443", "https://a.agents.internal:8443/", false)]
    fn an_endpoint_matches_only_its_host_and_port(
        #[case] place: &str,
        #[case] url: &str,
        #[case] is: bool,
    ) {
        let allowed = Allowed::of([place.parse().unwrap()]);
        assert_eq!(!allowed.forbids(&url.parse().unwrap()), is);
    }

    #[rstest]
    #[case("127.0.0.1")]
    #[case("127.0.0.1:0")]
    #[case("127.0.0.1:70000")]
    #[case(":80")]
    #[case("fd00::7")]
    #[case("http://127.0.0.1:80")]
    #[case("*.internal:80")]
    #[case("10.0.0.0/8:80")]
    fn malformed_endpoints_are_rejected(#[case] text: &str) {
        assert_eq!(text.parse::<Endpoint>(), Err(NoEndpoint));
    }
}
