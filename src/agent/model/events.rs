//! An answer as server-sent events.

use std::future::ready;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use sse_stream::{Error as SseError, Sse, SseStream};

use super::endpoint::{failed, malformed};
use crate::net::{self, OpenAnswer};
use crate::ports::ModelError;

type Data = Pin<Box<dyn Stream<Item = Result<String, ModelError>> + Send>>;

/// The documents of an answer, in order.
pub struct Events(Data);

impl Events {
    /// The documents of `answer`, of which at most `most` bytes are read.
    pub fn of(answer: OpenAnswer, most: u64) -> Self {
        let events = SseStream::from_bytes_stream(Box::pin(pieces(answer, most)));
        Self(Box::pin(events.filter_map(|event| ready(data_of(event)))))
    }

    /// The next document; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<String, ModelError>> {
        self.0.next().await
    }
}

/// The data of an event; events with only comments or names keep the connection open.
fn data_of(event: Result<Sse, SseError>) -> Option<Result<String, ModelError>> {
    match event {
        Ok(event) => event.data.map(Ok),
        Err(SseError::Body(cause)) => {
            let known = cause.downcast_ref::<net::Error>();
            Some(Err(known.map_or_else(malformed, failed)))
        }
        Err(_) => Some(Err(malformed())),
    }
}

/// Bytes that are read without reserving memory room.
const SMALL: u64 = 1 << 20;

fn pieces(mut answer: OpenAnswer, most: u64) -> impl Stream<Item = Result<Bytes, net::Error>> {
    async_stream::stream! {
        let mut read = 0;
        let mut has_room = false;
        loop {
            if read > SMALL && !has_room {
                answer.room().await;
                has_room = true;
            }
            match answer.piece().await {
                Ok(None) => return,
                Err(cause) => {
                    yield Err(cause);
                    return;
                }
                Ok(Some(piece)) => {
                    read += piece.len() as u64;
                    if read > most {
                        yield Err(net::Error::TooLarge { limit: most });
                        return;
                    }
                    yield Ok(piece);
                }
            }
        }
    }
}
