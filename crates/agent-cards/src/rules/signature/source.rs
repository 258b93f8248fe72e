//! A parsed signature, and the source of its key.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use url::{Host, Url};

use super::algorithm::Algorithm;
use super::header::{self, Header};
use super::jwk::Jwk;
use super::{Keys, Reason};
use crate::rules::{host, web_url};

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
        host::is_internal(url) && !Endpoint::of(url).is_some_and(|place| self.contains(&place))
    }
}

/// The source of a key.
#[derive(Clone, Debug)]
pub enum Source<'a> {
    /// The operator's trust store.
    Trusted(&'a Jwk),
    KeySet {
        /// Its URL as in the header.
        text: String,
        /// The parsed URL.
        url: Url,
    },
}

/// A parsed signature whose key is still missing.
#[derive(Clone, Debug)]
pub struct Prepared<'a> {
    pub header: Header,
    /// The protected header as it was signed.
    pub protected: String,
    pub signature: Vec<u8>,
    pub algorithm: Algorithm,
    pub source: Source<'a>,
}

/// Parses a signature of a card.
pub fn prepare<'a>(signature: &Value, keys: &'a Keys) -> Result<Prepared<'a>, Reason> {
    let protected = signature.get("protected");
    let octets = header::decode(protected)?;
    let signed = header::decode(signature.get("signature"))?;
    let header = Header::parse(&octets)?;
    let algorithm = header.algorithm()?;
    let source = locate(&header, keys)?;
    Ok(Prepared {
        header,
        protected: protected
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        signature: signed,
        algorithm,
        source,
    })
}

fn locate<'a>(header: &Header, keys: &'a Keys) -> Result<Source<'a>, Reason> {
    let trusted = header
        .key_id()
        .and_then(Value::as_str)
        .and_then(|id| keys.trust_store.get(id));
    if let Some(key) = trusted {
        return Ok(Source::Trusted(key));
    }
    let text = header.key_set().ok_or(Reason::NoKeySource)?;
    let text = text.as_str().ok_or(Reason::JkuNotHttps)?;
    let url = web_url::parse_https(text).ok_or(Reason::JkuNotHttps)?;
    if keys.allowed.forbids(&url) {
        return Err(Reason::JkuForbiddenAddress);
    }
    Ok(Source::KeySet {
        text: text.to_owned(),
        url,
    })
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
    fn a_place_is_a_host_with_its_port(#[case] place: &str, #[case] url: &str, #[case] is: bool) {
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
    fn anything_else_is_none(#[case] text: &str) {
        assert_eq!(text.parse::<Endpoint>(), Err(NoEndpoint));
    }
}
