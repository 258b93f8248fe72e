//! Answers as they were seen on the wire, in plain types.

use serde_json::Value;

use crate::protocol::json;

/// What came of a request.
pub type Outcome = Result<Reply, NoReply>;

/// A complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: Headers,
    /// The body.
    pub body: Body,
    /// What follows the body, where HTTP/2 has it.
    pub trailers: Headers,
    /// Milliseconds from connecting to the last octet.
    pub elapsed_ms: u64,
}

/// A body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// All of it.
    Whole(Vec<u8>),
    /// More than was read; the rest was left.
    Oversized,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoReply {
    /// It was not asked.
    #[error("it was not asked")]
    NotSent,
    /// Not a URL to ask at.
    #[error("its URL is of no use")]
    Unusable,
    /// The guard refused the address.
    #[error("its host is internal")]
    Refused,
    /// No connection.
    #[error("there is no connection to it")]
    Unreachable,
    /// Out of time.
    #[error("it did not answer in time")]
    Timeout,
    /// The connection broke before the answer was complete.
    #[error("the connection broke")]
    Cut,
}

/// Headers, in the order they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// The first value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Every value of a header.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let of_name = move |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        self.0
            .iter()
            .filter(of_name)
            .map(|(_, value)| value.as_str())
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(headers: I) -> Self {
        let owned = headers.into_iter().map(|(k, v)| (k.into(), v.into()));
        Self(owned.collect())
    }
}

impl Reply {
    /// The body as JSON, if it is JSON everybody reads alike.
    pub fn json(&self) -> Option<Value> {
        match &self.body {
            Body::Whole(octets) => json::parse_foreign(octets).ok(),
            Body::Oversized => None,
        }
    }

    /// The media type the answer says it is, without parameters, in lower case.
    pub fn media_type(&self) -> Option<String> {
        let value = self.headers.get("content-type")?;
        let essence = value.split(';').next().unwrap_or_default();
        Some(essence.trim().to_ascii_lowercase())
    }

    /// Whether the answer is that credentials are missing or not enough.
    pub fn asks_for_credentials(&self) -> bool {
        matches!(self.status, 401 | 403)
    }
}
