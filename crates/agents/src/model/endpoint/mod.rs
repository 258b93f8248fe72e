//! A model endpoint over HTTP: the parts that all protocols share.
//!
//! One call is one attempt; the runtime retries. There is one exception: if an endpoint does not
//! accept a member of the request, the same attempt continues without the member, and the adapter
//! remembers this for its lifetime. This applies to the return schema (which is then described in
//! the instructions), to the name of `max_tokens`, to `temperature` and to `stream`.
//!
//! The key is read at construction, kept as a secret and sent as a header marked sensitive. Errors
//! contain only labels: no body, no URL, no key.

pub mod cancellation;
pub mod dialect;
pub mod permits;
pub mod refusal;
pub mod sse;
pub mod stream;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::model::endpoint::dialect::{Dialect, Fallbacks, KnownDialect};
use crate::model::endpoint::refusal::{Refusal, read_refusal};
use crate::model::endpoint::stream::StreamedReply;
use crate::model::wire::tool_names::ToolNames;
use crate::ports::model::{Model, ModelError, ModelInfo, RATE_LIMITED};
use crate::rules::{ModelReply, ModelRequest};
use touchstone_host::net;
use touchstone_host::net::address::AddressScope;
use touchstone_host::net::policy::Policy;
use touchstone_host::net::{Answer, Client, OpenAnswer};
use touchstone_host::ports::clock::Clock;
use touchstone_kit::headers::retry_after::retry_after;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const STREAM_OR_JSON: HeaderValue =
    HeaderValue::from_static("text/event-stream, application/json;q=0.9");

/// Maximum bytes of a public document, and the timeout for it.
const PUBLIC_OCTETS: u64 = 256 << 10;
const PUBLIC_TAKES: Duration = Duration::from_secs(5);

/// Why an endpoint cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The base URL or the HTTP client is invalid.
    #[error(transparent)]
    Net(#[from] net::Error),
    /// The key is not a valid header value.
    #[error("the API key contains characters that an HTTP header cannot contain")]
    Key,
}

/// The protocol of a model endpoint.
pub trait EndpointProtocol: Send + Sync + 'static {
    /// Assembles a streamed answer.
    type StreamedReply: StreamedReply;
    /// Path of calls below the base URL.
    const PATH: &'static [&'static str];
    /// The fallbacks that the protocol has.
    const FALLBACKS: Fallbacks;

    /// The header with the key, and its value.
    fn credentials(key: &SecretString) -> (HeaderName, SecretString) {
        bearer(key)
    }

    /// Additional headers of every call.
    fn headers() -> Option<(HeaderName, HeaderValue)> {
        None
    }

    /// The body of a request.
    ///
    /// # Errors
    /// It cannot be serialized as JSON.
    fn write(
        model: &str,
        request: &ModelRequest<'_>,
        names: &ToolNames<'_>,
        dialect: Dialect,
    ) -> serde_json::Result<Vec<u8>>;

    /// The reply in the body of a successful answer; `None` if it has none.
    fn read(body: &[u8], names: &ToolNames<'_>) -> Option<ModelReply>;
}

/// The address of an endpoint, and how to call it.
#[derive(Clone)]
pub struct Access {
    pub url: Url,
    /// The credential, if the endpoint needs one.
    pub key: Option<SecretString>,
    pub info: ModelInfo,
    /// For `Retry-After` dates.
    pub clock: Arc<dyn Clock>,
    /// Which addresses the URL may lead to; depends on who supplied it.
    pub reach: AddressScope,
}

impl Access {
    /// Appends a path to the URL.
    ///
    /// # Errors
    /// The URL cannot have a path.
    pub fn below(mut self, path: &[&str]) -> Result<Self, Error> {
        self.url
            .path_segments_mut()
            .map_err(|()| net::Error::Url("it cannot have a path"))?
            .pop_if_empty()
            .extend(path);
        Ok(self)
    }
}

/// The key as a bearer token.
pub fn bearer(key: &SecretString) -> (HeaderName, SecretString) {
    let bearer = format!("Bearer {}", key.expose_secret());
    (AUTHORIZATION, bearer.into())
}

/// A URL that is called with documents.
pub struct Remote {
    client: Client,
    url: Url,
    headers: HeaderMap,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").finish_non_exhaustive()
    }
}

/// An answer to a request for a stream.
#[derive(Debug)]
pub enum StreamAnswer {
    Stream(OpenAnswer),
    /// A complete answer.
    Whole(Answer),
}

