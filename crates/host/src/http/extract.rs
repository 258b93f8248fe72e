//! Extractors. Invalid input is refused with the error envelope.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::http::HttpHost;
use crate::http::answer::Failure;
use crate::http::negotiation::Spoken;
use crate::http::unread_body::HeldPermits;
pub use crate::service::fault::undescribed;
use crate::service::fault::{internal, unread_member};
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::RunId;
use touchstone_kit::json;
use touchstone_openwop::wire::Major;

/// Maximum time a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the rest of a body that is too large is read and discarded, so that the client lives to
/// read the response.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Larger bodies, in bytes, are parsed on a blocking thread: parsing would hold up other requests.
pub(super) const QUICKLY_PARSED: usize = 256 * 1024;
const MAX_ID: usize = 128;
const MAX_IDEMPOTENCY_KEY: usize = 255;

/// The members of a body.
///
/// # Errors
/// `validation_error` if the body is not an object.
pub fn members(body: &Value) -> Result<&Map<String, Value>, Problem> {
    body.as_object()
        .ok_or_else(|| Problem::validation("", "the body must be a JSON object"))
}

/// Path parameters that were translated from another major, by name. They replace those of the
/// path.
#[derive(Clone, Default)]
pub struct TranslatedIds(pub HashMap<String, String>);

/// The body of a request that was read and translated from another major.
#[derive(Clone)]
pub struct TranslatedBody(pub Value);

/// A path parameter, percent-decoded.
///
/// # Errors
/// `not_found` for a parameter that cannot be decoded.
pub async fn path_parameter<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    name: &str,
) -> Option<String> {
    let translated = parts.extensions.get::<TranslatedIds>();
    if let Some(id) = translated.and_then(|it| it.0.get(name)) {
        return Some(id.clone());
    }
    let parameters = RawPathParams::from_request_parts(parts, state).await.ok()?;
    parameters
        .iter()
        .find_map(|(key, value)| (key == name).then(|| value.to_owned()))
}

/// Whether a string holds a character that no name has and that not every database can store.
fn names_nothing(text: &str) -> bool {
    text.contains('\0')
}

/// Reads a body that allows no unknown members. The error names the member, never the value that
/// was sent.
///
/// # Errors
/// `validation_error`.
pub fn closed<T: for<'de> Deserialize<'de>>(body: &Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(body).map_err(|fault| undescribed(&unread_member(&fault)))
}

/// Whether a string is a possible run id.
pub fn is_run_id(id: &str) -> bool {
    (1..=MAX_ID).contains(&id.len())
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// The one error for a run that does not exist and for a run of another tenant.
pub fn no_such_run() -> Problem {
    Problem::new(ErrorCode::NotFound, "no such run")
}

fn no_such_thing() -> Problem {
    Problem::new(ErrorCode::NotFound, "not found")
}

pub struct PathParameters(HashMap<String, String>);

impl PathParameters {
    /// One parameter; empty if the route does not have it.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParameters {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let parameters = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| no_such_thing())?;
        let translated = parts.extensions.get::<TranslatedIds>().cloned();
        let mut parameters: HashMap<String, String> = parameters
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        parameters.extend(translated.unwrap_or_default().0);
        if parameters.values().any(|value| names_nothing(value)) {
            return Err(no_such_thing().into());
        }
        Ok(Self(parameters))
    }
}

/// The query string; each parameter at most once.
#[derive(Clone, Default)]
pub struct Query(HashMap<String, String>);

impl Query {
    /// The raw value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The same without parameters of empty value: browsers send every field of a form.
    #[must_use]
    pub fn filled(mut self) -> Self {
        self.0.retain(|_, value| !value.is_empty());
        self
    }

    /// The same with another value of a parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: String) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// The parameters as a query string, without some of them, in order of their names.
    pub fn without(&self, names: &[&str]) -> String {
        let kept = self.0.iter();
        let kept = kept.filter(|(name, _)| !names.contains(&name.as_str()));
        let mut kept: Vec<_> = kept.collect();
        kept.sort();
        url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(kept)
            .finish()
    }

    /// A required run id.
    ///
    /// # Errors
    /// `validation_error` if the parameter is missing; `not_found` if the value is not a possible
    /// run id.
    pub fn run(&self, name: &str) -> Result<RunId, Problem> {
        let id = self.get(name).filter(|id| !id.is_empty()).ok_or_else(|| {
            let required = format!("`{name}` is required: the id of the run to compare with");
            Problem::validation(name, required)
        })?;
        if is_run_id(id) {
            Ok(RunId::from(id))
        } else {
            Err(no_such_run())
        }
    }

