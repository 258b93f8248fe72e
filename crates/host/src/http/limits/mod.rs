//! Limits of the HTTP server: requests per key and tenant, refused credentials per address,
//! requests in progress, bodies in memory, and the size of a request's head.
//!
//! A request over a limit gets a response that says when to retry (OpenWOP v1 `rate_limited`, 503
//! on overload), and other callers are served meanwhile. Rates use the generic cell rate algorithm
//! and are kept in this process, so each replica counts for itself. The state is bounded and
//! dropped once it no longer matters.

pub mod allowance;
pub mod head;
pub(super) mod peers;
pub mod shares;
pub mod subscribers;
mod waiting;

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use governor::Quota;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::limits::allowance::{Allowance, limited};
use crate::http::limits::peers::{Peers, network};
use crate::http::limits::shares::{Full, Share, Shares};
use crate::service::access::Caller;
use crate::service::fault::internal;
use crate::telemetry::names;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{KeyId, TenantId};

/// A key or a tenant may save up this many seconds' worth of requests.
const BURST_S: u32 = 10;
/// Packs that are unpacked and verified at the same time.
const PACKS_AT_ONCE: usize = 1;
/// Bodies up to this size, in bytes, are not counted.
const SMALL_BODY: usize = 64 * 1024;
/// Bytes of a body of lines that may arrive before they are read. Longer lines need further room.
pub const SMALL_LINES: usize = 256 * 1024;
/// Bodies of lines in progress, in all and of one tenant. What is known of the lines that were read
/// takes memory, up to 57 MB for the ids of a suite's tasks.
const LINES: usize = 16;
const LINES_OF_TENANT: usize = 4;
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
    lines: Arc<Shares<TenantId>>,
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
    _lines: Option<Share<TenantId>>,
}

impl Limits {
    /// Full allowances, for bodies of at most `max_body` bytes that together take at most
    /// `max_memory` bytes once parsed.
    pub fn new(rates: Rates, max_body: usize, max_memory: usize) -> Self {
        let in_flight = (rates.in_flight > 0).then_some(rates.in_flight);
        Self {
            bodies: Shares::halved(max_body.saturating_mul(LARGEST_BODIES)),
            lines: Shares::new(LINES, LINES_OF_TENANT),
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
        self.hold_bytes(tenant, self.octets(body), waits)
    }

    /// As [`hold`](Self::hold), for a body that is read line by line: room for small lines. The reader
    /// [waits](Self::wait_for_line) for room for a large one.
    ///
    /// # Errors
    /// As [`hold`](Self::hold).
    pub fn hold_lines(&self, tenant: &TenantId) -> Result<RequestPermits, Problem> {
        let lines = self.lines.take(tenant, 1).map_err(crowded)?;
        let held = self.hold_bytes(tenant, SMALL_LINES.min(self.max_body), false)?;
        Ok(RequestPermits {
            _lines: Some(lines),
            ..held
        })
    }

    fn hold_bytes(
        &self,
        tenant: &TenantId,
        bytes: usize,
        waits: bool,
    ) -> Result<RequestPermits, Problem> {
        let places = self.in_flight_of.as_ref().filter(|_| !waits);
        let place = places.map(|places| places.take(tenant, 1)).transpose();
        let room = (bytes > SMALL_BODY)
            .then(|| self.bodies.take(tenant, bytes))
            .transpose();
        match (place, room) {
            (Ok(place), Ok(room)) => Ok(RequestPermits {
                _place: place,
                _room: room,
                _lines: None,
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
        self.try_weigh(weight)?.ok_or_else(no_memory)
    }

    /// As [`weigh`](Self::weigh); `None` if there is no room at the moment.
    fn try_weigh(&self, weight: usize) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        if weight > self.max_memory {
            return Err(Problem::new(
                ErrorCode::PayloadTooLarge,
                "the body has too many JSON values; send fewer values per request",
            ));
        }
        let counted = if weight > SMALL_WEIGHT { weight } else { 0 };
        let steps = u32::try_from(counted.div_ceil(MEMORY_STEP)).unwrap_or(u32::MAX);
        Ok(self.memory.clone().try_acquire_many_owned(steps).ok())
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

fn no_memory() -> Problem {
    metrics::counter!(names::SHED).increment(1);
    Problem::new(
        ErrorCode::RateLimited,
        "not enough memory for another large document; retry after the \
         time in `Retry-After`",
    )
    .with("scope", "route")
    .with("retryAfterMs", 1000)
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

#[cfg(test)]
mod tests;