impl Remote {
    /// A remote at the address itself, with the header that `credentials` derives from the key and
    /// an optional further one.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(
        access: &Access,
        credentials: impl FnOnce(&SecretString) -> (HeaderName, SecretString),
        header: Option<(HeaderName, HeaderValue)>,
    ) -> Result<Self, Error> {
        let (url, info) = (access.url.clone(), &access.info);
        let concurrency = usize::try_from(info.max_concurrency).unwrap_or(usize::MAX);
        let client = Client::new(Policy {
            reach: access.reach,
            ..Policy::model(info.timeout, concurrency)
        })?;
        client.check(&url)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(header);
        if let Some((name, value)) = access.key.as_ref().map(credentials) {
            let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| Error::Key)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(Self {
            client,
            url,
            headers,
            clock: access.clock.clone(),
        })
    }

    /// Posts a document. Endpoints that support `Idempotency-Key` answer a repeated call as before.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn post(&self, body: Vec<u8>, key: Option<&str>) -> Result<Answer, ModelError> {
        self.client
            .post(&self.url, &self.headers(key)?, body)
            .await
            .map_err(|e| failed(&e))
    }

    /// Posts a document that asks for a stream. Endpoints without streams send a complete answer;
    /// so do all endpoints on failure.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn open(&self, body: Vec<u8>, key: Option<&str>) -> Result<StreamAnswer, ModelError> {
        let mut headers = self.headers(key)?;
        headers.insert(ACCEPT, STREAM_OR_JSON);
        let answer = self
            .client
            .open(Method::POST, &self.url, &headers, Some(body.into()))
            .await
            .map_err(|e| failed(&e))?;
        if (200..300).contains(&answer.status()) && is_of(answer.headers(), is_stream) {
            return Ok(StreamAnswer::Stream(answer));
        }
        let policy = self.client.policy();
        answer
            .whole(policy.max_response_bytes, policy.total_timeout)
            .await
            .map(StreamAnswer::Whole)
            .map_err(|e| failed(&e))
    }

    /// # Errors
    /// The idempotency key is not a valid header. A call without it could be paid for twice.
    fn headers(&self, key: Option<&str>) -> Result<HeaderMap, ModelError> {
        let mut headers = self.headers.clone();
        if let Some(key) = key {
            let key = HeaderValue::from_str(key)
                .map_err(|_| ModelError::unavailable("request_not_serialisable", false))?;
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        Ok(headers)
    }

    /// Gets a document below the URL.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn get(&self, below: &[&str], query: &[(&str, &str)]) -> Result<Answer, ModelError> {
        let mut url = self.below(below)?;
        url.query_pairs_mut().extend_pairs(query);
        self.get_at(&url).await
    }

    /// Gets a document at another URL of the same host, with the same credentials.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn get_at(&self, url: &Url) -> Result<Answer, ModelError> {
        let answer = self.client.get(url, &self.headers).await;
        answer.map_err(|e| failed(&e))
    }

    /// Posts a document below the URL.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn post_below(&self, below: &[&str], body: Vec<u8>) -> Result<Answer, ModelError> {
        let url = self.below(below)?;
        let answer = self.client.post(&url, &self.headers, body).await;
        answer.map_err(|e| failed(&e))
    }

    fn below(&self, path: &[&str]) -> Result<Url, ModelError> {
        let mut url = self.url.clone();
        url.path_segments_mut()
            .map_err(|()| ModelError::unavailable("invalid_url", false))?
            .extend(path);
        Ok(url)
    }

    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Gets a small public document at another URL; `None` if it does not exist.
    ///
    /// # Errors
    /// The document could not be fetched.
    pub async fn public(&self, url: &Url) -> Result<Option<Bytes>, net::Error> {
        match self
            .client
            .get_limited(url, PUBLIC_OCTETS, PUBLIC_TAKES)
            .await
        {
            Ok(document) => Ok(Some(document)),
            Err(cause) if cause.is_transient() => Err(cause),
            Err(_) => Ok(None),
        }
    }

    /// The error for an unsuccessful answer.
    pub fn failure(&self, answer: &Answer) -> ModelError {
        self.refused(answer.status, &answer.headers)
    }

    /// The error for an unsuccessful status.
    pub fn refused(&self, status: u16, headers: &HeaderMap) -> ModelError {
        let asked = || {
            let header = headers.get(RETRY_AFTER)?;
            retry_after(header.to_str().ok()?, self.clock.now())
        };
        match status {
            429 => ModelError::Unavailable {
                reason: RATE_LIMITED.to_owned(),
                retryable: true,
                retry_after: asked(),
            },
            408 | 500..=599 => ModelError::Unavailable {
                reason: format!("status_{status}"),
                retryable: true,
                retry_after: asked(),
            },
            401 => ModelError::unavailable("unauthorized", false),
            402 => ModelError::unavailable("quota_exhausted", false),
            403 => ModelError::unavailable("forbidden", false),
            404 => ModelError::unavailable("not_found", false),
            300..=399 => ModelError::unavailable("redirect", false),
            _ => ModelError::unavailable(format!("status_{status}"), false),
        }
    }
}

