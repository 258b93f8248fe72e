//! Finding a card: at its own URL, at the well-known path of an agent's origin (A2A 0.3.0 §5.3), or
//! at the path used before that version.

use std::borrow::Cow;
use std::time::Duration;

use tokio::time::Instant;
use url::Url;

use crate::ports::prober::{Handshake, Method, Probed, Prober};
use crate::rules::document::MAX_OCTETS;
use crate::rules::live::{Body, NoReply, Reply};
use crate::rules::{Card, Unparseable};
use crate::service::{ANSWER_WITHIN, MAX_REDIRECTS, request};

const WELL_KNOWN: &str = "/.well-known/agent-card.json";
const LEGACY: &str = "/.well-known/agent.json";

/// A fetched card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The bytes of the card; `None` if there were too many.
    pub octets: Option<Vec<u8>>,
    /// Whether the card was found only at the path used before A2A 0.3.0.
    pub legacy_path: bool,
    /// The media type the server sent, if it is not JSON.
    pub mistyped: Option<&'static str>,
}

impl Fetched {
    /// A card that needs no request.
    pub fn at_hand(octets: Vec<u8>) -> Self {
        Self {
            octets: Some(octets),
            legacy_path: false,
            mistyped: None,
        }
    }

    pub(super) fn parsed(&self) -> Result<Card, Unparseable> {
        match &self.octets {
            Some(octets) => Card::parse(octets),
            None => Err(Unparseable::TooLong),
        }
    }
}

/// Why no card was fetched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfetched {
    /// Not a valid URL of a card.
    #[error("the URL must be http or https, of at most 2048 bytes, and contain no credentials")]
    Unusable,
    /// The guarded HTTP client refused the URL.
    #[error(
        "the URL points to an internal host and port that are not on the list of allowed targets"
    )]
    Refused,
    /// The server's certificate is invalid or not trusted.
    #[error("the card cannot be fetched: the server's certificate is not accepted")]
    Certificate,
    /// The server did not respond.
    #[error("the card cannot be fetched: {0}")]
    NoReply(NoReply),
    /// The response had another status.
    #[error("the card cannot be fetched: the server answered {0}")]
    Status(u16),
    /// The response is compressed, though no request asks for that.
    #[error("the card cannot be fetched: the server sends it compressed ({0})")]
    Compressed(&'static str),
    /// Too many redirects, or a redirect to a forbidden URL.
    #[error("the card cannot be fetched: the server redirects {0}")]
    Redirect(Cow<'static, str>),
}

impl Unfetched {
    /// Whether a server was asked and has no card, as opposed to a URL that may not be asked.
    pub const fn is_seen(&self) -> bool {
        !matches!(self, Self::Unusable | Self::Refused)
    }

    /// What to do about it.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Unusable => "https://HOST/PATH",
            Self::Refused => "use --allow-private HOST:PORT if the agent is your own",
            Self::Certificate => {
                "install a certificate that is current, for this name, and from a known authority"
            }
            Self::NoReply(_) => "check that the server runs and can be reached from here",
            Self::Status(401 | 403) => "serve the card without credentials, or pass it as a file",
            Self::Status(404 | 410) => {
                "check that the agent serves /.well-known/agent-card.json, or pass the card's own \
                 URL"
            }
            Self::Status(_) => {
                "check why the server does not answer 200, or pass the card as a file"
            }
            Self::Compressed(_) => {
                "serve the card without Content-Encoding to clients that send no Accept-Encoding, \
                 or pass it as a file"
            }
            Self::Redirect(_) => "pass the URL that serves the card without redirects",
        }
    }
}

pub async fn card(prober: &dyn Prober, url: &Url) -> Result<Fetched, Unfetched> {
    let named = matches!(url.path(), "" | "/");
    let place = if named {
        at(url, WELL_KNOWN)
    } else {
        url.clone()
    };
    let well_known = place.path() == WELL_KNOWN;
    match get(prober, &place).await {
        Err(Unfetched::Status(404)) if well_known => match get(prober, &at(url, LEGACY)).await {
            Ok(fetched) => Ok(Fetched {
                legacy_path: true,
                ..fetched
            }),
            // Report the standard path, not the old one.
            Err(Unfetched::Status(_)) => Err(Unfetched::Status(404)),
            Err(other) => Err(other),
        },
        other => other,
    }
}

