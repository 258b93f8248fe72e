//! Limits of the HTTP server: requests per key and tenant, refused credentials per address,
//! requests in progress, bodies in memory, and the size of a request's head.
//!
//! A request over a limit gets a response that says when to retry (OpenWOP v1 `rate_limited`, 503
//! on overload), and other callers are served meanwhile. Rates use the generic cell rate algorithm
//! and are kept in this process, so each replica counts for itself. The state is bounded and
//! dropped once it no longer matters.

pub mod allowance;
pub mod shares;
pub mod subscribers;

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::Version;
use axum::http::header::HOST;
use axum::middleware::Next;
use axum::response::Response;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::answer::Failure;
use crate::http::limits::allowance::{Allowance, FORGET_EVERY, limited};
use crate::http::limits::shares::{Full, Share, Shares};
use crate::http::peer::Peer;
use crate::service::access::Caller;
use crate::service::fault::internal;
use crate::telemetry::names;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{KeyId, TenantId};

/// A key or a tenant may save up this many seconds' worth of requests.
const BURST_S: u32 = 10;
/// Addresses that are tracked separately; all further addresses share one allowance.
const MAX_PEERS: usize = 10_000;
const MAX_URI_BYTES: usize = 8 * 1024;
const MAX_HEADER_BYTES: usize = 32 * 1024;
const MAX_HEADERS: usize = 128;
/// Packs that are unpacked and verified at the same time.
const PACKS_AT_ONCE: usize = 1;
/// Bodies up to this size, in bytes, are not counted.
const SMALL_BODY: usize = 64 * 1024;
/// Bytes of memory per permit.
const MEMORY_STEP: usize = 1024;
/// Parsed bodies up to this many bytes are not counted: a caller that fills the memory must not
/// keep others from cancelling a run.
const SMALL_WEIGHT: usize = 8 * 1024;
/// Bodies of the largest size that may be in memory at once; once parsed, each takes many times its
/// size.
const LARGEST_BODIES: usize = 4;

/// Sign-in forms that are being read, in all. Anyone may send one, and it may arrive slowly, so they
/// have places of their own; one address has at most half of them.
const SIGN_INS: usize = 256;
/// When to retry if such a place is missing.
const SHORTLY: Duration = Duration::from_secs(1);

/// Rates and limits; 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Requests of one key, per second.
    pub per_key: u32,
    /// Requests of all keys of one tenant, per second.
    pub per_tenant: u32,
    /// Refused credentials of one address, per minute.
    pub refusals_per_minute: u32,
    /// Requests in progress, without event streams and long polls; one tenant may have half of
    /// them.
    pub in_flight: usize,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            per_key: 2000,
            per_tenant: 5000,
            refusals_per_minute: 600,
            in_flight: 2048,
        }
    }
}

/// The state of all limits.
pub struct Limits {
    keys: Option<Allowance<KeyId>>,
    tenants: Option<Allowance<TenantId>>,
    peers: Option<Peers>,
    /// Sign-ins at an OpenID provider that each address begins.
    starts: Option<Peers>,
    in_flight: Option<Arc<Semaphore>>,
    in_flight_of: Option<Arc<Shares<TenantId>>>,
    sign_ins: Arc<Shares<Option<IpAddr>>>,
    bodies: Arc<Shares<TenantId>>,
    max_body: usize,
    packs: Arc<Semaphore>,
    /// Memory for parsed bodies, in steps of a kilobyte.
    memory: Arc<Semaphore>,
    max_memory: usize,
}

/// The permits a request holds while it is in progress.
pub struct RequestPermits {
    _place: Option<Share<TenantId>>,
    _room: Option<Share<TenantId>>,
}

impl Limits {
    /// Full allowances, for bodies of at most `max_body` bytes that together take at most
    /// `max_memory` bytes once parsed.
    pub fn new(rates: Rates, max_body: usize, max_memory: usize) -> Self {
        let in_flight = (rates.in_flight > 0).then_some(rates.in_flight);
        Self {
            bodies: Shares::halved(max_body.saturating_mul(LARGEST_BODIES)),
            max_body,
            packs: Arc::new(Semaphore::new(PACKS_AT_ONCE)),
            memory: Arc::new(Semaphore::new(max_memory.div_ceil(MEMORY_STEP))),
            max_memory,
            in_flight_of: in_flight.map(Shares::halved),
            sign_ins: Shares::halved(SIGN_INS),
            keys: per_second("key", rates.per_key),
            tenants: per_second("tenant", rates.per_tenant),
            peers: NonZeroU32::new(rates.refusals_per_minute).map(Peers::new),
            starts: NonZeroU32::new(rates.refusals_per_minute).map(Peers::new),
            in_flight: in_flight.map(|most| Arc::new(Semaphore::new(most))),
        }
    }

