//! Single requests to servers named by a card, reported in detail.

use std::time::Duration;

use async_trait::async_trait;
use url::Url;

use crate::rules::live::Outcome;

use touchstone_host::net::policy::{Certificates, HttpVersion};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Options,
    Post,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    pub method: Method,
    /// The target. Redirects are not followed.
    pub url: Url,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub http_version: HttpVersion,
    pub certificates: Certificates,
    /// Time limit of the connection.
    pub connect_within: Duration,
    /// Time limit of the whole request.
    pub within: Duration,
    /// Maximum number of bytes read of the response's body.
    pub most: usize,
}

/// The result of the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// No TLS: the URL is not https.
    Absent,
    /// Completed, with an accepted certificate.
    Done,
    /// The certificate was not accepted.
    Refused,
    /// The connection failed before.
    NotReached,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The response, or the reason for its absence.
    pub outcome: Outcome,
    pub handshake: Handshake,
}

/// Sends requests to servers named by a card. The address of every connection is checked; each
/// request uses a new connection.
#[async_trait]
pub trait Prober: Send + Sync {
    /// Whether requests to this URL are forbidden, judging by its text.
    fn forbids(&self, url: &Url) -> bool;
    async fn ask(&self, request: ProbeRequest) -> Probed;
}
