//! Webhook deliveries, using the guarded client (OpenWOP webhooks, SSRF protection; RFC 0093).
//!
//! A URL must be https to a public address, unless the operator opened its destination. The
//! addresses of a name are checked when a subscription is created, and again inside the resolver of
//! every connection. Connections are not reused, so every delivery resolves the name again.

use std::time::Duration;

use bytes::Bytes;
use ipnet::IpNet;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use url::{Host, Url};

use crate::ports::webhooks::{DeliveryError, EndpointResponse, Undelivered};
use touchstone_host::net::Client;
use touchstone_host::net::address::AddressScope;
use touchstone_host::net::error::Error;
use touchstone_host::net::policy::Policy;
use touchstone_host::net::target::PrivateTarget;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::version::Majors;

/// The `User-Agent` header of deliveries.
const AGENT: &str = concat!("openwop-webhook-dispatcher/", env!("CARGO_PKG_VERSION"));
/// Longest time of one attempt to deliver an event.
pub const DELIVER_WITHIN: Duration = Duration::from_secs(5);
const NOTIFY_WITHIN: Duration = Duration::from_secs(15);
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// Timeout of the resolver during registration.
const RESOLVE_WITHIN: Duration = Duration::from_secs(2);

/// Names of headers that have a twin without `x-`.
const TWINS: &str = "x-openwop-";

/// Names of this machine or its cloud metadata service, whatever they resolve to.
const INSIDE: &[&str] = &["localhost", "metadata", "metadata.google.internal"];
const INSIDE_ZONES: &[&str] = &[".localhost", ".local", ".internal"];

/// Sends deliveries to untrusted URLs: the address of every connection is checked.
pub struct WebhookClient {
    /// Whether deliveries have the headers that only major 1 names.
    sends_twins: bool,
    private_targets: Vec<PrivateTarget>,
    public: Clients,
    private: Clients,
}

/// One client per timeout.
struct Clients {
    deliver: Client,
    notify: Client,
    request: Client,
}

impl Clients {
    fn new(reach: AddressScope, opened: &[IpNet]) -> Result<Self, Error> {
        let client = |within| {
            Client::new(Policy {
                opened: opened.to_vec(),
                ..Policy::webhook(reach, within)
            })
        };
        Ok(Self {
            deliver: client(DELIVER_WITHIN)?,
            notify: client(NOTIFY_WITHIN)?,
            request: client(REQUEST_WITHIN)?,
        })
    }
}

impl WebhookClient {
    /// A client that reaches the public internet and `private_targets`.
    ///
    /// # Errors
    /// [`Error::Setup`].
    pub fn new(private_targets: Vec<PrivateTarget>) -> Result<Self, Error> {
        let opened: Vec<IpNet> = private_targets
            .iter()
            .filter_map(PrivateTarget::whole_network)
            .collect();
        Ok(Self {
            sends_twins: true,
            private_targets,
            public: Clients::new(AddressScope::Public, &[])?,
            private: Clients::new(AddressScope::Private, &opened)?,
        })
    }

    /// The same, for a host that serves these majors: without major 1, deliveries have no
    /// `X-openwop-…` headers.
    #[must_use]
    pub fn serving(mut self, majors: Majors) -> Self {
        self.sends_twins = majors.has(Major::V1);
        self
    }

    /// The clients for a URL, if the text of the URL permits deliveries.
    fn of(&self, url: &Url) -> Result<&Clients, DeliveryError> {
        let opened = self.private_targets.iter().any(|target| target.covers(url));
        let clients = if opened { &self.private } else { &self.public };
        if !opened && url.scheme() != "https" {
            return Err(DeliveryError::Refused("the URL must be https"));
        }
        if !opened && names_an_inside(url) {
            return Err(INWARD);
        }
        clients
            .deliver
            .check(url)
            .map_err(|cause| refused(&cause))?;
        Ok(clients)
    }
}

const INWARD: DeliveryError = DeliveryError::Refused(
    "the URL points to a private, local or reserved address that the operator of this host has not opened for webhooks",
);