    /// Takes a place among the requests in progress; dropping the permit gives it back.
    ///
    /// # Errors
    /// `unavailable` at the limit: waiting for a place would only make every request wait longer.
    pub fn enter(&self) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        let Some(places) = &self.in_flight else {
            return Ok(None);
        };
        places.clone().try_acquire_owned().map(Some).map_err(|_| {
            metrics::counter!(names::SHED).increment(1);
            Problem::new(
                ErrorCode::Unavailable,
                "the host is at its limit of requests in progress; try again",
            )
            .with("retryAfter", 1)
        })
    }

    /// Takes one of the places for reading the form of a sign-in.
    ///
    /// # Errors
    /// `unavailable` if all are taken, `rate_limited` for an address at its share.
    pub fn enter_sign_in(&self, peer: Option<IpAddr>) -> Result<Share<Option<IpAddr>>, Problem> {
        self.sign_ins
            .take(&peer.map(network), 1)
            .map_err(|full| match full {
                Full::ForAll(_) => {
                    metrics::counter!(names::SHED).increment(1);
                    Problem::new(
                        ErrorCode::Unavailable,
                        "the host is at its limit of sign-ins in progress; try again",
                    )
                    .with("retryAfter", 1)
                }
                Full::ForOne(limit) => {
                    limited("route", u32::try_from(limit).unwrap_or(u32::MAX), SHORTLY)
                }
            })
    }

    /// Counts a request of a caller.
    ///
    /// # Errors
    /// `rate_limited`.
    pub fn admit(&self, caller: &Caller) -> Result<(), Problem> {
        if let Some(keys) = &self.keys {
            keys.take(&caller.key_id)?;
        }
        self.admit_tenant(&caller.tenant)
    }

    /// Counts a request for a tenant that came without an API key.
    ///
    /// # Errors
    /// `rate_limited`.
    pub fn admit_tenant(&self, tenant: &TenantId) -> Result<(), Problem> {
        match &self.tenants {
            Some(tenants) => tenants.take(tenant),
            None => Ok(()),
        }
    }

    /// Takes one of the tenant's places among the requests in progress, unless the request `waits`
    /// under another limit, and room for the request's body.
    ///
    /// # Errors
    /// `rate_limited` for a tenant at its share, `unavailable` when the host has no room.
    pub fn hold(
        &self,
        tenant: &TenantId,
        body: &Body,
        waits: bool,
    ) -> Result<RequestPermits, Problem> {
        let places = self.in_flight_of.as_ref().filter(|_| !waits);
        let place = places.map(|places| places.take(tenant, 1)).transpose();
        let bytes = self.octets(body);
        let room = (bytes > SMALL_BODY)
            .then(|| self.bodies.take(tenant, bytes))
            .transpose();
        match (place, room) {
            (Ok(place), Ok(room)) => Ok(RequestPermits {
                _place: place,
                _room: room,
            }),
            (Err(full), _) | (_, Err(full)) => Err(crowded(full)),
        }
    }

    /// Bytes of the body that may be in memory. A body that announces more than the limit is
    /// refused and not kept.
    fn octets(&self, body: &Body) -> usize {
        if body.is_end_stream() {
            return 0;
        }
        let said = body.size_hint().upper();
        match said.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)) {
            Some(bytes) if bytes > self.max_body => 0,
            Some(bytes) => bytes,
            None => self.max_body,
        }
    }

    /// Waits until no other pack is being verified. An unpacked and parsed pack takes up to a
    /// thousand times the memory of its upload.
    ///
    /// # Errors
    /// None in practice: the semaphore is never closed.
    pub async fn pack_turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let turn = self.packs.clone().acquire_owned().await;
        turn.map_err(|cause| internal(&cause))
    }

    /// Reserves memory for a parsed body of this weight.
    ///
    /// # Errors
    /// `payload_too_large` if the body alone exceeds the limit, `rate_limited` if there is no room
    /// at the moment.
    pub fn weigh(&self, weight: usize) -> Result<OwnedSemaphorePermit, Problem> {
        if weight > self.max_memory {
            return Err(Problem::new(
                ErrorCode::PayloadTooLarge,
                "the body has too many JSON values; send fewer values per request",
            ));
        }
        let counted = if weight > SMALL_WEIGHT { weight } else { 0 };
        let steps = u32::try_from(counted.div_ceil(MEMORY_STEP)).unwrap_or(u32::MAX);
        self.memory
            .clone()
            .try_acquire_many_owned(steps)
            .map_err(|_| {
                metrics::counter!(names::SHED).increment(1);
                Problem::new(
                    ErrorCode::RateLimited,
                    "not enough memory for another large document; retry after the \
                     time in `Retry-After`",
                )
                .with("scope", "route")
                .with("retryAfterMs", 1000)
            })
    }

    /// Counts a sign-in at an OpenID provider that an address begins. Refused credentials of the same
    /// address do not count: other people may share it.
    ///
    /// # Errors
    /// `rate_limited`.
    pub fn begin_sign_in(&self, peer: Option<IpAddr>) -> Result<(), Problem> {
        match (&self.starts, peer) {
            (Some(starts), Some(peer)) => starts.take(peer),
            _ => Ok(()),
        }
    }

    /// Counts a refused credential and returns the refusal, or `rate_limited` for an address with
    /// too many of them. Valid credentials from the same address are not affected: other users may
    /// share it.
    pub fn refuse(&self, peer: Option<IpAddr>, refusal: Problem) -> Problem {
        match (&self.peers, peer) {
            (Some(peers), Some(peer)) => peers.take(peer).err().unwrap_or(refusal),
            _ => refusal,
        }
    }
}

