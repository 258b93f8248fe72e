//! Sends exports to a collector (OTLP 1.x): Protobuf over HTTP, or gRPC.

use std::io::Write as _;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use reqwest::Method;
use reqwest::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, TE,
};
use secrecy::ExposeSecret as _;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::net::policy::HttpVersion;
use crate::net::{Client, Error, Policy};
use crate::rules::telemetry::settings::{Protocol, SignalExport};

/// Wait before the first retry; doubled for each further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Maximum bytes of a response; a collector answers with a few.
const MAX_RESPONSE: u64 = 64 << 10;
/// Length of the frame header of a gRPC message: a flag, and the length in four bytes.
const FRAME: usize = 5;
/// gRPC status codes of failures that may pass (OTLP, failures): cancelled, deadline exceeded,
/// resource exhausted, aborted, out of range, unavailable, data loss.
const TRANSIENT: [u8; 7] = [1, 4, 8, 10, 11, 14, 15];

/// Why an export failed, without addresses, headers and texts of the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendError {
    pub label: String,
    is_transient: bool,
    /// How long the collector asks to wait.
    wait: Option<Duration>,
}

impl SendError {
    fn of_net(error: &Error) -> Self {
        Self {
            label: error.label().into_owned(),
            is_transient: error.is_transient(),
            wait: None,
        }
    }
}

/// The way to the collector for one signal.
pub struct Sender {
    client: Client,
    url: Url,
    headers: HeaderMap,
    protocol: Protocol,
    gzip: bool,
    timeout: Duration,
}

impl Sender {
    /// # Errors
    /// The client cannot be set up, or a header is invalid; the text is for the operator.
    pub fn new(export: &SignalExport) -> Result<Self, String> {
        let http_version = match export.protocol {
            Protocol::Http => HttpVersion::Http1,
            Protocol::Grpc => HttpVersion::Http2,
        };
        let policy = Policy {
            http_version,
            max_response_bytes: MAX_RESPONSE,
            ..Policy::model(export.timeout, 1)
        };
        let client = Client::new(policy).map_err(|cause| cause.to_string())?;
        client
            .check(&export.url)
            .map_err(|cause| format!("the OTLP endpoint is not usable: {cause}"))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &export.headers {
            let unusable = || format!("the header `{name}` for the OTLP endpoint is not valid");
            let key: HeaderName = name.parse().map_err(|_| unusable())?;
            let value = HeaderValue::from_str(value.expose_secret());
            let mut value = value.map_err(|_| unusable())?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        let gzip = HeaderValue::from_static("gzip");
        let media = match export.protocol {
            Protocol::Http => {
                if export.gzip {
                    headers.insert(CONTENT_ENCODING, gzip);
                }
                "application/x-protobuf"
            }
            Protocol::Grpc => {
                headers.insert(TE, HeaderValue::from_static("trailers"));
                if export.gzip {
                    headers.insert(HeaderName::from_static("grpc-encoding"), gzip);
                }
                "application/grpc"
            }
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        Ok(Self {
            client,
            url: export.url.clone(),
            headers,
            protocol: export.protocol,
            gzip: export.gzip,
            timeout: export.timeout,
        })
    }

    /// Sends a request message, and retries within the timeout until `stop`. Returns the number of
    /// items that the collector refused.
    ///
    /// # Errors
    /// The collector did not accept it.
    pub async fn send(&self, message: &[u8], stop: &CancellationToken) -> Result<u64, SendError> {
        let body = self.body(message);
        let ends = Instant::now() + self.timeout;
        let mut wait = FIRST_WAIT;
        loop {
            let error = match self.attempt(&body, ends).await {
                Ok(response) => return Ok(refused(&response)),
                Err(error) => error,
            };
            let pause = error.wait.unwrap_or(wait);
            if !error.is_transient || Instant::now() + pause >= ends {
                return Err(error);
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.cancelled() => return Err(error),
            }
            wait *= 2;
        }
    }

    fn body(&self, message: &[u8]) -> Bytes {
        let packed = self.gzip.then(|| gzipped(message));
        let content = packed.as_deref().unwrap_or(message);
        if self.protocol == Protocol::Http {
            return Bytes::copy_from_slice(content);
        }
        let mut framed = BytesMut::with_capacity(FRAME + content.len());
        framed.put_u8(u8::from(self.gzip));
        framed.put_u32(u32::try_from(content.len()).unwrap_or(u32::MAX));
        framed.put_slice(content);
        framed.freeze()
    }

    async fn attempt(&self, body: &Bytes, ends: Instant) -> Result<Bytes, SendError> {
        let left = ends.saturating_duration_since(Instant::now());
        let body = Some(body.clone());
        let call = async {
            let answer = self
                .client
                .open(Method::POST, &self.url, &self.headers, body)
                .await?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            let (content, trailers) = answer.with_trailers(MAX_RESPONSE).await?;
            Ok::<_, Error>((status, headers, content, trailers))
        };
        let answered = tokio::time::timeout(left, call).await;
        let answered = answered.unwrap_or(Err(Error::Timeout));
        let (status, headers, content, trailers) =
            answered.map_err(|error| SendError::of_net(&error))?;
        if !(200..300).contains(&status) {
            return Err(SendError {
                wait: wait_of(&headers),
                is_transient: matches!(status, 429 | 502..=504),
                ..SendError::of_net(&Error::Status(status))
            });
        }
        if self.protocol == Protocol::Http {
            return Ok(content);
        }
        // A failed call has its status in the headers if it has no message.
        let code = trailers.get("grpc-status").or(headers.get("grpc-status"));
        let code = code.and_then(|value| value.to_str().ok()?.parse::<u8>().ok());
        match code {
            Some(0) => Ok(content.slice(FRAME.min(content.len())..)),
            code => Err(SendError {
                label: code.map_or("not_grpc".to_owned(), |code| format!("grpc_{code}")),
                is_transient: code.is_some_and(|code| TRANSIENT.contains(&code)),
                wait: None,
            }),
        }
    }
}

/// The number of refused items; the responses of all signals have the same form.
fn refused(response: &Bytes) -> u64 {
    let partial = ExportTraceServiceResponse::decode(response.clone())
        .ok()
        .and_then(|response| response.partial_success);
    partial.map_or(0, |it| u64::try_from(it.rejected_spans).unwrap_or_default())
}

fn wait_of(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn gzipped(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(content);
    encoder.finish().unwrap_or_default()
}
