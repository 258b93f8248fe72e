//! Answers streamed as server-sent events.
//!
//! A stalled answer is recognized by its silence: each piece has the timeout that a complete answer
//! has otherwise. The whole answer is also limited in time and size.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_stream::stream;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use sse_stream::SseStream;
use tokio::time::{Instant, timeout_at};

use super::endpoint::{failed, malformed, unavailable};
use super::tool_names::ToolNames;
use crate::domain::agent::ModelReply;
use crate::net::{self, OpenAnswer};
use crate::ports::ModelError;

/// Maximum bytes of a stream. Each token has an overhead of several hundred bytes.
const MOST_OCTETS: usize = 64 << 20;
/// Maximum bytes of an assembled answer, the same as for a complete answer.
const MOST_HELD: usize = 8 << 20;
/// Maximum bytes of one event: its lines are held until it ends.
const LONGEST_EVENT: usize = 1 << 20;
/// Bytes that are held without reserving memory room.
const SMALL: usize = 64 << 10;
/// Maximum duration of a whole answer, as a multiple of the timeout for a piece.
pub const LONGEST: u32 = 10;

/// Assembles an answer from the events of a stream.
pub trait Pieces: Default + Send {
    /// Takes the data of one event.
    fn take(&mut self, data: &str) -> Taken;

    /// Number of bytes held.
    fn held(&self) -> usize;

    /// The reply; `None` if the stream ended before the reply was complete.
    fn reply(self, names: &ToolNames<'_>) -> Option<ModelReply>;
}

/// The meaning of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A piece, or an event to skip.
    More,
    /// The last piece.
    Last,
    /// The endpoint failed in the middle of its answer.
    Fault,
    /// Not an event of this wire.
    Malformed,
}

/// Reads a stream to its last piece.
///
/// # Errors
/// The stream breaks off, stalls, reports a failure, or is malformed.
pub async fn read<P: Pieces>(answer: OpenAnswer, silence: Duration) -> Result<P, ModelError> {
    let held = Arc::new(AtomicUsize::new(0));
    let octets = octets(answer, silence, Arc::clone(&held));
    let mut events = Box::pin(SseStream::from_bytes_stream(octets));
    let mut pieces = P::default();
    while let Some(event) = events.next().await {
        let event = event.map_err(|e| match e {
            sse_stream::Error::Body(cause) => cause
                .downcast_ref::<net::Error>()
                .map_or_else(malformed, failed),
            _ => malformed(),
        })?;
        // Events without data only keep the connection open.
        let taken = event.data.map_or(Taken::More, |data| pieces.take(&data));
        held.store(pieces.held(), Ordering::Relaxed);
        if pieces.held() > MOST_HELD {
            let limit = MOST_HELD as u64;
            return Err(failed(&net::Error::TooLarge { limit }));
        }
        match taken {
            Taken::More => {}
            Taken::Last => return Ok(pieces),
            Taken::Fault => return Err(unavailable("stream_error", true)),
            Taken::Malformed => return Err(malformed()),
        }
    }
    Ok(pieces)
}

/// Bytes of the current event that the SSE parser holds.
#[derive(Default)]
struct Unfinished {
    octets: usize,
    in_line: bool,
    after_cr: bool,
}

impl Unfinished {
    /// Counts a piece of the stream; returns the size of the largest event in it.
    fn add(&mut self, piece: &[u8]) -> usize {
        let mut largest = self.octets;
        for octet in piece {
            match octet {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\n' | b'\r' => {
                    // An empty line ends the event.
                    if !self.in_line {
                        self.octets = 0;
                    }
                    self.in_line = false;
                    self.after_cr = *octet == b'\r';
                }
                _ => {
                    self.octets += 1;
                    self.in_line = true;
                    self.after_cr = false;
                    largest = largest.max(self.octets);
                }
            }
        }
        largest
    }
}

fn octets(
    mut answer: OpenAnswer,
    silence: Duration,
    held: Arc<AtomicUsize>,
) -> impl Stream<Item = Result<Bytes, net::Error>> {
    stream! {
        let mut ends = Instant::now() + silence.saturating_mul(LONGEST);
        let mut read = 0_usize;
        let mut event = Unfinished::default();
        let mut has_room = false;
        loop {
            if !has_room && event.octets.max(held.load(Ordering::Relaxed)) > SMALL {
                ends += answer.room().await;
                has_room = true;
            }
            let until = ends.min(Instant::now() + silence);
            let piece = match timeout_at(until, answer.piece()).await {
                Ok(Ok(Some(piece))) => piece,
                Ok(Ok(None)) => break,
                Ok(Err(e)) => {
                    yield Err(e);
                    break;
                }
                Err(_) => {
                    yield Err(net::Error::Timeout);
                    break;
                }
            };
            read = read.saturating_add(piece.len());
            if read > MOST_OCTETS {
                yield Err(net::Error::TooLarge { limit: MOST_OCTETS as u64 });
                break;
            }
            if event.add(&piece) > LONGEST_EVENT {
                yield Err(net::Error::TooLarge { limit: LONGEST_EVENT as u64 });
                break;
            }
            yield Ok(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("data: a\n\ndata: bc\n\n", 8, 0)]
    #[case("data: a\r\n\r\ndata: bc\r\n", 8, 8)]
    #[case("data: a\r\rdata: bc", 8, 8)]
    #[case("data: a\ndata: b\ndata: c\n", 21, 21)]
    fn an_event_is_as_large_as_all_of_its_lines(
        #[case] text: &str,
        #[case] largest: usize,
        #[case] left: usize,
    ) {
        let mut whole = Unfinished::default();
        assert_eq!((whole.add(text.as_bytes()), whole.octets), (largest, left));
        let mut pieces = Unfinished::default();
        let seen = text.bytes().map(|octet| pieces.add(&[octet])).max();
        assert_eq!((seen, pieces.octets), (Some(largest), left));
    }
}
