//! An answer as server-sent events.

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;

use crate::model::endpoint::{failed, malformed};
use crate::ports::model::ModelError;
use touchstone_host::net;
use touchstone_host::net::OpenAnswer;
use touchstone_host::net::sse;
use touchstone_host::net::sse::{Limits, Source};

/// Bytes that are read without reserving memory room.
const SMALL: u64 = 1 << 20;

/// The documents of `answer` in order, of which at most `most` bytes are read.
pub fn documents(answer: OpenAnswer, most: u64) -> BoxStream<'static, Result<String, ModelError>> {
    let body = Body {
        answer,
        read: 0,
        has_room: false,
    };
    let limits = Limits {
        stream: most,
        event: most,
    };
    let events = sse::events(body, limits);
    events.map(|event| event.map_err(unreadable)).boxed()
}

pub fn unreadable(error: sse::Error<net::Error>) -> ModelError {
    match error {
        sse::Error::Source(cause) => failed(&cause),
        sse::Error::TooLarge { limit } => failed(&net::Error::TooLarge { limit }),
        sse::Error::Malformed => malformed(),
    }
}

struct Body {
    answer: OpenAnswer,
    read: u64,
    has_room: bool,
}

impl Source for Body {
    type Error = net::Error;

    async fn piece(&mut self, _: usize) -> Result<Option<Bytes>, net::Error> {
        if self.read > SMALL && !self.has_room {
            self.answer.room().await;
            self.has_room = true;
        }
        let piece = self.answer.piece().await?;
        self.read += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Ok(piece)
    }
}