fn at(origin: &Url, path: &str) -> Url {
    let mut url = origin.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

async fn get(prober: &dyn Prober, url: &Url) -> Result<Fetched, Unfetched> {
    let (probed, last) = follow(prober, Method::Get, url, MAX_OCTETS, ANSWER_WITHIN, |to| {
        to.scheme() == "https"
    })
    .await;
    let certificate = probed.handshake == Handshake::Refused;
    let reply = probed.outcome.map_err(|silence| match silence {
        _ if certificate => Unfetched::Certificate,
        NoReply::Refused if last == *url => Unfetched::Refused,
        NoReply::Refused => Unfetched::Redirect("to an internal host".into()),
        NoReply::Unusable => Unfetched::Unusable,
        silence => Unfetched::NoReply(silence),
    })?;
    match reply.status {
        200..=299 => {
            if let Some(encoding) = compression(&reply) {
                return Err(Unfetched::Compressed(encoding));
            }
            Ok(Fetched {
                mistyped: mistyped(&reply),
                legacy_path: false,
                octets: match reply.body {
                    Body::Whole(octets) => Some(octets),
                    Body::Oversized => None,
                },
            })
        }
        300..=399 => Err(Unfetched::Redirect(match target(&reply, &last) {
            None => "without a valid Location".into(),
            Some(next) if next.scheme() != "https" => "to a URL that is not https".into(),
            Some(_) => format!("more than {MAX_REDIRECTS} times").into(),
        })),
        status => Err(Unfetched::Status(status)),
    }
}

/// The compression of a response's body, if any: by its header or its first bytes.
fn compression(reply: &Reply) -> Option<&'static str> {
    const KNOWN: [&str; 4] = ["gzip", "deflate", "br", "zstd"];
    const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];
    let named = reply.headers.get("content-encoding").unwrap_or_default();
    let named = named.trim().to_ascii_lowercase();
    match (named.as_str(), &reply.body) {
        ("" | "identity", Body::Whole(octets)) => octets.starts_with(&GZIP).then_some("gzip"),
        ("" | "identity", Body::Oversized) => None,
        ("x-gzip", _) => Some("gzip"),
        (other, _) => Some(
            KNOWN
                .into_iter()
                .find(|known| *known == other)
                .unwrap_or("an unknown encoding"),
        ),
    }
}

/// The media type a server gives a card, if it is not JSON. A stranger's text is not repeated. A
/// missing media type is accepted.
fn mistyped(reply: &Reply) -> Option<&'static str> {
    const KNOWN: [&str; 4] = [
        "text/html",
        "text/plain",
        "application/octet-stream",
        "application/xml",
    ];
    let media_type = reply.media_type()?;
    if media_type == "application/json" || media_type.ends_with("+json") {
        return None;
    }
    let known = KNOWN.into_iter().find(|known| *known == media_type);
    Some(known.unwrap_or("another media type"))
}

/// Sends a request and follows a few redirects, as long as `may_follow` allows. Every URL on the
/// way is checked like the first. Also returns the last URL.
pub(super) async fn follow(
    prober: &dyn Prober,
    method: Method,
    url: &Url,
    most: usize,
    within: Duration,
    may_follow: impl Fn(&Url) -> bool,
) -> (Probed, Url) {
    let ends = Instant::now() + within;
    let mut url = url.clone();
    for turn in 0.. {
        let mut asked = request(method, &url, most);
        asked.within = ends.saturating_duration_since(Instant::now());
        if asked.within.is_zero() {
            break;
        }
        let probed = prober.ask(asked).await;
        let reply = probed.outcome.as_ref().ok();
        match reply.and_then(|reply| target(reply, &url)) {
            Some(next) if turn < MAX_REDIRECTS && may_follow(&next) => url = next,
            _ => return (probed, url),
        }
    }
    let late = Probed {
        outcome: Err(NoReply::Timeout),
        handshake: Handshake::NotReached,
    };
    (late, url)
}

/// The target of a redirect.
fn target(reply: &Reply, from: &Url) -> Option<Url> {
    let redirects = matches!(reply.status, 301 | 302 | 303 | 307 | 308);
    let location = reply.headers.get("location").filter(|_| redirects)?;
    from.join(location).ok()
}
