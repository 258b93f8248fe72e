//! The addresses that a request may reach.
//!
//! The registries are IANA's special-purpose address lists (RFC 6890 and its updates). Every
//! address that is not clearly public is refused. An address that embeds another one (IPv4-mapped,
//! NAT64) is judged by the embedded address: otherwise `::ffff:127.0.0.1` would bypass the check.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far a request may reach, depending on who chose its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressScope {
    /// A document or a request chose the destination: only public addresses.
    Public,
    /// The operator named the destination: loopback and private networks too. An IP address in the
    /// URL is always reachable; a host name is limited to [`AddressScope::Opened`], because others
    /// control what it resolves to.
    Private,
    /// The operator opened private destinations for the cards of unknown agents: private addresses
    /// too, but not cloud metadata services.
    Opened,
}

impl AddressScope {
    /// The limit for the addresses that a host name in the URL resolves to.
    pub const fn of_name(self) -> Self {
        match self {
            Self::Private => Self::Opened,
            Self::Public | Self::Opened => self,
        }
    }

    /// Whether the client may connect to `address`.
    pub fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Public => is_public(address),
            Self::Private => !is_group(address),
            Self::Opened => !is_group(address) && !is_link_local_or_metadata(address),
        }
    }
}

/// Multicast and similar addresses that do not belong to a single host. `0.0.0.0` is not included,
/// because many local servers print it as their address.
fn is_group(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast(),
    }
}

/// The addresses of cloud metadata services. They are never reachable through a host name.
fn is_link_local_or_metadata(address: IpAddr) -> bool {
    // Azure, Alibaba, Oracle; other metadata addresses are link-local.
    const METADATA: [Ipv4Addr; 3] = [
        Ipv4Addr::new(168, 63, 129, 16),
        Ipv4Addr::new(100, 100, 100, 200),
        Ipv4Addr::new(192, 0, 0, 192),
    ];
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || METADATA.contains(&v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped().or_else(|| nat64(v6)) {
            Some(inner) => is_link_local_or_metadata(inner.into()),
            None => {
                let [a, b, .., last] = v6.segments();
                (0xfe80..=0xfebf).contains(&a)
                    || matches!(
                        (a, b, last),
                        (0xfd00, 0x0ec2, 0x0254) | (0xfd20, 0x00ce, 0x0254)
                    )
            }
        },
    }
}

/// Whether an address is an ordinary address on the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, d] = address.octets();
    if [a, b, c, d] == [168, 63, 129, 16] {
        return false; // a large cloud's metadata and health probes, on an address that looks public
    }
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, _, _)          // this network, private, loopback, multicast, reserved, broadcast
            | (100, 64..=127, _)                  // carrier-grade NAT
            | (169, 254, _)                       // link-local, cloud metadata
            | (172, 16..=31, _)                   // private
            | (192, 0, 0 | 2)                     // protocol assignments, documentation
            | (192, 88, 99)                       // 6to4 relay
            | (192, 168, _)                       // private
            | (198, 18..=19, _)                   // benchmarking
            | (198, 51, 100)                      // documentation
            | (203, 0, 113) // documentation
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped().or_else(|| nat64(address)) {
        return is_public_v4(inner);
    }
    let [a, b, ..] = address.segments();
    // Only 2000::/3 is allocated; loopback, unique local, link-local, site-local and multicast
    // addresses are outside it.
    (0x2000..=0x3fff).contains(&a)
        && !matches!(
            (a, b),
            (0x2001, 0x0000..=0x01ff)             // protocol assignments: Teredo, ORCHID, benchmarking
                | (0x2001, 0x0db8)                // documentation
                | (0x2002, _)                     // 6to4
                | (0x3fff, 0x0000..=0x0fff) // documentation
        )
}

/// The address inside the well-known NAT64 prefix `64:ff9b::/96`.
fn nat64(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use touchstone_kit::network::is_internal;

    /// Whether the text of a URL with this address is internal.
    fn is_internal_address(address: IpAddr) -> bool {
        let url = match address {
            IpAddr::V4(v4) => format!("https://{v4}/"),
            IpAddr::V6(v6) => format!("https://[{v6}]/"),
        };
        is_internal(&url.parse().unwrap())
    }

    #[rstest]
    #[case("168.63.129.16")]
    #[case("::ffff:168.63.129.16")]
    #[case("64:ff9b::a83f:8110")]
    #[case("64:ff9b:1::808:808")]
    #[case("::10.0.0.1")]
    #[case("2002:a00:1::")]
    #[case("2001:1ff::1")]
    #[case("3fff:fff::1")]
    #[case("5f00::1")]
    #[case("100::1")]
    #[case("fec0::1")]
    fn internal_addresses_are_not_public(#[case] address: IpAddr) {
        assert!(is_internal_address(address) && !is_public(address));
    }

    #[rstest]
    #[case("127.0.0.1", true)]
    #[case("10.1.2.3", true)]
    #[case("fd12::1", true)]
    #[case("169.254.169.254", false)]
    #[case("168.63.129.16", false)]
    #[case("::ffff:169.254.169.254", false)]
    #[case("100.100.100.200", false)]
    #[case("192.0.0.192", false)]
    #[case("fd20:ce::254", false)]
    #[case("fe80::1", false)]
    #[case("fd00:ec2::254", false)]
    #[case("224.0.0.1", false)]
    fn opened_networks_exclude_cloud_metadata_addresses(#[case] address: IpAddr, #[case] is: bool) {
        assert_eq!(AddressScope::Opened.allows(address), is);
    }

    proptest! {
        /// Cards are checked by their text before a name is resolved: a resolver must not allow
        /// what the text forbids.
        #[test]
        fn no_internal_address_is_public(v4: [u8; 4], v6: [u8; 16]) {
            for address in [IpAddr::from(v4), IpAddr::from(v6)] {
                prop_assert!(!(is_internal_address(address) && is_public(address)));
            }
        }
    }
}
