//! Probes the agents that agent cards name, using the guarded client.
//!
//! The text of a URL is checked first: an internal host is refused unless the operator opened that
//! host and port. Then the client checks every address that the name resolves to, and connects only
//! to a checked address. Redirects, connection reuse and decompression are off. The prober reports
//! responses as received, including truncated bodies and broken connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use reqwest::header::HeaderMap;
use tokio::time::Instant;
use url::Url;

use crate::ports::prober::{Handshake, Method, ProbeRequest, Probed, Prober};
use crate::rules::live::{Body, Headers, NoReply, Reply};
use touchstone_host::net::address::AddressScope;
use touchstone_host::net::error::Error;
use touchstone_host::net::policy::Certificates;
use touchstone_host::net::policy::HttpVersion;
use touchstone_host::net::policy::Policy;
use touchstone_host::net::{Client, error};
use touchstone_kit::network::{Allowed, Endpoint};

/// The settings in which the clients differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    opened: bool,
    http_version: HttpVersion,
    certificates: Certificates,
    connect_within: Duration,
}

/// Probes the agents that cards name.
pub struct CardProber {
    allowed: Allowed,
    // A cache of few clients, because loading root certificates takes longer than a request.
    clients: Mutex<HashMap<Kind, Arc<Client>>>,
}

impl CardProber {
    /// A prober that reaches the public internet and the `allowed` places.
    pub fn new(allowed: Allowed) -> Self {
        Self {
            allowed,
            clients: Mutex::new(HashMap::new()),
        }
    }

    fn client(&self, request: &ProbeRequest) -> Result<Arc<Client>, Error> {
        let opened = Endpoint::of(&request.url).is_some_and(|it| self.allowed.contains(&it));
        let kind = Kind {
            opened,
            http_version: request.http_version,
            certificates: request.certificates,
            connect_within: request.connect_within,
        };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&kind) {
            return Ok(client.clone());
        }
        let reach = if opened {
            AddressScope::Opened
        } else {
            AddressScope::Public
        };
        let policy = Policy::probe(
            reach,
            kind.http_version,
            kind.certificates,
            kind.connect_within,
        );
        let client = Arc::new(Client::new(policy)?);
        clients.insert(kind, client.clone());
        Ok(client)
    }

    async fn exchange(&self, request: &ProbeRequest) -> Result<Reply, Silence> {
        if self.forbids(&request.url) {
            return Err(Silence::before(NoReply::Refused));
        }
        let client = self.client(request).map_err(|fault| Silence::of(&fault))?;
        client
            .check(&request.url)
            .map_err(|fault| Silence::of(&fault))?;
        let inner = client
            .of_scheme(&request.url)
            .map_err(|fault| Silence::of(&fault))?;
        let begun = Instant::now();
        let ends = begun + request.within;
        let send = inner
            .request(method(request.method), request.url.clone())
            .headers(headers(&request.headers))
            .body(request.body.clone())
            .send();
        // A connection that is not established by this time has timed out.
        let late = |_| Silence::after(NoReply::Timeout);
        let response = tokio::time::timeout_at(ends, send)
            .await
            .map_err(late)?
            .map_err(|fault| Silence::of_reqwest(&fault))?;
        let status = response.status().as_u16();
        let head = plain(response.headers());
        let limit = request.most;
        let announced = response.content_length();
        let (body, trailers) =
            if announced.is_some_and(|it| it > limit as u64) && request.method != Method::Head {
                (Body::Oversized, Headers::default())
            } else {
                let read = read(reqwest::Body::from(response), limit);
                tokio::time::timeout_at(ends, read).await.map_err(late)??
            };
        Ok(Reply {
            status,
            headers: head,
            body,
            trailers,
            elapsed_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }
}

#[async_trait]
impl Prober for CardProber {
    fn forbids(&self, url: &Url) -> bool {
        self.allowed.forbids(url)
    }

    async fn ask(&self, request: ProbeRequest) -> Probed {
        let encrypted = request.url.scheme() == "https";
        let exchanged = self.exchange(&request).await;
        let handshake = match &exchanged {
            _ if !encrypted => Handshake::Absent,
            Ok(_) => Handshake::Done,
            Err(silence) if silence.certificate => Handshake::Refused,
            Err(silence) if silence.connected => Handshake::Done,
            Err(_) => Handshake::NotReached,
        };
        Probed {
            outcome: exchanged.map_err(|silence| silence.reason),
            handshake,
        }
    }
}

/// Why there is no response, and how far the exchange got.
struct Silence {
    reason: NoReply,
    connected: bool,
    certificate: bool,
}

impl Silence {
    const fn before(reason: NoReply) -> Self {
        Self {
            reason,
            connected: false,
            certificate: false,
        }
    }

    const fn after(reason: NoReply) -> Self {
        Self {
            reason,
            connected: true,
            certificate: false,
        }
    }

    const fn of(fault: &Error) -> Self {
        Self::before(match fault {
            Error::BlockedAddress => NoReply::Refused,
            Error::Url(_) | Error::CredentialsInUrl => NoReply::Unusable,
            Error::Timeout => NoReply::Timeout,
            Error::Reset | Error::Protocol => NoReply::Cut,
            _ => NoReply::Unreachable,
        })
    }

    fn of_reqwest(fault: &reqwest::Error) -> Self {
        Self {
            connected: !fault.is_connect() && !fault.is_builder(),
            certificate: error::is_refused_certificate(fault),
            ..Self::of(&Error::from_reqwest(fault))
        }
    }
}

/// The body up to the limit, and how it ended.
async fn read(mut body: reqwest::Body, limit: usize) -> Result<(Body, Headers), Silence> {
    let mut bytes = Vec::new();
    let mut trailers = Headers::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|fault| Silence {
            connected: true,
            ..Silence::of_reqwest(&fault)
        })?;
        match frame.into_data() {
            Ok(piece) if piece.len() > limit - bytes.len() => {
                return Ok((Body::Oversized, trailers));
            }
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(frame) => {
                if let Ok(following) = frame.into_trailers() {
                    trailers = plain(&following);
                }
            }
        }
    }
    Ok((Body::Whole(bytes), trailers))
}

/// Headers with text values; other headers cannot be judged.
fn plain(headers: &HeaderMap) -> Headers {
    let headers = headers.iter().filter_map(|(name, value)| {
        let value = value.to_str().ok()?;
        Some((name.as_str(), value))
    });
    headers.collect()
}

fn headers(named: &[(&'static str, String)]) -> HeaderMap {
    let read = |(name, value): &(&'static str, String)| {
        let value = value.parse().ok()?;
        Some((reqwest::header::HeaderName::from_static(name), value))
    };
    named.iter().filter_map(read).collect()
}

const fn method(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Head => reqwest::Method::HEAD,
        Method::Options => reqwest::Method::OPTIONS,
        Method::Post => reqwest::Method::POST,
    }
}
