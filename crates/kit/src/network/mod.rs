//! Hosts that are not clearly on the public internet, judged by the URL text alone: the guard
//! against server-side request forgery that works without DNS.
//!
//! The addresses are IANA's special-purpose registries (RFC 6890 and its updates) and
//! 168.63.129.16, the metadata address of a large cloud. An address that embeds another address is
//! judged by the embedded one. The URL Standard's host parser normalizes decimal, octal,
//! hexadecimal and short forms of addresses.

mod endpoint;

use std::net::{Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

pub use endpoint::{Allowed, Endpoint, NoEndpoint};

/// Names of hosts in internal networks (RFC 6761, RFC 6762, RFC 8375, and common practice).
const INNER_NAMES: [&str; 9] = [
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "home.arpa",
];

/// Whether the host of `url` is internal; false for a URL without a host.
pub fn is_internal(url: &Url) -> bool {
    match url.host() {
        None => false,
        Some(Host::Ipv4(address)) => is_internal_v4(address),
        Some(Host::Ipv6(address)) => is_internal_v6(address),
        // For schemes that the URL Standard does not know, an address is still text.
        Some(Host::Domain(name)) => match Host::parse(name) {
            Ok(Host::Ipv4(address)) => is_internal_v4(address),
            Ok(Host::Domain(name)) => is_internal_name(&name),
            _ => is_internal_name(name),
        },
    }
}

fn is_internal_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_lowercase();
    if !name.contains('.') {
        return true;
    }
    INNER_NAMES.iter().any(|inner| {
        name.strip_suffix(inner)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

fn is_internal_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, d] = address.octets();
    matches!(
        (a, b, c, d),
        (0 | 10 | 127 | 224..=255, ..)            // this network, private, loopback, multicast, reserved, broadcast
            | (100, 64..=127, ..)                 // carrier-grade NAT
            | (169, 254, ..)                      // link-local, cloud metadata
            | (172, 16..=31, ..)                  // private
            | (192, 0, 0 | 2, _)                  // protocol assignments, documentation
            | (192, 88, 99, _)                    // 6to4 relays
            | (192, 168, ..)                      // private
            | (198, 18..=19, ..)                  // benchmarking
            | (198, 51, 100, _)                   // documentation
            | (203, 0, 113, _)                    // documentation
            | (168, 63, 129, 16) // cloud metadata
    )
}

fn is_internal_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = carried(address) {
        return is_internal_v4(inner);
    }
    matches!(
        address.segments(),
        [0x0064, 0xff9b, 0x0001, ..]              // local-use NAT64
            | [0x0100, 0, 0, 0, ..]               // discard
            | [0x2001, 0x0000..=0x01ff, ..]       // protocol assignments: Teredo, ORCHID, benchmarking
            | [0x2001, 0x0db8, ..]                // documentation
            | [0x3fff, 0x0000..=0x0fff, ..]       // documentation
            | [0x5f00, ..]                        // segment routing
            | [0xfc00..=0xfdff, ..]               // unique local
            | [0xfe80..=0xfeff, ..]               // link-local, site-local
            | [0xff00..=0xffff, ..] // multicast
    )
}

