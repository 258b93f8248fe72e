//! Why a request gave no answer, as a closed list of labels.
//!
//! No variant holds a URL, a header or a body: whatever is logged or shown of these errors is free of credentials and
//! content.

use std::borrow::Cow;
use std::io;

/// Why a request gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The client could not be set up.
    #[error("the HTTP client could not be set up: {0}")]
    Setup(&'static str),
    /// Not a usable URL.
    #[error("the URL is not usable: {0}")]
    Url(&'static str),
    /// User name or password in the URL.
    #[error("the URL carries credentials; configure them apart from it")]
    CredentialsInUrl,
    /// The address may not be reached under this policy.
    #[error("the host's address is not allowed here")]
    BlockedAddress,
    /// The name has no address.
    #[error("the host name could not be resolved")]
    Dns,
    /// No connection.
    #[error("no connection")]
    Connect,
    /// The certificate was not accepted, or no secure connection came about.
    #[error("no secure connection")]
    Tls,
    /// Out of time.
    #[error("out of time")]
    Timeout,
    /// The connection broke before the answer was complete.
    #[error("the connection broke")]
    Reset,
    /// The answer is no HTTP.
    #[error("the answer is not HTTP")]
    Protocol,
    /// The body is over its limit.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// A redirect the policy does not follow.
    #[error("the server redirects elsewhere")]
    Redirect,
    /// An answer other than success, where only success is of use.
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

    /// Translates the library's error. Its own text is dropped, because it quotes the URL.
    pub(super) fn from_reqwest(error: &reqwest::Error) -> Self {
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
            Self::Url("no request can be made of it")
        } else if is_parse_error(error) {
            Self::Protocol
        } else {
            Self::Reset
        }
    }
}

/// Whether it was the certificate that kept a connection from coming about.
pub(super) fn is_refused_certificate(error: &reqwest::Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        if let Some(fault) = cause.downcast_ref::<rustls::Error>() {
            return matches!(fault, rustls::Error::InvalidCertificate(_));
        }
        next = inner(cause);
    }
    false
}

/// What caused an error. `source` of an `io::Error` skips the very error it wraps, which is where a TLS failure sits.
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

/// The HTTP library's parse error has no public type; its text is constant and free of content.
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

/// The resolver found only addresses the policy refuses.
#[derive(Debug, thiserror::Error)]
#[error("address not allowed")]
pub(super) struct Blocked;

/// The resolver found nothing.
#[derive(Debug, thiserror::Error)]
#[error("name not resolved")]
pub(super) struct Unresolved;
