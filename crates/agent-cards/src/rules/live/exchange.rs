//! Answers as received, in plain types.

use serde_json::Value;

use touchstone_kit::json;

/// The result of a request.
pub type Outcome = Result<Reply, NoReply>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub headers: Headers,
    pub body: Body,
    /// Headers after the body, for HTTP/2.
    pub trailers: Headers,
    /// Milliseconds from connecting to the last byte.
    pub elapsed_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The complete body.
    Whole(Vec<u8>),
    /// Larger than the limit; the rest was not read.
    Oversized,
}

/// The reason for a missing answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoReply {
    /// The request was not sent.
    #[error("it was not called")]
    NotSent,
    /// The URL cannot be called.
    #[error("its URL cannot be called")]
    Unusable,
    /// The guard refused the address.
    #[error("its host is internal")]
    Refused,
    /// No connection.
    #[error("no connection could be made")]
    Unreachable,
    #[error("it did not answer in time")]
    Timeout,
    /// The connection ended before the answer was complete.
    #[error("the connection ended early")]
    Cut,
}

/// Headers in order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

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
    /// The body, if it is strict JSON.
    pub fn json(&self) -> Option<Value> {
        match &self.body {
            Body::Whole(bytes) => json::parse_foreign(bytes).ok(),
            Body::Oversized => None,
        }
    }

    /// The media type of the answer, without parameters, in lower case.
    pub fn media_type(&self) -> Option<String> {
        let value = self.headers.get("content-type")?;
        let essence = value.split(';').next().unwrap_or_default();
        Some(essence.trim().to_ascii_lowercase())
    }

    /// Whether the answer says that credentials are missing or insufficient.
    pub fn asks_for_credentials(&self) -> bool {
        matches!(self.status, 401 | 403)
    }
}
