//! What one use of the client may do.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use url::{Host, Url};

use super::address::Reach;
use crate::ports::{Certificates, Wire};

/// Redirects a request follows. Following one elsewhere would let the far side choose the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    /// None: a redirect is an error.
    None,
    /// At most this many, to the same scheme, host and port.
    SameOrigin(usize),
}

/// Bounds of one use of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which addresses may be reached.
    pub reach: Reach,
    /// Networks that the operator opened, which names may resolve into in addition to what `reach` allows them.
    pub opened: Vec<IpNet>,
    /// Whether a name with even one address that may not be reached is refused; else the others are used.
    pub every_address: bool,
    /// Largest body that is read.
    pub max_response_bytes: u64,
    /// Longest time to a connection.
    pub connect_timeout: Duration,
    /// Longest time from the request to the response's head.
    pub first_byte_timeout: Duration,
    /// Longest time of the whole exchange.
    pub total_timeout: Duration,
    /// Redirects.
    pub redirects: Redirects,
    /// Idle connections kept to one host.
    pub idle_connections: usize,
    /// What is spoken.
    pub wire: Wire,
    /// Whose certificates are put up with.
    pub certificates: Certificates,
}

impl Policy {
    /// Whether the name in a URL may resolve to `address`.
    pub fn allows_resolved(&self, address: IpAddr) -> bool {
        self.reach.of_name().allows(address)
            || self.opened.iter().any(|network| network.contains(&address))
    }

    /// For model endpoints, which the operator configured. A model may think until the very end of its time.
    pub fn model(total_timeout: Duration, concurrency: usize) -> Self {
        Self {
            reach: Reach::Private,
            opened: Vec::new(),
            every_address: false,
            max_response_bytes: 8 << 20,
            connect_timeout: Duration::from_secs(5).min(total_timeout),
            first_byte_timeout: total_timeout,
            total_timeout,
            redirects: Redirects::None,
            idle_connections: concurrency,
            wire: Wire::Http1,
            certificates: Certificates::Verified,
        }
    }

    /// For a registry a person named on the command line: private addresses only if the URL itself says so. A public name
    /// that resolves to a private address stays refused.
    pub fn registry(named: &Url) -> Self {
        Self {
            reach: if names_a_private_place(named) {
                Reach::Private
            } else {
                Reach::Public
            },
            ..Self::public()
        }
    }

    /// For a webhook delivery (OpenWOP webhooks, RFC 0093): every address is judged, each delivery resolves anew because
    /// no connection is kept, and nothing takes longer than `total_timeout`.
    pub fn webhook(reach: Reach, total_timeout: Duration) -> Self {
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
            wire: Wire::Http1,
            certificates: Certificates::Verified,
        }
    }

    /// For a look at whoever an agent card names: every address is judged, each request has a connection of its own, and how
    /// long and how much is up to the request, within these bounds.
    pub fn probe(
        reach: Reach,
        wire: Wire,
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
            wire,
            certificates,
        }
    }

    /// For an address that came with a request or a document.
    pub fn public() -> Self {
        Self {
            reach: Reach::Public,
            opened: Vec::new(),
            every_address: false,
            max_response_bytes: 16 << 20,
            connect_timeout: Duration::from_secs(5),
            first_byte_timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(30),
            redirects: Redirects::None,
            idle_connections: 4,
            wire: Wire::Http1,
            certificates: Certificates::Verified,
        }
    }
}

fn names_a_private_place(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => !Reach::Public.allows(ip.into()),
        Some(Host::Ipv6(ip)) => !Reach::Public.allows(ip.into()),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost")
                || name.to_ascii_lowercase().ends_with(".localhost")
        }
        None => false,
    }
}
