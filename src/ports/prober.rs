//! Requests to whoever a card names, one by one, told as they went.

use std::time::Duration;

use async_trait::async_trait;
use url::Url;

use crate::domain::card::live::Outcome;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// OPTIONS.
    Options,
    /// POST.
    Post,
}

/// What a request is spoken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 from the first octet on.
    Http2,
}

/// Whose certificates are put up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Certificates {
    /// Those that hold: chain, dates, name.
    Verified,
    /// Any. Nothing secret is sent so, and nothing that comes back is believed.
    Any,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    /// Its method.
    pub method: Method,
    /// Where to. No redirect is followed.
    pub url: Url,
    /// Its headers.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Vec<u8>,
    /// What it is spoken in.
    pub wire: Wire,
    /// Whose certificates are put up with.
    pub certificates: Certificates,
    /// Longest time to a connection.
    pub connect_within: Duration,
    /// Longest time of all.
    pub within: Duration,
    /// Octets of the answer's body that are read.
    pub most: usize,
}

/// How a connection's encryption came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// There is none: the URL is not https.
    Absent,
    /// It did, with a certificate that was put up with.
    Done,
    /// The certificate was not accepted.
    Refused,
    /// It did not come so far.
    NotReached,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The answer, or why there is none.
    pub outcome: Outcome,
    /// The connection's encryption.
    pub handshake: Handshake,
}

/// Makes requests to whoever a card names. Every address is judged where it is connected to, on a connection of its own.
#[async_trait]
pub trait Prober: Send + Sync {
    /// Whether the text of a URL speaks against going there.
    fn forbids(&self, url: &Url) -> bool;
    /// Makes a request.
    async fn ask(&self, request: ProbeRequest) -> Probed;
}
