//! One client for every command: requests, error envelopes and event streams over a [`Transport`].

mod embedded;
mod remote;
mod sse;
mod transport;

use std::time::Duration;

use async_stream::try_stream;
use axum::http::Method;
use futures_util::{Stream, StreamExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use embedded::Embedded;
pub use remote::Remote;
pub use transport::{Call, Reply, Transport};

use super::exit::Failure;
use sse::Decoder;

/// Reconnections in a row without a single new event before a stream is given up.
const STREAM_ATTEMPTS: u32 = 5;
/// Longest JSON document that is read; a report of 100,000 tasks has about 30 MB.
const MAX_DOCUMENT: usize = 256 << 20;

/// Speaks to a host.
pub struct Client {
    transport: Box<dyn Transport>,
    reconnect_after: Duration,
}

impl Client {
    /// A client over a transport.
    pub fn new(transport: impl Transport + 'static) -> Self {
        Self {
            transport: Box::new(transport),
            reconnect_after: Duration::from_millis(200),
        }
    }

    /// `GET`, read as a document.
    ///
    /// # Errors
    /// The host's answer if it is no success; what kept it from answering.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.call(Call::new(Method::GET, path)).await
    }

    /// `POST` of a document, answered with one.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Failure> {
        self.call(Call::new(Method::POST, path).json(body)).await
    }

    /// Any request, answered with a document; an empty answer reads as `null`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, Failure> {
        let body = self.octets(call).await?;
        let text: &[u8] = if body.is_empty() { b"null" } else { &body };
        serde_json::from_slice(text).map_err(|cause| Failure::unexpected(&cause))
    }

    /// Any request, answered with whatever it is.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn octets(&self, call: Call) -> Result<Vec<u8>, Failure> {
        let mut reply = self.transport.exchange(call).await?;
        let mut body = Vec::new();
        while let Some(piece) = reply.body.next().await {
            body.extend_from_slice(&piece?);
            if body.len() > MAX_DOCUMENT {
                return Err(Failure::not_done(
                    "answer_too_large",
                    "the answer is too large",
                ));
            }
        }
        if !(200..300).contains(&reply.status) {
            return Err(Failure::answered(reply.status, &body));
        }
        Ok(body)
    }

    /// The events of a run from the one after `after`, in order, until the terminal one; reconnects where it was cut off.
    pub fn events<'a>(
        &'a self,
        run: &'a str,
        mode: &'a str,
        buffer: Duration,
        mut after: u64,
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
                if after > 0 {
                    call = call.header("last-event-id", &after.to_string());
                }
                let reply = match self.transport.exchange(call).await {
                    Ok(reply) if reply.status == 200 => Ok(reply),
                    Ok(reply) => Err(refused(reply).await),
                    Err(failure) => Err(failure),
                };
                let ended = match reply {
                    Ok(mut reply) => {
                        let mut decoder = Decoder::default();
                        let mut ended = Ok(());
                        while let Some(piece) = reply.body.next().await {
                            let piece = match piece {
                                Ok(piece) => piece,
                                Err(failure) => {
                                    ended = Err(failure);
                                    break;
                                }
                            };
                            for event in decoder.feed(&piece)? {
                                if let Some(sequence) = event.get("sequence").and_then(Value::as_u64) {
                                    if sequence <= after {
                                        continue;
                                    }
                                    after = sequence;
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
                    // Asking again changes nothing about a refusal.
                    Err(failure) if failure.exit == super::exit::Exit::BadInput => Err(failure)?,
                    Err(failure) => Err(failure),
                };
                attempts += 1;
                if attempts >= STREAM_ATTEMPTS {
                    ended?;
                    Err(Failure::not_done("stream_lost", "the event stream keeps ending before the run does")
                        .or_try(format!("touchstone run events {run} --follow")))?;
                }
                tokio::time::sleep(self.reconnect_after * attempts).await;
            }
        }
    }
}

/// Events of a run from a position on, as JSON.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventPage {
    /// The documents, in order.
    pub events: Vec<Value>,
    /// Whether there will never be more.
    pub is_complete: bool,
}

/// Whether an event document ends its run.
pub fn is_terminal(event: &Value) -> bool {
    matches!(
        event.get("type").and_then(Value::as_str),
        Some("run.completed" | "run.failed" | "run.cancelled")
    )
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

#[cfg(test)]
mod tests;
