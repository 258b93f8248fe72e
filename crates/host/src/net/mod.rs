//! The HTTP client for all outgoing requests: model endpoints, registries, webhooks.
//!
//! A [`Policy`] states who may choose the destination of a request. The scheme is http or https,
//! and the URL contains no credentials. The address is checked where it is used: an IP address
//! before the request, a host name inside the resolver that the connection uses, so that a second
//! lookup cannot return a different address (DNS rebinding). Redirects are off unless a policy
//! follows them within the same origin. Proxies are not used, because they resolve names
//! themselves. Bodies are read in chunks up to the policy's limit, and never decompressed.
//!
//! [`Error`] is a closed list without URLs or content.

pub mod address;
pub mod error;
pub mod policy;
pub mod response_memory;
pub mod sse;
pub mod target;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Body;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::HeaderMap;
use reqwest::redirect;
use tokio::time::Instant;
use url::{Host, Url};

use crate::net::policy::Certificates;
use crate::net::policy::HttpVersion;

pub use crate::net::address::{AddressScope, is_public};
pub use crate::net::error::Error;
pub use crate::net::policy::{Policy, Redirects};
pub use crate::net::response_memory::MemoryReservation;
pub use crate::net::target::PrivateTarget;

use crate::net::response_memory::EndpointMemory;
use crate::otlp::span::propagate;

/// The `User-Agent` header of this host.
pub const USER_AGENT: &str = concat!("touchstone/", env!("CARGO_PKG_VERSION"));

/// Unused connections are closed before common servers close them. uvicorn keeps them for five
/// seconds, and reusing a connection that was just closed costs a visible retry.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A client with one policy. It pools connections, so create it once and share it.
#[derive(Debug)]
pub struct Client {
    policy: Policy,
    plain: reqwest::Client,
    // Root certificates are loaded on the first https request, because loading takes longer than
    // starting this host.
    secure: OnceLock<Result<reqwest::Client, Error>>,
    rooms: Arc<EndpointMemory>,
}

/// A response of any status, with its body up to the policy's limit.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A response whose body has not been read yet.
#[derive(Debug)]
pub struct OpenAnswer {
    response: reqwest::Response,
    rooms: Arc<EndpointMemory>,
}

impl OpenAnswer {
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Reads the whole body, within `deadline` and up to `limit` bytes.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn whole(self, limit: u64, deadline: Duration) -> Result<Answer, Error> {
        read_whole(self.response, &self.rooms, limit, Instant::now() + deadline).await
    }

    /// The body up to `limit` bytes, and the fields after it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn with_trailers(self, limit: u64) -> Result<(Bytes, HeaderMap), Error> {
        let body = hyper::Response::from(self.response).into_body();
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let read = Limited::new(body, most).collect().await;
        let read = read.map_err(|cause| match cause.downcast_ref() {
            Some(cause) => Error::from_reqwest(cause),
            None => Error::TooLarge { limit },
        })?;
        let trailers = read.trailers().cloned().unwrap_or_default();
        Ok((read.to_bytes(), trailers))
    }

    /// The body, for another library, which limits its size and time.
    pub fn into_body(self) -> impl Body<Data = Bytes, Error = Error> + Send + Sync + 'static {
        let body = hyper::Response::from(self.response).into_body();
        body.map_err(|cause: reqwest::Error| Error::from_reqwest(&cause))
    }

    /// The next chunk of the body; `None` at its end.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        next_piece(&mut self.response).await
    }

    /// Waits until there is room for a large response, unless the call has room already. The wait
    /// does not count as time of the endpoint.
    pub async fn room(&self) -> Duration {
        let (room, waited) = self.rooms.take(u64::MAX).await;
        if let Some(room) = room {
            room.keep();
        }
        waited
    }
}

