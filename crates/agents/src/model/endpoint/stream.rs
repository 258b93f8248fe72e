//! Answers streamed as server-sent events.
//!
//! A stalled answer is recognized by its silence: each piece has the timeout that a complete answer
//! has otherwise. The whole answer is also limited in time and size.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::time::{Instant, timeout_at};

use crate::model::endpoint::sse::unreadable;
use crate::model::endpoint::{failed, malformed};
use crate::model::wire::tool_names::ToolNames;
use crate::ports::model::ModelError;
use crate::rules::ModelReply;
use touchstone_host::net;
use touchstone_host::net::OpenAnswer;
use touchstone_host::net::sse;
use touchstone_host::net::sse::{Limits, Source};

const LIMITS: Limits = Limits {
    // Each token has an overhead of several hundred bytes.
    stream: 64 << 20,
    event: 1 << 20,
};
/// Maximum bytes of an assembled answer, the same as for a complete answer.
const MOST_HELD: usize = 8 << 20;
/// Bytes that are held without reserving memory room.
const SMALL: usize = 64 << 10;
/// Maximum duration of a whole answer, as a multiple of the timeout for a piece.
pub const LONGEST: u32 = 10;

/// Assembles an answer from the events of a stream.
pub trait StreamedReply: Default + Send {
    /// Takes the data of one event.
    fn take(&mut self, data: &str) -> StreamProgress;

    /// Number of bytes held.
    fn held(&self) -> usize;

    /// The reply; `None` if the stream ended before the reply was complete.
    fn reply(self, names: &ToolNames<'_>) -> Option<ModelReply>;
}

/// The meaning of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamProgress {
    /// A piece, or an event to skip.
    More,
    /// The last piece.
    Last,
    /// The endpoint failed in the middle of its answer.
    Fault,
    /// Not an event of this protocol.
    Malformed,
}

/// Reads a stream to its last piece.
///
/// # Errors
/// The stream breaks off, stalls, reports a failure, or is malformed.
pub async fn read<P: StreamedReply>(
    answer: OpenAnswer,
    silence: Duration,
) -> Result<P, ModelError> {
    let assembled = Arc::new(AtomicUsize::new(0));
    let body = Body {
        answer,
        silence,
        ends: Instant::now() + silence.saturating_mul(LONGEST),
        assembled: Arc::clone(&assembled),
        has_room: false,
    };
    let mut events = pin!(sse::events(body, LIMITS));
    let mut pieces = P::default();
    while let Some(data) = events.next().await {
        let taken = pieces.take(&data.map_err(unreadable)?);
        assembled.store(pieces.held(), Ordering::Relaxed);
        if pieces.held() > MOST_HELD {
            let limit = MOST_HELD as u64;
            return Err(failed(&net::Error::TooLarge { limit }));
        }
        match taken {
            StreamProgress::More => {}
            StreamProgress::Last => return Ok(pieces),
            StreamProgress::Fault => return Err(ModelError::unavailable("stream_error", true)),
            StreamProgress::Malformed => return Err(malformed()),
        }
    }
    Ok(pieces)
}

struct Body {
    answer: OpenAnswer,
    silence: Duration,
    /// When the whole answer has taken too long.
    ends: Instant,
    /// Bytes of the assembled answer.
    assembled: Arc<AtomicUsize>,
    has_room: bool,
}

impl Source for Body {
    type Error = net::Error;

    async fn piece(&mut self, held: usize) -> Result<Option<Bytes>, net::Error> {
        if !self.has_room && held.max(self.assembled.load(Ordering::Relaxed)) > SMALL {
            self.ends += self.answer.room().await;
            self.has_room = true;
        }
        let until = self.ends.min(Instant::now() + self.silence);
        let piece = timeout_at(until, self.answer.piece()).await;
        piece.unwrap_or(Err(net::Error::Timeout))
    }
}