/// The document in a successful answer.
///
/// # Errors
/// It has another content type.
pub fn json_of(answer: &Answer) -> Result<&[u8], ModelError> {
    // A missing type is tolerated; a wrong one is a proxy's page or an unexpected stream.
    if answer.headers.contains_key(CONTENT_TYPE) && !is_of(&answer.headers, is_json) {
        return Err(ModelError::unavailable("wrong_content_type", true));
    }
    Ok(&answer.body)
}

fn is_of(headers: &HeaderMap, media: fn(&[u8]) -> bool) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|typed| media(typed.as_bytes()))
}

/// An endpoint that speaks a protocol.
pub struct HttpModel<W> {
    remote: Remote,
    info: ModelInfo,
    /// Timeout for each piece of a streamed answer.
    silence: Duration,
    known: KnownDialect,
    protocol: PhantomData<W>,
}

impl<W> std::fmt::Debug for HttpModel<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpModel")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl<W: EndpointProtocol> HttpModel<W> {
    /// An endpoint below the address, which ends before the protocol's own path.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(access: Access) -> Result<Self, Error> {
        let access = access.below(W::PATH)?;
        let remote = Remote::new(&access, W::credentials, W::headers())?;
        Ok(Self {
            remote,
            silence: access.info.timeout,
            info: access.info,
            known: KnownDialect::new(false),
            protocol: PhantomData,
        })
    }

    /// Streams answers if the endpoint supports it: the timeout then applies to each piece, and a
    /// whole answer may take ten times as long.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.info.timeout = self.silence.saturating_mul(stream::LONGEST);
        self.known = KnownDialect::new(true);
        self
    }
}

#[async_trait]
impl<W: EndpointProtocol> Model for HttpModel<W> {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let names = ToolNames::new(request.tools);
        let mut dialect = self.known.dialect();
        loop {
            let body = W::write(&self.info.model, request, &names, dialect)
                .map_err(|_| ModelError::unavailable("request_not_serialisable", false))?;
            // An idempotency key is for one body: a dialect that writes another body has its own
            // key, derived from the first one.
            let key = request.activity.as_ref();
            let key = key.map(|activity| format!("{activity}{}", dialect.suffix()));
            let answer = if dialect.streamed {
                match self.remote.open(body, key.as_deref()).await? {
                    StreamAnswer::Stream(answer) => {
                        let pieces: W::StreamedReply = stream::read(answer, self.silence).await?;
                        return pieces.reply(&names).ok_or_else(malformed);
                    }
                    StreamAnswer::Whole(answer) => answer,
                }
            } else {
                self.remote.post(body, key.as_deref()).await?
            };
            if (200..300).contains(&answer.status) {
                return W::read(json_of(&answer)?, &names).ok_or_else(malformed);
            }
            let refusal = match answer.status {
                400 | 413 | 422 => read_refusal(&answer.body),
                // Whatever the body says, a rate limit is waited out.
                429 => match read_refusal(&answer.body) {
                    Refusal::QuotaExhausted => Refusal::QuotaExhausted,
                    _ => Refusal::Other,
                },
                _ => Refusal::Other,
            };
            match refusal {
                Refusal::Rejected(reason) => return Err(ModelError::Rejected { reason }),
                Refusal::QuotaExhausted => {
                    return Err(ModelError::unavailable("quota_exhausted", false));
                }
                Refusal::NoTools => {
                    return Err(ModelError::unavailable("tools_unsupported", false));
                }
                _ => {}
            }
            dialect = dialect
                .after(refusal, request, W::FALLBACKS)
                .ok_or_else(|| self.remote.failure(&answer))?;
            self.known.remember(dialect);
        }
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}

/// The error for a request without an answer.
pub fn failed(error: &net::Error) -> ModelError {
    ModelError::unavailable(error.label(), error.is_transient())
}

/// The error for an answer without a reply.
pub fn malformed() -> ModelError {
    ModelError::unavailable("malformed_reply", true)
}

fn is_json(content_type: &[u8]) -> bool {
    let media = media(content_type);
    media == b"application/json" || media.ends_with(b"+json")
}

fn is_stream(content_type: &[u8]) -> bool {
    media(content_type) == b"text/event-stream"
}

fn media(content_type: &[u8]) -> Vec<u8> {
    let mut parts = content_type.split(|octet| *octet == b';');
    let media = parts.next().unwrap_or_default();
    media.trim_ascii().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("application/json", true)]
    #[case("application/json; charset=utf-8", true)]
    #[case("application/vnd.api+json", true)]
    #[case("text/html", false)]
    #[case("text/event-stream", false)]
    fn only_json_media_types_are_recognized_as_json(#[case] name: &str, #[case] expected: bool) {
        assert_eq!(is_json(name.as_bytes()), expected);
    }
}