impl Client {
    /// Sets up a client.
    ///
    /// # Errors
    /// [`Error::Setup`].
    pub fn new(policy: Policy) -> Result<Self, Error> {
        let plain = build(&policy, false)?;
        Ok(Self {
            policy,
            plain,
            secure: OnceLock::new(),
            rooms: Arc::new(EndpointMemory::new()),
        })
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether a request to `url` may be attempted: checks the scheme, credentials and IP
    /// addresses. Host names are checked when they are resolved.
    ///
    /// # Errors
    /// The first rule that `url` violates.
    pub fn check(&self, url: &Url) -> Result<(), Error> {
        check(url, self.policy.reach)
    }

    /// Fetches a document: 2xx only, at most `max_bytes`, within `deadline` and the policy's own
    /// limits.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get_limited(
        &self,
        url: &Url,
        max_bytes: u64,
        deadline: Duration,
    ) -> Result<Bytes, Error> {
        self.check(url)?;
        let request = self.of_scheme(url)?.get(url.clone());
        let limit = max_bytes.min(self.policy.max_response_bytes);
        let answer = self
            .exchange(request, limit, deadline.min(self.policy.total_timeout))
            .await?;
        match answer.status {
            200..=299 => Ok(answer.body),
            300..=399 => Err(Error::Redirect),
            status => Err(Error::Status(status)),
        }
    }

    /// Sends a GET request and accepts any status.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get(&self, url: &Url, headers: &HeaderMap) -> Result<Answer, Error> {
        self.check(url)?;
        let request = self
            .of_scheme(url)?
            .get(url.clone())
            .headers(traced(headers));
        self.exchange(
            request,
            self.policy.max_response_bytes,
            self.policy.total_timeout,
        )
        .await
    }

    /// Sends a POST request whose content type is in `headers`, and accepts any status.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn post(
        &self,
        url: &Url,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<Answer, Error> {
        self.check(url)?;
        let request = self
            .of_scheme(url)?
            .post(url.clone())
            .headers(traced(headers))
            .body(body);
        self.exchange(
            request,
            self.policy.max_response_bytes,
            self.policy.total_timeout,
        )
        .await
    }

    /// Sends any request and returns the response body chunk by chunk, for endless streams. The
    /// policy limits the time for the response headers; the caller limits the time and size of each
    /// chunk.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn open(
        &self,
        method: reqwest::Method,
        url: &Url,
        headers: &HeaderMap,
        body: Option<Bytes>,
    ) -> Result<OpenAnswer, Error> {
        self.check(url)?;
        let mut request = self
            .of_scheme(url)?
            .request(method, url.clone())
            .headers(traced(headers));
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = tokio::time::timeout(self.policy.first_byte_timeout, request.send())
            .await
            .map_err(|_| Error::Timeout)?
            .map_err(|e| Error::from_reqwest(&e))?;
        let rooms = Arc::clone(&self.rooms);
        Ok(OpenAnswer { response, rooms })
    }

    /// Sends a body that is produced while it is sent. The caller limits the time until the response.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn upload(
        &self,
        method: reqwest::Method,
        url: &Url,
        headers: &HeaderMap,
        body: reqwest::Body,
    ) -> Result<OpenAnswer, Error> {
        self.check(url)?;
        let request = self
            .of_scheme(url)?
            .request(method, url.clone())
            .headers(traced(headers))
            .body(body);
        let response = request.send().await.map_err(|e| Error::from_reqwest(&e))?;
        let rooms = Arc::clone(&self.rooms);
        Ok(OpenAnswer { response, rooms })
    }

    /// The library's client for `url`, for another library that sends its own requests to this URL
    /// only. The address rules apply as usual; the other library limits size and time.
    ///
    /// # Errors
    /// The first rule that `url` violates.
    pub fn lent(&self, url: &Url) -> Result<reqwest::Client, Error> {
        self.check(url)?;
        self.of_scheme(url).cloned()
    }

    pub fn of_scheme(&self, url: &Url) -> Result<&reqwest::Client, Error> {
        if url.scheme() == "http" {
            return Ok(&self.plain);
        }
        self.secure
            .get_or_init(|| build(&self.policy, true))
            .as_ref()
            .map_err(Clone::clone)
    }

    async fn exchange(
        &self,
        request: reqwest::RequestBuilder,
        limit: u64,
        total: Duration,
    ) -> Result<Answer, Error> {
        let ends = Instant::now() + total;
        let head = self.policy.first_byte_timeout.min(total);
        let response = tokio::time::timeout(head, request.send())
            .await
            .map_err(|_| Error::Timeout)?
            .map_err(|e| Error::from_reqwest(&e))?;
        read_whole(response, &self.rooms, limit, ends).await
    }
}