/// The IPv4 address embedded in a mapped or compatible address, a NAT64 address (RFC 6052) or a
/// 6to4 address (RFC 3056). `::` and `::1` are compatible addresses too; their embedded addresses
/// are internal.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let pair = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => pair(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => pair(high, low),
        [0x2002, high, low, ..] => pair(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn judged(host: &str) -> bool {
        is_internal(&Url::parse(&format!("https://{host}/x")).unwrap())
    }

    #[rstest]
    #[case::single_label("printer")]
    #[case::single_label_dot("printer.")]
    #[case::localhost("LocalHost")]
    #[case::below_localhost("a.b.localhost.")]
    #[case::wide("ｌｏｃａｌｈｏｓｔ")]
    #[case::escaped("%6cocalhost")]
    #[case::localdomain("x.localdomain")]
    #[case::mdns("nas.local")]
    #[case::metadata("metadata.google.internal")]
    #[case::intranet("hr.intranet")]
    #[case::lan("nas.lan")]
    #[case::home("nas.home")]
    #[case::corp("wiki.corp")]
    #[case::home_arpa("home.arpa")]
    #[case::below_home_arpa("tv.home.arpa")]
    #[case::loopback("127.9.9.9")]
    #[case::loopback_dot("127.0.0.1.")]
    #[case::decimal("2130706433")]
    #[case::octal("0177.0.0.1")]
    #[case::hex("0x7f.1")]
    #[case::short("10.1")]
    #[case::this_network("0.0.0.0")]
    #[case::private_10("10.255.255.255")]
    #[case::nat("100.64.0.0")]
    #[case::nat_end("100.127.255.255")]
    #[case::link_local("169.254.169.254")]
    #[case::private_172("172.16.0.1")]
    #[case::private_172_end("172.31.255.255")]
    #[case::assignments("192.0.0.8")]
    #[case::doc_1("192.0.2.1")]
    #[case::relay("192.88.99.1")]
    #[case::private_192("192.168.7.7")]
    #[case::bench("198.19.255.255")]
    #[case::doc_2("198.51.100.1")]
    #[case::doc_3("203.0.113.1")]
    #[case::multicast("224.0.0.1")]
    #[case::reserved("255.255.255.255")]
    #[case::azure("168.63.129.16")]
    #[case::unspecified("[::]")]
    #[case::loopback_6("[::1]")]
    #[case::mapped("[::ffff:10.0.0.1]")]
    #[case::compatible("[::192.168.0.1]")]
    #[case::nat64("[64:ff9b::a9fe:a9fe]")]
    #[case::nat64_local("[64:ff9b:1::808:808]")]
    #[case::six_to_four("[2002:7f00:1::]")]
    #[case::discard("[100::1]")]
    #[case::teredo("[2001::1]")]
    #[case::assignments_6_end("[2001:1ff::1]")]
    #[case::doc_6("[2001:db8::1]")]
    #[case::doc_6_new("[3fff:fff::1]")]
    #[case::segment("[5f00::1]")]
    #[case::unique_local("[fd00:ec2::254]")]
    #[case::link_local_6("[febf::1]")]
    #[case::site_local("[feff::1]")]
    #[case::multicast_6("[ff02::1]")]
    fn internal_hosts_are_recognized_in_every_notation(#[case] host: &str) {
        assert!(judged(host));
    }

    #[rstest]
    #[case("example.com")]
    #[case("localhost.example.com")]
    #[case("mylocalhost.com")]
    #[case("notcorp.example")]
    #[case("xlan.de")]
    #[case("arpa.example")]
    #[case("1.1.1.1")]
    #[case("9.255.255.255")]
    #[case("100.63.255.255")]
    #[case("100.128.0.0")]
    #[case("172.32.0.1")]
    #[case("192.0.1.1")]
    #[case("192.1.2.1")]
    #[case("198.20.0.1")]
    #[case("168.63.129.17")]
    #[case("[::ffff:8.8.8.8]")]
    #[case("[::8.8.8.8]")]
    #[case("[64:ff9b::808:808]")]
    #[case("[2002:808:808::]")]
    #[case("[2001:200::1]")]
    #[case("[2606:4700::1111]")]
    #[case("[3fff:1000::1]")]
    fn public_hosts_are_not_internal(#[case] host: &str) {
        assert!(!judged(host));
    }

    #[rstest]
    #[case("ws://10.0.0.1/", true)]
    #[case("redis://127.0.0.1:6379/", true)]
    #[case("redis://0x7f.1/", true)]
    #[case("redis://cache/", true)]
    #[case("redis://cache.example.com/", false)]
    #[case("urn:example:x", false)]
    fn internal_hosts_are_recognized_with_every_url_scheme(
        #[case] url: &str,
        #[case] internal: bool,
    ) {
        assert_eq!(is_internal(&Url::parse(url).unwrap()), internal);
    }
}
