//! Destinations in private networks that the operator opens for webhooks, one by one.
//!
//! `ADDRESS[/PREFIX][:PORT[-PORT]]` or `NAME[:PORT[-PORT]]`: `10.1.0.0/16`, `[fd00::7]:8443`,
//! `127.0.0.1:1024-65535`, `hooks.internal:8080`. A name is compared literally. It may resolve to
//! any private address except link-local addresses and those of cloud metadata services. Those are
//! reachable only if the operator opens their network without a port restriction.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ipnet::IpNet;
use url::{Host, Url};

/// A destination in a private network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateTarget {
    place: TargetHost,
    ports: RangeInclusive<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TargetHost {
    Network(IpNet),
    Name(String),
}

/// The text does not have the required form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be an address, a network or a name, optionally with a port or a range of ports: 10.1.0.0/16, \
     127.0.0.1:1024-65535, [fd00::7]:8443, hooks.internal:8080"
)]
pub struct Malformed;

impl PrivateTarget {
    /// The network, if the target is a network without a port restriction.
    pub fn whole_network(&self) -> Option<IpNet> {
        match &self.place {
            TargetHost::Network(network) if self.ports == (1..=u16::MAX) => Some(*network),
            TargetHost::Network(_) | TargetHost::Name(_) => None,
        }
    }

    /// Whether the target includes `url`.
    pub fn covers(&self, url: &Url) -> bool {
        let port = url
            .port_or_known_default()
            .is_some_and(|port| self.ports.contains(&port));
        let place = match (&self.place, url.host()) {
            (TargetHost::Network(network), Some(Host::Ipv4(ip))) => {
                network.contains(&IpAddr::V4(ip))
            }
            (TargetHost::Network(network), Some(Host::Ipv6(ip))) => {
                network.contains(&IpAddr::V6(ip))
            }
            (TargetHost::Name(known), Some(Host::Domain(name))) => known.eq_ignore_ascii_case(name),
            _ => false,
        };
        place && port
    }
}

impl FromStr for PrivateTarget {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let (place, ports) = split(text)?;
        let place = match network(place) {
            Some(network) => TargetHost::Network(network),
            None if is_name(place) => TargetHost::Name(place.to_owned()),
            None => return Err(Malformed),
        };
        Ok(Self {
            place,
            ports: match ports {
                None => 1..=u16::MAX,
                Some(ports) => range(ports)?,
            },
        })
    }
}

/// Splits a target into place and ports. Colons inside brackets, or more than one outside, belong
/// to an IPv6 address.
fn split(text: &str) -> Result<(&str, Option<&str>), Malformed> {
    if let Some(rest) = text.strip_prefix('[') {
        let (place, rest) = rest.split_once(']').ok_or(Malformed)?;
        return match rest.strip_prefix(':') {
            Some(ports) => Ok((place, Some(ports))),
            None if rest.is_empty() => Ok((place, None)),
            None => Err(Malformed),
        };
    }
    match text.split_once(':') {
        Some((place, ports)) if !ports.contains(':') => Ok((place, Some(ports))),
        _ => Ok((text, None)),
    }
}

fn network(text: &str) -> Option<IpNet> {
    let single = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse::<IpNet>().ok().or_else(single)
}

fn is_name(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
}

fn range(text: &str) -> Result<RangeInclusive<u16>, Malformed> {
    let port = |text: &str| text.parse::<u16>().map_err(|_| Malformed);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    if first == 0 || first > last {
        return Err(Malformed);
    }
    Ok(first..=last)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("127.0.0.1", "http://127.0.0.1/", true)]
    #[case("127.0.0.1", "http://127.0.0.2/", false)]
    #[case("127.0.0.1:1024-65535", "http://127.0.0.1:40000/x", true)]
    #[case("127.0.0.1:1024-65535", "https://2130706433/x", false)]
    #[case("127.0.0.1:8080", "http://127.0.0.1:8081/", false)]
    #[case("10.1.0.0/16", "https://10.1.255.3/", true)]
    #[case("10.1.0.0/16", "https://10.2.0.1/", false)]
    #[case("[fd00::7]:8443", "https://[fd00::7]:8443/", true)]
    #[case("[fd00::7]:8443", "https://[fd00::7]/", false)]
    #[case("fd00::/8", "https://[fd12::1]/", true)]
    #[case("hooks.internal:8080", "http://hooks.internal:8080/", true)]
    #[case("hooks.internal", "http://HOOKS.internal/", true)]
    #[case("hooks.internal", "http://other.internal/", false)]
    #[case("10.1.0.0/16", "http://ten.example/", false)]
    fn a_private_target_covers_only_its_hosts_and_ports(
        #[case] target: &str,
        #[case] url: &str,
        #[case] covers: bool,
    ) {
        let target: PrivateTarget = target.parse().unwrap();
        assert_eq!(target.covers(&url.parse().unwrap()), covers);
    }

    #[rstest]
    #[case("")]
    #[case("10.0.0.0/33")]
    #[case("127.0.0.1:")]
    #[case("127.0.0.1:0")]
    #[case("127.0.0.1:9-8")]
    #[case("127.0.0.1:70000")]
    #[case("[fd00::7")]
    #[case("[fd00::7]8443")]
    #[case("http://127.0.0.1")]
    #[case("*.internal")]
    fn malformed_private_targets_are_rejected(#[case] text: &str) {
        assert_eq!(text.parse::<PrivateTarget>(), Err(Malformed));
    }
}