/// The headers of a request, with the context of the trace it belongs to.
fn traced(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    propagate(&mut headers);
    headers
}

async fn read_whole(
    mut response: reqwest::Response,
    rooms: &EndpointMemory,
    limit: u64,
    ends: Instant,
) -> Result<Answer, Error> {
    let status = response.status().as_u16();
    let headers = std::mem::take(response.headers_mut());
    let body = read_limited(response, rooms, limit, ends).await?;
    Ok(Answer {
        status,
        headers,
        body,
    })
}

async fn read_limited(
    mut response: reqwest::Response,
    rooms: &EndpointMemory,
    limit: u64,
    mut ends: Instant,
) -> Result<Bytes, Error> {
    let too_large = || Error::TooLarge { limit };
    let announced = response.content_length();
    if announced.is_some_and(|n| n > limit) {
        return Err(too_large());
    }
    // Most responses arrive in one chunk, which is passed on unchanged.
    let Some(first) = piece_until(&mut response, ends).await? else {
        return Ok(Bytes::new());
    };
    let mut read = first.len() as u64;
    // The remaining length may be unknown.
    let most = announced.unwrap_or(limit);
    let mut room = None;
    if read.max(announced.unwrap_or(0)) > response_memory::SMALL {
        room = take_room(rooms, most, &mut ends).await;
    }
    if read > limit {
        return Err(too_large());
    }
    let Some(second) = piece_until(&mut response, ends).await? else {
        keep(room, read);
        return Ok(first);
    };
    let expected = announced.unwrap_or(read);
    let mut body = BytesMut::with_capacity(usize::try_from(expected).unwrap_or_default());
    body.extend_from_slice(&first);
    drop(first);
    let mut piece = Some(second);
    while let Some(octets) = piece {
        read = read.saturating_add(octets.len() as u64);
        if read > limit {
            return Err(too_large());
        }
        if read > response_memory::SMALL && room.is_none() {
            room = take_room(rooms, most, &mut ends).await;
        }
        body.extend_from_slice(&octets);
        piece = piece_until(&mut response, ends).await?;
    }
    keep(room, read);
    Ok(body.freeze())
}

/// Waits for room and extends the endpoint's deadline by the wait.
async fn take_room(
    rooms: &EndpointMemory,
    bytes: u64,
    ends: &mut Instant,
) -> Option<MemoryReservation> {
    let (room, waited) = rooms.take(bytes).await;
    *ends += waited;
    room
}

fn keep(room: Option<MemoryReservation>, bytes: u64) {
    if let Some(mut room) = room {
        room.shrink(bytes);
        room.keep();
    }
}

async fn piece_until(
    response: &mut reqwest::Response,
    ends: Instant,
) -> Result<Option<Bytes>, Error> {
    tokio::time::timeout_at(ends, next_piece(response))
        .await
        .map_err(|_| Error::Timeout)?
}

async fn next_piece(response: &mut reqwest::Response) -> Result<Option<Bytes>, Error> {
    response.chunk().await.map_err(|e| Error::from_reqwest(&e))
}

fn build(policy: &Policy, secure: bool) -> Result<reqwest::Client, Error> {
    // Only this host installs the process-wide provider, and a second installation is identical.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let redirects = match policy.redirects {
        Redirects::None => redirect::Policy::none(),
        Redirects::SameOrigin(most) => redirect::Policy::custom(move |attempt| {
            let same = attempt
                .previous()
                .first()
                .is_some_and(|first| first.origin() == attempt.url().origin());
            let plain = attempt.url().username().is_empty() && attempt.url().password().is_none();
            if same && plain && attempt.previous().len() <= most {
                attempt.follow()
            } else {
                attempt.error("not followed")
            }
        }),
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "this module is the guarded client"
    )]
    let builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .referer(false)
        .redirect(redirects)
        .connect_timeout(policy.connect_timeout)
        .pool_max_idle_per_host(policy.idle_connections)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .no_proxy()
        .dns_resolver(Checked(policy.clone()));
    // HTTP/2 is used only if the policy requests it, whatever servers offer.
    let builder = match policy.http_version {
        HttpVersion::Http1 => builder.http1_only(),
        HttpVersion::Http2 => builder.http2_prior_knowledge(),
    };
    let builder = match (secure, policy.certificates) {
        (false, _) => builder.tls_certs_only([]),
        (true, Certificates::Verified) => builder,
        (true, Certificates::Any) => builder.tls_danger_accept_invalid_certs(true),
    };
    builder.build().map_err(|_| {
        Error::Setup(if secure {
            "no usable root certificates on this system"
        } else {
            "no client"
        })
    })
}

