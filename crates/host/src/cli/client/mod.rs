//! One client for every command: requests, error envelopes and event streams over a [`Transport`].

pub mod embedded;
pub mod remote;
pub mod sse;
#[cfg(test)]
mod tests;
pub mod transport;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_stream::try_stream;
use axum::http::Method;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use crate::cli::client::embedded::Embedded;
pub use crate::cli::client::remote::Remote;
pub use crate::cli::client::transport::{Call, Reply, Transport};

use crate::cli::exit::Failure;
use crate::net::sse::Error as StreamError;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::operation::twin;

/// Reconnections in a row without a new event before the client gives up.
const STREAM_ATTEMPTS: u32 = 5;
/// Maximum size of a JSON response in bytes; a report of 100,000 tasks has about 30 MB.
const MAX_DOCUMENT: usize = 256 << 20;

pub struct Client {
    transport: Box<dyn Transport>,
    reconnect_after: Duration,
    /// Whether the host serves major 1 no longer.
    is_v1_retired: AtomicBool,
}

impl Client {
    pub fn new(transport: impl Transport + 'static) -> Self {
        Self {
            transport: Box::new(transport),
            reconnect_after: Duration::from_millis(200),
            is_v1_retired: AtomicBool::new(false),
        }
    }

    /// Sends `GET` and parses the JSON response.
    ///
    /// # Errors
    /// The host's error response, or the reason for a missing response.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.call(Call::new(Method::GET, path)).await
    }

    /// Sends `POST` with a JSON body and parses the JSON response.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Failure> {
        self.call(Call::new(Method::POST, path).json(body)).await
    }

    /// Sends any request and parses the JSON response; an empty one is parsed as `null`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, Failure> {
        let body = self.octets(call).await?;
        let text: &[u8] = if body.is_empty() { b"null" } else { &body };
        serde_json::from_slice(text).map_err(|cause| Failure::unexpected(&cause))
    }

    /// Sends any request and returns the response's bytes.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn octets(&self, call: Call) -> Result<Vec<u8>, Failure> {
        let mut pieces = self.pieces(call).await?;
        let mut body = Vec::new();
        while let Some(piece) = pieces.next().await {
            body.extend_from_slice(&piece?);
            if body.len() > MAX_DOCUMENT {
                return Err(too_large());
            }
        }
        Ok(body)
    }

    /// Sends any request and returns the response's bytes while they arrive, for responses that are
    /// not kept in memory.
    ///
    /// # Errors
    /// As [`Self::get`], before the first piece and instead of any other one.
    pub async fn pieces(
        &self,
        call: Call,
    ) -> Result<BoxStream<'static, Result<Bytes, Failure>>, Failure> {
        let reply = self.exchange(call).await?;
        if (200..300).contains(&reply.status) {
            return Ok(reply.body);
        }
        Err(refused(reply).await)
    }

    /// Sends a request. Commands speak major 1; a host that serves it no longer answers them at the
    /// twins of its operations.
    async fn exchange(&self, mut call: Call) -> Result<Reply, Failure> {
        let Some(twin) = twin(&call.path) else {
            return self.transport.exchange(call).await;
        };
        if !self.is_v1_retired.load(Ordering::Relaxed) {
            let reply = self.transport.exchange(call.clone()).await?;
            if !is_of_major_2(&reply) {
                return Ok(reply);
            }
            self.is_v1_retired.store(true, Ordering::Relaxed);
        }
        call.path = twin;
        self.transport.exchange(call).await
    }

    /// Events of a run after sequence `after`, or all, in order, up to the terminal event; reconnects
    /// after interruptions.
    pub fn events<'a>(
        &'a self,
        run: &'a str,
        mode: &'a str,
        buffer: Duration,
        mut after: Option<u64>,
    ) -> impl Stream<Item = Result<Value, Failure>> + 'a {
        try_stream! {
            let buffer_ms = buffer.as_millis();
            let mut attempts = 0;
            loop {
                let mut call = Call::new(
                    Method::GET,
                    &format!("/v1/runs/{run}/events?streamMode={mode}&bufferMs={buffer_ms}"),
                )
                .header("accept", "text/event-stream");
                if let Some(after) = after {
                    call = call.header("last-event-id", &after.to_string());
                }
                let reply = match self.exchange(call).await {
                    Ok(reply) if reply.status == 200 => Ok(reply),
                    Ok(reply) => Err(refused(reply).await),
                    Err(failure) => Err(failure),
                };
                let ended = match reply {
                    Ok(reply) => {
                        let mut frames = sse::frames(reply.body);
                        let mut ended = Ok(());
                        while let Some(frame) = frames.next().await {
                            let frame = match frame {
                                Ok(frame) => frame,
                                Err(StreamError::Source(failure)) => {
                                    ended = Err(failure);
                                    break;
                                }
                                Err(StreamError::TooLarge { .. }) => {
                                    Err(sse::malformed("a frame is too large"))?
                                }
                                Err(StreamError::Malformed) => {
                                    Err(sse::malformed("a line is not valid"))?
                                }
                            };
                            for event in sse::documents(&frame)? {
                                if let Some(sequence) = event.get("sequence").and_then(Value::as_u64) {
                                    if after.is_some_and(|after| sequence <= after) {
                                        continue;
                                    }
                                    after = Some(sequence);
                                }
                                attempts = 0;
                                let terminal = is_terminal(&event);
                                yield event;
                                if terminal {
                                    return;
                                }
                            }
                        }
                        ended
                    }
                    // Repeating a refused request does not help.
                    Err(failure) if failure.exit == crate::cli::exit::Exit::BadInput => Err(failure)?,
                    Err(failure) => Err(failure),
                };
                attempts += 1;
                if attempts >= STREAM_ATTEMPTS {
                    ended?;
                    Err(Failure::not_done("stream_lost", "the event stream repeatedly ended before the run did")
                        .or_try(format!("resume with touchstone run events {run} --follow")))?;
                }
                tokio::time::sleep(self.reconnect_after * attempts).await;
            }
        }
    }
}

/// A page of a run's events, as JSON.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventPage {
    pub events: Vec<Value>,
    /// Whether the run will have no further events.
    pub is_complete: bool,
}

pub fn is_terminal(event: &Value) -> bool {
    matches!(
        event.get("type").and_then(Value::as_str),
        Some("run.completed" | "run.failed" | "run.cancelled")
    )
}

/// Whether the host answered a path of major 1 in the form of major 2: it serves only that.
fn is_of_major_2(reply: &Reply) -> bool {
    let version = reply.version.as_ref();
    version.is_some_and(|it| it == Major::V2.version())
}

fn too_large() -> Failure {
    Failure::not_done("answer_too_large", "the response is too large")
}

async fn refused(mut reply: Reply) -> Failure {
    let mut body = Vec::new();
    while let Some(Ok(piece)) = reply.body.next().await {
        body.extend_from_slice(&piece);
        if body.len() > 1 << 20 {
            break;
        }
    }
    Failure::answered(reply.status, &body)
}