impl WebhookClient {
    /// Whether deliveries to `url` are allowed. Resolves the name; a name that does not resolve may
    /// do so later and is checked again at every delivery.
    pub async fn admit(&self, url: &Url) -> Result<(), DeliveryError> {
        let clients = self.of(url)?;
        let Some(Host::Domain(name)) = url.host() else {
            return Ok(());
        };
        let port = url.port_or_known_default().unwrap_or(443);
        let lookup = tokio::net::lookup_host((name, port));
        // A name without an address is harmless, because every delivery checks it again.
        let Ok(Ok(found)) = tokio::time::timeout(RESOLVE_WITHIN, lookup).await else {
            return Ok(());
        };
        let policy = clients.deliver.policy();
        let inward = found
            .into_iter()
            .any(|address| !policy.allows_resolved(address.ip()));
        if inward { Err(INWARD) } else { Ok(()) }
    }

    /// Delivers once, within [`DELIVER_WITHIN`], and returns the status of the response; any status
    /// but 2xx is a failure, redirects included.
    pub async fn deliver(
        &self,
        url: &Url,
        headers: &[(&'static str, String)],
        body: Bytes,
    ) -> Result<u16, Undelivered> {
        let client = &self.of(url)?.deliver;
        let mut sent = header_map(headers)?;
        if !self.sends_twins {
            for (name, _) in headers.iter().filter(|(name, _)| name.starts_with(TWINS)) {
                sent.remove(*name);
            }
        }
        let answer = client
            .open(Method::POST, url, &sent, Some(body))
            .await
            .map_err(|cause| failed(&cause))?;
        let status = answer.status();
        taken(status).map(|()| status).map_err(|cause| Undelivered {
            cause,
            retry_after: asked_wait(answer.headers()),
        })
    }

    /// Delivers once, within fifteen seconds, to an endpoint that may send `Retry-After`. Redirects
    /// are not followed: they are responses like any other.
    pub async fn notify(
        &self,
        url: &Url,
        headers: &[(&'static str, String)],
        body: Bytes,
    ) -> Result<EndpointResponse, DeliveryError> {
        let client = &self.of(url)?.notify;
        let answer = client
            .open(Method::POST, url, &header_map(headers)?, Some(body))
            .await
            .map_err(|cause| failed(&cause))?;
        Ok(EndpointResponse {
            status: answer.status(),
            retry_after: asked_wait(answer.headers()),
        })
    }

    /// Sends a request and reads its short response, within ten seconds; any status but 2xx is a
    /// failure.
    pub async fn request(
        &self,
        url: &Url,
        headers: &[(&'static str, String)],
        body: Bytes,
    ) -> Result<Bytes, DeliveryError> {
        let client = &self.of(url)?.request;
        let answer = client
            .post(url, &header_map(headers)?, body.to_vec())
            .await
            .map_err(|cause| failed(&cause))?;
        taken(answer.status)?;
        Ok(answer.body)
    }
}

/// The text of `Retry-After`.
fn asked_wait(headers: &HeaderMap) -> Option<String> {
    let asked = headers.get(RETRY_AFTER)?.to_str().ok()?;
    Some(asked.to_owned())
}

fn taken(status: u16) -> Result<(), DeliveryError> {
    match status {
        200..=299 => Ok(()),
        300..=399 => Err(DeliveryError::Failed(Error::Redirect.label().into_owned())),
        status => Err(DeliveryError::Failed(
            Error::Status(status).label().into_owned(),
        )),
    }
}

fn names_an_inside(url: &Url) -> bool {
    let Some(Host::Domain(name)) = url.host() else {
        return false;
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    INSIDE.contains(&name.as_str()) || INSIDE_ZONES.iter().any(|zone| name.ends_with(zone))
}

fn refused(cause: &Error) -> DeliveryError {
    match cause {
        Error::BlockedAddress => INWARD,
        Error::CredentialsInUrl => DeliveryError::Refused("the URL must not contain credentials"),
        _ => DeliveryError::Refused("the URL must be https and name a host"),
    }
}

fn failed(cause: &Error) -> DeliveryError {
    match cause {
        Error::BlockedAddress => INWARD,
        cause => DeliveryError::Failed(cause.label().into_owned()),
    }
}

/// # Errors
/// A value is not a valid header. A delivery without its signature would only be refused.
fn header_map(headers: &[(&'static str, String)]) -> Result<HeaderMap, DeliveryError> {
    let mut map = HeaderMap::with_capacity(headers.len() + 1);
    for (name, value) in headers {
        let value = HeaderValue::from_str(value)
            .map_err(|_| DeliveryError::Failed("invalid_header".to_owned()))?;
        map.append(HeaderName::from_static(name), value);
    }
    map.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    Ok(map)
}