    /// An integer within bounds.
    ///
    /// # Errors
    /// `validation_error` that names the parameter and its bounds.
    pub fn whole(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        text.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| text.parse().ok())
            .flatten()
            .filter(|number| (least..=most).contains(number))
            .map(Some)
            .ok_or_else(|| {
                let bounds = if most == u64::MAX {
                    format!("of at least {least}")
                } else {
                    format!("from {least} to {most}")
                };
                Problem::validation(name, format!("`{name}` must be an integer {bounds}"))
            })
    }
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let mut parameters = HashMap::new();
        let query = parts.uri.query().unwrap_or_default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            if names_nothing(&name) || names_nothing(&value) {
                return Err(Problem::new(
                    ErrorCode::ValidationError,
                    "a query parameter must not contain the character U+0000",
                )
                .into());
            }
            if parameters
                .insert(name.clone().into_owned(), value.into_owned())
                .is_some()
            {
                return Err(Problem::new(
                    ErrorCode::ValidationError,
                    "a query parameter must not appear twice",
                )
                .into());
            }
        }
        Ok(Self(parameters))
    }
}

/// The `Idempotency-Key` header, if sent.
pub struct IdempotencyKey(pub Option<RequestKey>);

/// The key of a request, and the major of the request: majors repeat different answers.
#[derive(Clone, Debug)]
pub struct RequestKey {
    pub text: String,
    pub major: Major,
}

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Failure;

    fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> impl Future<Output = Result<Self, Failure>> + Send {
        let spoken = parts.extensions.get::<Spoken>();
        let major = spoken.map_or(Major::V1, |it| it.0);
        let mut values = parts.headers.get_all("idempotency-key").iter();
        let key = match (values.next(), values.next()) {
            (None, _) => Ok(Self(None)),
            (Some(value), None) => value
                .to_str()
                .ok()
                .filter(|key| (1..=MAX_IDEMPOTENCY_KEY).contains(&key.len()))
                .map(|key| RequestKey {
                    text: key.to_owned(),
                    major,
                })
                .map(|key| Self(Some(key)))
                .ok_or_else(malformed_key),
            (Some(_), Some(_)) => Err(malformed_key()),
        };
        std::future::ready(key)
    }
}

fn malformed_key() -> Failure {
    Problem::validation(
        "Idempotency-Key",
        "`Idempotency-Key` must be sent once, with 1 to 255 visible ASCII characters",
    )
    .into()
}

/// A JSON body, parsed strictly.
pub struct JsonBody(pub Value);

impl<S: AsRef<Arc<HttpHost>> + Send + Sync> FromRequest<Arc<S>> for JsonBody {
    type Rejection = Failure;

    async fn from_request(mut request: Request, state: &Arc<S>) -> Result<Self, Failure> {
        if let Some(TranslatedBody(body)) = request.extensions_mut().remove() {
            return Ok(Self(body));
        }
        require_json(&request)?;
        parse(request, state.as_ref().as_ref()).await.map(Self)
    }
}

/// An optional JSON body.
pub struct OptionalJsonBody(pub Value);

impl<S: AsRef<Arc<HttpHost>> + Send + Sync> FromRequest<Arc<S>> for OptionalJsonBody {
    type Rejection = Failure;

    async fn from_request(mut request: Request, state: &Arc<S>) -> Result<Self, Failure> {
        let body = match request.extensions_mut().remove() {
            Some(TranslatedBody(body)) => Some(body),
            None => json_if_sent(request, state.as_ref().as_ref()).await?,
        };
        Ok(Self(body.unwrap_or_else(|| Value::Object(Map::new()))))
    }
}

/// The JSON body of a request, parsed strictly; `None` if the body is empty.
///
/// # Errors
/// As for [`JsonBody`].
pub async fn json_if_sent(request: Request, host: &HttpHost) -> Result<Option<Value>, Failure> {
    let typed = request.headers().contains_key(CONTENT_TYPE);
    if typed {
        require_json(&request)?;
    }
    let held = request.extensions().get::<HeldPermits>().cloned();
    let octets = read(request, host.settings.max_body_bytes).await?;
    if octets.is_empty() {
        return Ok(None);
    }
    if !typed {
        return Err(wrong_type());
    }
    parse_octets(octets, held, host).await.map(Some)
}