pub fn check(url: &Url, reach: AddressScope) -> Result<(), Error> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Error::Url("the scheme must be http or https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::CredentialsInUrl);
    }
    let literal = match url.host() {
        None => return Err(Error::Url("it has no host")),
        Some(Host::Domain(_)) => return Ok(()),
        Some(Host::Ipv4(ip)) => ip.into(),
        Some(Host::Ipv6(ip)) => ip.into(),
    };
    if reach.allows(literal) {
        Ok(())
    } else {
        Err(Error::BlockedAddress)
    }
}

/// The system's resolver, filtered by the policy. Connections use the addresses that it returns, so
/// no name is resolved twice.
struct Checked(Policy);

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0))
                .await
                .map_err(|_| error::Unresolved)?
                .collect();
            let allowed = allowed(found, &policy)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// The addresses of a name that the client may connect to.
fn allowed(
    found: Vec<SocketAddr>,
    policy: &Policy,
) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
    let all = found.len();
    let allowed: Vec<_> = found
        .into_iter()
        .filter(|address| policy.allows_resolved(address.ip()))
        .collect();
    if all == 0 {
        return Err(error::Unresolved.into());
    }
    // If the policy says so, one disallowed address rejects the whole name.
    if allowed.is_empty() || (policy.every_address && allowed.len() < all) {
        return Err(error::Blocked.into());
    }
    Ok(allowed)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn resolves(policy: &Policy, addresses: &[&str]) -> bool {
        let found = addresses
            .iter()
            .map(|ip| SocketAddr::new(ip.parse().unwrap(), 0));
        allowed(found.collect(), policy).is_ok()
    }

    #[rstest]
    #[case("169.254.169.254")]
    #[case("169.254.0.7")]
    #[case("::ffff:169.254.169.254")]
    #[case("fd00:ec2::254")]
    #[case("fe80::1")]
    #[case("100.100.100.200")]
    #[case("168.63.129.16")]
    fn host_names_that_resolve_to_metadata_addresses_are_blocked(#[case] address: &str) {
        let within = Duration::from_secs(1);
        let named: Url = "http://localhost/".parse().unwrap();
        let policies = [
            Policy::model(within, 1),
            Policy::registry(&named),
            Policy::webhook(AddressScope::Private, within),
            Policy::webhook(AddressScope::Public, within),
            Policy::public(),
        ];
        for policy in policies {
            assert!(!resolves(&policy, &[address]), "{policy:?}");
            assert!(!policy.every_address || !resolves(&policy, &["10.0.0.1", address]));
        }
    }

    #[test]
    fn host_names_may_resolve_to_private_addresses_and_opened_networks() {
        let private = Policy::webhook(AddressScope::Private, Duration::from_secs(1));
        assert!(resolves(&private, &["10.1.2.3", "127.0.0.1", "fd12::1"]));
        let opened = Policy {
            opened: vec!["169.254.7.0/24".parse().unwrap()],
            ..private
        };
        assert!(resolves(&opened, &["169.254.7.9"]));
        assert!(!resolves(&opened, &["169.254.8.9"]));
    }

    #[test]
    fn a_literal_link_local_address_is_allowed_with_private_reach() {
        let url = "http://169.254.7.9:8080/".parse().unwrap();
        assert!(check(&url, AddressScope::Private).is_ok());
        assert!(check(&url, AddressScope::Opened).is_err());
    }
}