/// `rate` requests per second, with a burst of [`BURST_S`] seconds.
fn per_second<K: Clone + Eq + Hash>(scope: &'static str, rate: u32) -> Option<Allowance<K>> {
    let per_second = NonZeroU32::new(rate)?;
    let burst = per_second.saturating_mul(NonZeroU32::new(BURST_S)?);
    let quota = Quota::per_second(per_second).allow_burst(burst);
    Some(Allowance::new(scope, rate, quota))
}

/// Refused credentials of each address.
struct Peers {
    per_minute: u32,
    known: DefaultKeyedRateLimiter<IpAddr>,
    taken: AtomicU64,
    strangers: DefaultDirectRateLimiter,
}

impl Peers {
    fn new(per_minute: NonZeroU32) -> Self {
        let quota = Quota::per_minute(per_minute);
        Self {
            per_minute: per_minute.get(),
            known: RateLimiter::keyed(quota),
            taken: AtomicU64::new(0),
            strangers: RateLimiter::direct(quota),
        }
    }

    fn take(&self, peer: IpAddr) -> Result<(), Problem> {
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
pub(super) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address @ IpAddr::V4(_) => address,
    }
}

fn crowded(full: Full) -> Problem {
    match full {
        Full::ForAll(_) => {
            metrics::counter!(names::SHED).increment(1);
            Problem::new(
                ErrorCode::Unavailable,
                "the host is at its limit of large requests in progress; try again",
            )
            .with("retryAfter", 1)
        }
        Full::ForOne(limit) => {
            metrics::counter!(names::RATE_LIMITED, "scope" => "tenant").increment(1);
            Problem::new(
                ErrorCode::RateLimited,
                "this tenant has too many or too large requests in progress; retry after the time \
                 in `Retry-After`",
            )
            .with("scope", "tenant")
            .with("limit", limit)
            .with("retryAfterMs", 1000)
        }
    }
}