async fn parse(request: Request, state: &HttpHost) -> Result<Value, Failure> {
    let held = request.extensions().get::<HeldPermits>().cloned();
    let octets = read(request, state.settings.max_body_bytes).await?;
    parse_octets(octets, held, state).await
}

/// Parses a body. Memory for the parsed value stays reserved until the request ends.
async fn parse_octets(
    octets: Bytes,
    held: Option<HeldPermits>,
    state: &HttpHost,
) -> Result<Value, Failure> {
    let memory = state.limits.weigh(json::weight(&octets))?;
    if let Some(held) = held {
        held.keep(memory);
    }
    let parsed = if octets.len() > QUICKLY_PARSED {
        // Keep the async thread free for other requests.
        tokio::task::spawn_blocking(move || json::parse(&octets))
            .await
            .map_err(|cause| internal(&cause))?
    } else {
        json::parse(&octets)
    };
    parsed.map_err(|fault| {
        Problem::new(ErrorCode::ValidationError, format!("the body {fault}")).into()
    })
}

fn require_json(request: &Request) -> Result<(), Failure> {
    let said = |name| request.headers().get(name).map(|value| value.to_str());
    let mut parts = match said(CONTENT_TYPE) {
        Some(Ok(text)) => text.split(';').map(str::trim),
        _ => return Err(wrong_type()),
    };
    let is_json = parts
        .next()
        .is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"));
    // JSON is UTF-8 (RFC 8259 §8.1); other parameters have no meaning.
    let is_text = parts
        .filter_map(|parameter| parameter.split_once('='))
        .filter(|(name, _)| name.eq_ignore_ascii_case("charset"))
        .all(|(_, charset)| charset.trim_matches('"').eq_ignore_ascii_case("utf-8"));
    let is_plain = match said(CONTENT_ENCODING) {
        None => true,
        Some(coding) => coding.is_ok_and(|coding| coding.eq_ignore_ascii_case("identity")),
    };
    if is_json && is_text && is_plain {
        Ok(())
    } else {
        Err(wrong_type())
    }
}

fn wrong_type() -> Failure {
    Problem::new(
        ErrorCode::UnsupportedMediaType,
        "send the body as JSON in UTF-8, not compressed, with `Content-Type: application/json`",
    )
    .into()
}

async fn read(request: Request, limit: usize) -> Result<Bytes, Failure> {
    let announced = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<u64>().ok());
    let mut body = request.into_body();
    if announced.is_some_and(|length| length > limit as u64) {
        drain(&mut body, limit).await;
        return Err(too_large(limit));
    }
    let announced = announced.and_then(|length| usize::try_from(length).ok());
    let collecting = collect(&mut body, announced.unwrap_or_default(), limit);
    match tokio::time::timeout(BODY_TIMEOUT, collecting).await {
        Ok(Ok(octets)) => Ok(octets),
        Ok(Err(Unreadable::TooLarge)) => {
            drain(&mut body, limit).await;
            Err(too_large(limit))
        }
        Ok(Err(Unreadable::Broken)) => Err(incomplete()),
        Err(_) => Err(incomplete()),
    }
}

enum Unreadable {
    TooLarge,
    Broken,
}

async fn collect(body: &mut Body, announced: usize, limit: usize) -> Result<Bytes, Unreadable> {
    // Growing the buffer step by step would take twice the memory.
    let mut octets = BytesMut::with_capacity(announced.min(limit));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Unreadable::Broken)?;
        if let Some(data) = frame.data_ref() {
            if octets.len() + data.len() > limit {
                return Err(Unreadable::TooLarge);
            }
            octets.extend_from_slice(data);
        }
    }
    Ok(octets.freeze())
}

/// Reads and discards the rest for a while: a client whose upload is cut off may never read the
/// response.
async fn drain(body: &mut Body, limit: usize) {
    let mut left = limit.saturating_mul(2);
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, async {
        while let Some(Ok(frame)) = body.frame().await {
            let read = frame.data_ref().map_or(0, Bytes::len);
            left = left.saturating_sub(read);
            if left == 0 {
                break;
            }
        }
    })
    .await;
}

fn too_large(limit: usize) -> Failure {
    Problem::new(
        ErrorCode::PayloadTooLarge,
        format!("the body is larger than {limit} bytes (`limits.maxRequestBodyBytes`)"),
    )
    .with("maxRequestBodyBytes", limit)
    .into()
}

fn incomplete() -> Failure {
    Problem::new(
        ErrorCode::ValidationError,
        "the body did not arrive completely; send it again",
    )
    .into()
}
