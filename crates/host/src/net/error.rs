//! Why a request got no response, as a closed list of labels.
//!
//! No variant contains a URL, a header or a body, so logs and messages of these errors contain no
//! credentials and no content.

use std::borrow::Cow;
use std::io;

/// Why a request got no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The client could not be set up.
    #[error("could not set up the HTTP client: {0}")]
    Setup(&'static str),
    /// The URL is not usable.
    #[error("the URL is not usable: {0}")]
    Url(&'static str),
    /// The URL contains a user name or password.
    #[error("the URL contains credentials; configure them separately")]
    CredentialsInUrl,
    /// The policy does not allow the address.
    #[error("the host's address is not allowed here")]
    BlockedAddress,
    /// The name has no address.
    #[error("the host name could not be resolved")]
    Dns,
    /// No connection could be made.
    #[error("no connection")]
    Connect,
    /// The certificate was not accepted, or the TLS handshake failed.
    #[error("no secure connection")]
    Tls,
    /// The request timed out.
    #[error("timed out")]
    Timeout,
    /// The connection broke before the response was complete.
    #[error("the connection broke")]
    Reset,
    /// The response is not HTTP.
    #[error("the response is not HTTP")]
    Protocol,
    /// The body exceeds its limit.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// A redirect that the policy does not follow.
    #[error("the server redirects to another location")]
    Redirect,
    /// A status other than success, where only success is useful.
    #[error("the server answered {0}")]
    Status(u16),
}

impl Error {
    /// A stable label, for events, metrics and reasons.
    pub fn label(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Setup(_) => "client_setup",
            Self::Url(_) => "invalid_url",
            Self::CredentialsInUrl => "credentials_in_url",
            Self::BlockedAddress => "blocked_address",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Protocol => "not_http",
            Self::TooLarge { .. } => "too_large",
            Self::Redirect => "redirect",
            Self::Status(status) => return Cow::Owned(format!("status_{status}")),
        })
    }

    /// Whether the same request may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Dns | Self::Connect | Self::Timeout | Self::Reset => true,
            Self::Status(status) => matches!(status, 408 | 429 | 500..=599),
            _ => false,
        }
    }

    /// Converts the library's error. The library's text is dropped, because it quotes the URL.
    pub fn from_reqwest(error: &reqwest::Error) -> Self {
        let mut refused = false;
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(cause) = next {
            if cause.is::<Blocked>() {
                return Self::BlockedAddress;
            }
            if cause.is::<Unresolved>() {
                return Self::Dns;
            }
            if cause.is::<rustls::Error>() {
                return Self::Tls;
            }
            let io = cause.downcast_ref::<io::Error>();
            refused |= io.is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
            next = inner(cause);
        }
        if error.is_redirect() {
            Self::Redirect
        } else if error.is_timeout() {
            Self::Timeout
        } else if refused || error.is_connect() {
            Self::Connect
        } else if error.is_builder() {
            Self::Url("it does not form a valid request")
        } else if is_parse_error(error) {
            Self::Protocol
        } else {
            Self::Reset
        }
    }
}

/// Whether the connection failed because of the certificate.
pub fn is_refused_certificate(error: &reqwest::Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        if let Some(fault) = cause.downcast_ref::<rustls::Error>() {
            return matches!(fault, rustls::Error::InvalidCertificate(_));
        }
        next = inner(cause);
    }
    false
}

/// The cause of an error. `source` of an `io::Error` skips the error that it wraps, which is where
/// a TLS failure is.
fn inner<'a>(
    cause: &'a (dyn std::error::Error + 'static),
) -> Option<&'a (dyn std::error::Error + 'static)> {
    match cause
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        Some(inner) => Some(inner),
        None => cause.source(),
    }
}

/// The HTTP library's parse error has no public type; its text is constant and contains no content.
fn is_parse_error(error: &reqwest::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.source().is_none() {
            let text = cause.to_string();
            return text.starts_with("invalid HTTP")
                || text.starts_with("message head is too large");
        }
        source = cause.source();
    }
    false
}

/// The resolver found only addresses that the policy refuses.
#[derive(Debug, thiserror::Error)]
#[error("address not allowed")]
pub(super) struct Blocked;

/// The resolver found no address.
#[derive(Debug, thiserror::Error)]
#[error("name not resolved")]
pub(super) struct Unresolved;