/// Refuses requests whose head is too large with an error envelope; the HTTP library would only
/// close the connection. Also refuses requests with a missing or repeated `Host` (RFC 9112 §3.2)
/// that come over a connection.
pub async fn head(request: Request, next: Next) -> Result<Response, Failure> {
    let uri = request.uri();
    let over_a_connection = request.extensions().get::<Peer>().is_some();
    let hosts = request.headers().get_all(HOST).iter().count();
    if over_a_connection && (hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11)) {
        return Err(Problem::validation("Host", "`Host` must be sent once").into());
    }
    if uri.path().len() + uri.query().map_or(0, str::len) > MAX_URI_BYTES {
        return Err(Problem::new(
            ErrorCode::UriTooLong,
            format!("the URL is longer than {MAX_URI_BYTES} bytes"),
        )
        .into());
    }
    let headers = request.headers();
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if bytes > MAX_HEADER_BYTES || headers.len() > MAX_HEADERS {
        return Err(Problem::new(
            ErrorCode::HeaderFieldsTooLarge,
            format!("the headers exceed {MAX_HEADER_BYTES} bytes or {MAX_HEADERS} fields"),
        )
        .into());
    }
    Ok(next.run(request).await)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::access::Grants;

    fn caller(tenant: &str, key: &str) -> Caller {
        Caller {
            tenant: tenant.into(),
            principal: key.to_owned(),
            key_id: key.into(),
            grants: Grants::default(),
            test: false,
        }
    }

    /// The number of admitted requests among `n`, and the scope that refused the last one.
    fn admitted(limits: &Limits, caller: &Caller, n: usize) -> (usize, Option<String>) {
        let mut refused = None;
        let admitted = (0..n)
            .filter(|_| match limits.admit(caller) {
                Ok(()) => true,
                Err(problem) => {
                    assert_eq!(problem.code, ErrorCode::RateLimited);
                    assert!(problem.details["retryAfterMs"].as_u64().unwrap() > 0);
                    refused = problem.details["scope"].as_str().map(str::to_owned);
                    false
                }
            })
            .count();
        (admitted, refused)
    }

    #[tokio::test]
    async fn packs_are_checked_one_at_a_time() {
        let limits = Limits::new(Rates::default(), 1000, 1000);
        let turn = limits.pack_turn().await.unwrap();
        assert!(limits.pack_turn().now_or_never().is_none());
        drop(turn);
        assert!(limits.pack_turn().now_or_never().is_some());
    }

    #[test]
    fn the_rate_limit_of_one_key_does_not_affect_other_keys() {
        let limits = Limits::new(
            Rates {
                per_key: 1,
                per_tenant: 0,
                ..Rates::default()
            },
            1000,
            1000,
        );
        assert_eq!(
            admitted(&limits, &caller("t", "a"), 30),
            (10, Some("key".to_owned()))
        );
        assert_eq!(admitted(&limits, &caller("t", "b"), 10), (10, None));
    }

    #[test]
    fn the_rate_limit_of_a_tenant_is_shared_by_its_keys() {
        let limits = Limits::new(
            Rates {
                per_key: 0,
                per_tenant: 1,
                ..Rates::default()
            },
            1000,
            1000,
        );
        assert_eq!(admitted(&limits, &caller("t", "a"), 6), (6, None));
        assert_eq!(
            admitted(&limits, &caller("t", "b"), 6),
            (4, Some("tenant".to_owned()))
        );
        assert_eq!(admitted(&limits, &caller("u", "c"), 10), (10, None));
    }

    #[test]
    fn refusals_are_counted_per_network_in_bounded_memory() {
        let limits = Limits::new(
            Rates {
                refusals_per_minute: 2,
                ..Rates::default()
            },
            1000,
            1000,
        );
        let refusal = || Problem::new(ErrorCode::Unauthenticated, "no");
        let code = |peer: &str| limits.refuse(peer.parse().ok(), refusal()).code;
        for peer in ["192.0.2.1", "::ffff:192.0.2.1"] {
            assert_eq!(code(peer), ErrorCode::Unauthenticated);
        }
        assert_eq!(code("192.0.2.1"), ErrorCode::RateLimited);
        assert_eq!(code("192.0.2.2"), ErrorCode::Unauthenticated);
        for peer in ["2001:db8::1", "2001:db8::2"] {
            assert_eq!(code(peer), ErrorCode::Unauthenticated);
        }
        assert_eq!(code("2001:db8:0:0:9::9"), ErrorCode::RateLimited);
        assert_eq!(code("2001:db8:0:1::1"), ErrorCode::Unauthenticated);
        assert_eq!(
            limits.refuse(None, refusal()).code,
            ErrorCode::Unauthenticated
        );
        for n in 0..30_000_u32 {
            limits.refuse(Some(IpAddr::from(n.to_be_bytes())), refusal());
        }
        let peers = limits.peers.as_ref().unwrap();
        assert!(peers.known.len() <= MAX_PEERS);
        assert_eq!(
            code("198.51.100.1"),
            ErrorCode::RateLimited,
            "the limit for unknown peers is reached"
        );
    }

    #[test]
    fn refused_credentials_do_not_keep_others_of_their_address_from_single_sign_on() {
        let limits = Limits::new(
            Rates {
                refusals_per_minute: 2,
                ..Rates::default()
            },
            1000,
            1000,
        );
        let peer = "192.0.2.1".parse().ok();
        let refusal = || Problem::new(ErrorCode::Unauthenticated, "no");
        let last = (0..3).map(|_| limits.refuse(peer, refusal())).last();
        assert_eq!(last.unwrap().code, ErrorCode::RateLimited);
        assert!(limits.begin_sign_in(peer).is_ok());
        assert!(limits.begin_sign_in(peer).is_ok());
        let refused = limits.begin_sign_in(peer).unwrap_err();
        assert_eq!(refused.code, ErrorCode::RateLimited);
        assert!(limits.begin_sign_in("192.0.2.2".parse().ok()).is_ok());
    }

    #[test]
    fn requests_beyond_the_concurrency_limit_are_rejected_until_one_ends() {
        let limits = Limits::new(
            Rates {
                in_flight: 2,
                ..Rates::default()
            },
            1000,
            1000,
        );
        let held = (limits.enter().unwrap(), limits.enter().unwrap());
        assert_eq!(limits.enter().unwrap_err().code, ErrorCode::Unavailable);
        drop(held);
        assert!(limits.enter().is_ok());
        let none = Limits::new(
            Rates {
                in_flight: 0,
                ..Rates::default()
            },
            1000,
            1000,
        );
        assert!(none.enter().unwrap().is_none());
    }

    #[test]
    fn sign_in_forms_have_places_of_their_own() {
        let limits = Limits::new(Rates::default(), 1000, 1000);
        let enter = |peer: &str| limits.enter_sign_in(peer.parse().ok());
        let code = |peer: &str| enter(peer).err().map(|problem| problem.code);
        let half = SIGN_INS / 2;
        let first: Vec<_> = (0..half).map(|_| enter("192.0.2.1").unwrap()).collect();
        assert_eq!(code("192.0.2.1"), Some(ErrorCode::RateLimited));
        let second: Vec<_> = (0..half).map(|_| enter("192.0.2.2").unwrap()).collect();
        assert_eq!(code("192.0.2.3"), Some(ErrorCode::Unavailable));
        assert!(limits.enter().is_ok(), "other requests are not affected");
        drop((first, second));
        assert_eq!(code("192.0.2.1"), None);
    }

    #[test]
    fn bodies_in_memory_are_bounded_for_each_and_for_all() {
        let limits = Limits::new(Rates::default(), 1_000_000, 1000);
        let body = |bytes: usize| Body::from(vec![0; bytes]);
        let hold = |tenant: &str, bytes| limits.hold(&tenant.into(), &body(bytes), false);
        let code = |held: Result<RequestPermits, Problem>| held.err().map(|problem| problem.code);
        let small: Vec<_> = (0..100).map(|_| hold("a", SMALL_BODY).unwrap()).collect();
        let held: Vec<_> = (0..2).map(|_| hold("a", 1_000_000).unwrap()).collect();
        assert_eq!(code(hold("a", 100_000)), Some(ErrorCode::RateLimited));
        assert!(hold("a", 10).is_ok() && hold("a", 0).is_ok());
        assert!(
            hold("a", 1_000_001).is_ok(),
            "refused elsewhere, and not kept"
        );
        let others: Vec<_> = (0..2).map(|_| hold("b", 1_000_000).unwrap()).collect();
        assert_eq!(code(hold("c", 100_000)), Some(ErrorCode::Unavailable));
        drop((held, small));
        let stream = Body::from_stream(futures_util::stream::pending::<
            Result<Vec<u8>, std::io::Error>,
        >());
        let unsaid: Vec<_> = (0..2)
            .map(|_| limits.hold(&"c".into(), &stream, false).unwrap())
            .collect();
        assert_eq!(
            code(hold("d", 100_000)),
            Some(ErrorCode::Unavailable),
            "as large as may be"
        );
        drop((others, unsaid));
        assert_eq!(limits.bodies.taken(), 0);
    }

    #[test]
    fn parsed_bodies_share_their_memory() {
        let limits = Limits::new(Rates::default(), 1_000_000, 100_000);
        let code = |weight| limits.weigh(weight).map_err(|problem| problem.code);
        assert_eq!(code(100_001).unwrap_err(), ErrorCode::PayloadTooLarge);
        let held = limits.weigh(60_000).unwrap();
        assert_eq!(code(60_000).unwrap_err(), ErrorCode::RateLimited);
        assert!(code(30_000).is_ok());
        drop(held);
        let held = limits.weigh(100_000).unwrap();
        assert_eq!(code(SMALL_WEIGHT + 1).unwrap_err(), ErrorCode::RateLimited);
        assert!(code(SMALL_WEIGHT).is_ok(), "small bodies always fit");
        drop(held);
        assert!(code(100_000).is_ok());
    }

    #[test]
    fn a_tenant_may_use_half_of_the_concurrency_limit() {
        let rates = Rates {
            in_flight: 4,
            ..Rates::default()
        };
        let limits = Limits::new(rates, 1000, 1000);
        let hold = |tenant: &str, waits| limits.hold(&tenant.into(), &Body::empty(), waits);
        let held = (hold("a", false).unwrap(), hold("a", false).unwrap());
        let refused = hold("a", false).err().unwrap();
        assert_eq!(refused.code, ErrorCode::RateLimited);
        assert_eq!(refused.details["limit"], 2);
        assert!(hold("a", true).is_ok() && hold("b", false).is_ok());
        drop(held);
        assert!(hold("a", false).is_ok());
    }
}
