//! The limits for one use of the client.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use url::{Host, Url};

use crate::net::address::AddressScope;

/// Which certificates are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Certificates {
    /// Valid ones: chain, dates, name.
    Verified,
    /// All. No secret is sent that way, and no response is trusted.
    Any,
}

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 from the first byte (prior knowledge).
    Http2,
}

/// The redirects that a request follows. A redirect to another origin would let the server choose
/// the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    /// A redirect is an error.
    None,
    /// At most this number, to the same scheme, host and port.
    SameOrigin(usize),
}

/// The limits for one use of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which addresses may be reached.
    pub reach: AddressScope,
    /// Networks that the operator opened. Names may resolve into them in addition to the addresses
    /// that `reach` allows.
    pub opened: Vec<IpNet>,
    /// Whether a single disallowed address rejects a name; otherwise the allowed addresses are
    /// used.
    pub every_address: bool,
    /// Maximum body size in bytes.
    pub max_response_bytes: u64,
    pub connect_timeout: Duration,
    /// Timeout from the request to the response headers.
    pub first_byte_timeout: Duration,
    /// Timeout for the whole exchange.
    pub total_timeout: Duration,
    pub redirects: Redirects,
    /// Maximum number of idle connections per host.
    pub idle_connections: usize,
    /// The protocol version.
    pub http_version: HttpVersion,
    /// The accepted certificates.
    pub certificates: Certificates,
}

impl Policy {
    /// Whether the name in a URL may resolve to `address`.
    pub fn allows_resolved(&self, address: IpAddr) -> bool {
        self.reach.of_name().allows(address)
            || self.opened.iter().any(|network| network.contains(&address))
    }

    /// For model endpoints, which the operator configured. A model may use its full time before the
    /// first byte.
    pub fn model(total_timeout: Duration, concurrency: usize) -> Self {
        Self {
            reach: AddressScope::Private,
            opened: Vec::new(),
            every_address: false,
            max_response_bytes: 8 << 20,
            connect_timeout: Duration::from_secs(5).min(total_timeout),
            first_byte_timeout: total_timeout,
            total_timeout,
            redirects: Redirects::None,
            idle_connections: concurrency,
            http_version: HttpVersion::Http1,
            certificates: Certificates::Verified,
        }
    }

    /// For a registry that a person named on the command line: private addresses only if the URL
    /// itself contains one. A public name that resolves to a private address is still refused.
    pub fn registry(named: &Url) -> Self {
        Self {
            reach: if names_a_private_place(named) {
                AddressScope::Private
            } else {
                AddressScope::Public
            },
            ..Self::public()
        }
    }

    /// For storage of objects, which the operator configured. A request may be sent for
    /// `first_byte_timeout`, its answer included; the caller limits the answer's body.
    pub fn storage(reach: AddressScope, first_byte_timeout: Duration) -> Self {
        Self {
            reach,
            first_byte_timeout,
            total_timeout: first_byte_timeout,
            ..Self::public()
        }
    }

    /// For a webhook delivery (OpenWOP webhooks, RFC 0093): every address is checked, each delivery
    /// resolves the name again because connections are not reused, and the total time is limited to
    /// `total_timeout`.
    pub fn webhook(reach: AddressScope, total_timeout: Duration) -> Self {
        Self {
            reach,
            opened: Vec::new(),
            every_address: true,
            max_response_bytes: 64 << 10,
            connect_timeout: total_timeout,
            first_byte_timeout: total_timeout,
            total_timeout,
            redirects: Redirects::None,
            idle_connections: 0,
            http_version: HttpVersion::Http1,
            certificates: Certificates::Verified,
        }
    }

    /// For probing the agent that a card names: every address is checked, each request uses a new
    /// connection, and the request sets size and time limits within these bounds.
    pub fn probe(
        reach: AddressScope,
        http_version: HttpVersion,
        certificates: Certificates,
        connect_timeout: Duration,
    ) -> Self {
        Self {
            reach,
            opened: Vec::new(),
            every_address: true,
            max_response_bytes: 2 << 20,
            connect_timeout,
            first_byte_timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(10),
            redirects: Redirects::None,
            idle_connections: 0,
            http_version,
            certificates,
        }
    }

    /// For an address from a request or a document.
    pub fn public() -> Self {
        Self {
            reach: AddressScope::Public,
            opened: Vec::new(),
            every_address: false,
            max_response_bytes: 16 << 20,
            connect_timeout: Duration::from_secs(5),
            first_byte_timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(30),
            redirects: Redirects::None,
            idle_connections: 4,
            http_version: HttpVersion::Http1,
            certificates: Certificates::Verified,
        }
    }
}

fn names_a_private_place(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => !AddressScope::Public.allows(ip.into()),
        Some(Host::Ipv6(ip)) => !AddressScope::Public.allows(ip.into()),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost")
                || name.to_ascii_lowercase().ends_with(".localhost")
        }
        None => false,
    }
}
