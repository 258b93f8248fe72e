//! Reads server-sent events with limits on their size.

use std::future::ready;

use async_stream::stream;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use sse_stream::{Error as SseError, SseStream};

/// Where the bytes of a stream come from.
pub trait Source: Send {
    type Error: std::error::Error + Send + Sync + 'static;

    /// The next bytes; `None` at the end. The reader holds `held` bytes of an unfinished event.
    fn piece(
        &mut self,
        held: usize,
    ) -> impl Future<Output = Result<Option<Bytes>, Self::Error>> + Send;
}

/// Limits of a stream in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub stream: u64,
    /// All lines of one event, which are held until it ends.
    pub event: u64,
}

/// Why a stream could not be read further.
#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    #[error("{0}")]
    Source(#[source] E),
    #[error("the stream or an event is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("not a stream of server-sent events")]
    Malformed,
}

/// The data of each event, in order, up to the end or the first error. Events without data, which
/// only keep the connection open, are left out, and so is an event that the stream does not finish.
pub fn events<S: Source>(
    source: S,
    limits: Limits,
) -> impl Stream<Item = Result<String, Error<S::Error>>> + Send {
    SseStream::from_bytes_stream(pieces(source, limits)).filter_map(|event| {
        ready(match event {
            Ok(event) => event.data.map(Ok),
            Err(SseError::Body(cause)) => {
                let cause = cause.downcast::<Error<S::Error>>();
                Some(Err(cause.map_or(Error::Malformed, |it| *it)))
            }
            Err(_) => Some(Err(Error::Malformed)),
        })
    })
}

fn pieces<S: Source>(
    mut source: S,
    limits: Limits,
) -> impl Stream<Item = Result<Bytes, Error<S::Error>>> + Send {
    stream! {
        let mut read = 0_u64;
        let mut event = Unfinished::default();
        loop {
            let piece = match source.piece(event.octets).await {
                Ok(Some(piece)) => piece,
                Ok(None) => return,
                Err(cause) => {
                    yield Err(Error::Source(cause));
                    return;
                }
            };
            read = read.saturating_add(piece.len() as u64);
            if read > limits.stream {
                yield Err(Error::TooLarge { limit: limits.stream });
                return;
            }
            if event.add(&piece) as u64 > limits.event {
                yield Err(Error::TooLarge { limit: limits.event });
                return;
            }
            yield Ok(piece);
        }
    }
}

/// Bytes of the current event that the parser holds.
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

#[cfg(test)]
mod tests {
    use std::io;

    use futures_util::FutureExt as _;
    use rstest::rstest;

    use super::*;

    const LIMITS: Limits = Limits {
        stream: 64,
        event: 16,
    };

    struct Pieces(Vec<&'static str>);

    impl Source for Pieces {
        type Error = io::Error;

        async fn piece(&mut self, _: usize) -> io::Result<Option<Bytes>> {
            if self.0.is_empty() {
                return Ok(None);
            }
            match self.0.remove(0) {
                "broken" => Err(io::ErrorKind::ConnectionReset.into()),
                piece => Ok(Some(Bytes::from_static(piece.as_bytes()))),
            }
        }
    }

    /// The data of the events, with errors as text.
    fn read(pieces: Vec<&'static str>) -> Vec<Result<String, String>> {
        let events = events(Pieces(pieces), LIMITS);
        let events = events.map(|event| event.map_err(|error| error.to_string()));
        events.collect().now_or_never().unwrap()
    }

    #[test]
    fn an_event_that_is_not_finished_is_left_out() {
        let read = read(vec![": hi\n\nda", "ta: a\ndata: b\n\nid: 7\n\ndata: c\n"]);
        assert_eq!(read, [Ok("a\nb".to_owned())]);
    }

    #[rstest]
    #[case(vec!["data: a\n\n", "broken"], "connection reset")]
    #[case(vec!["data: a\n\n", "data: much more than this\n\n"], "the stream or an event is larger than 16 bytes")]
    #[case(vec!["data: a\n\n", "data: much", " more than"], "the stream or an event is larger than 16 bytes")]
    #[case(vec!["data: a\n\n", "<html>\n"], "not a stream of server-sent events")]
    fn the_first_error_ends_the_events(#[case] pieces: Vec<&'static str>, #[case] error: &str) {
        assert_eq!(read(pieces), [Ok("a".to_owned()), Err(error.to_owned())]);
    }

    #[test]
    fn a_stream_of_small_events_is_limited() {
        let read = read(vec!["data: a\n\n"; 8]);
        assert_eq!(read.iter().filter(|it| it.is_ok()).count(), 7);
        assert!(read.last().unwrap().is_err());
    }

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
