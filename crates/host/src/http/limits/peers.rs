//! How often an address may do what needs no credential.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::http::limits::allowance::{FORGET_EVERY, limited};
use touchstone_kit::error::Problem;

/// Addresses that are tracked separately; all further addresses share one allowance.
pub(super) const MAX_PEERS: usize = 10_000;

/// The allowance of each address, per minute.
pub(super) struct Peers {
    per_minute: u32,
    pub(super) known: DefaultKeyedRateLimiter<IpAddr>,
    taken: AtomicU64,
    strangers: DefaultDirectRateLimiter,
}

impl Peers {
    pub(super) fn new(per_minute: NonZeroU32) -> Self {
        let quota = Quota::per_minute(per_minute);
        Self {
            per_minute: per_minute.get(),
            known: RateLimiter::keyed(quota),
            taken: AtomicU64::new(0),
            strangers: RateLimiter::direct(quota),
        }
    }

    /// Counts one more.
    ///
    /// # Errors
    /// `rate_limited`.
    pub(super) fn take(&self, peer: IpAddr) -> Result<(), Problem> {
        // Not at every refusal: scanning the whole table each time would help a flood of addresses.
        if self.taken.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            self.known.retain_recent();
        }
        let taken = if self.known.len() < MAX_PEERS {
            self.known.check_key(&network(peer))
        } else {
            self.strangers.check()
        };
        taken.map_err(|until| {
            let wait = until.wait_time_from(DefaultClock::default().now());
            limited("route", self.per_minute, wait)
        })
    }
}

/// The key an address is counted under: for IPv6 its /64, because one user has a whole network.
pub(in crate::http) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address @ IpAddr::V4(_) => address,
    }
}
