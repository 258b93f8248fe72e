//! Error responses that the HTTP library sends itself, before there is a request: the head is
//! malformed or too large.
//!
//! The library answers those with a bare status, closes the connection, and has no hook for more.
//! So this module watches the connection and adds the error envelope to a bare error response
//! (OpenWOP v1: on every path, framework errors included). Afterwards it reads and discards what
//! the client still sends for a moment: closing with unread bytes would reset the connection, and
//! the client would never read the response.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::StatusCode;
use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::http::answer::{framework_problem, help_link};
use touchstone_kit::json::text_of;

/// Maximum length of the head of a bare response, in bytes.
const MAX_BARE: usize = 512;
/// Maximum number of bytes read after a refusal.
const MAX_REST: usize = 1024 * 1024;
const MAX_WAIT: Duration = Duration::from_secs(1);
const CHUNK: usize = 8 * 1024;

/// A connection whose bare error responses get the envelope.
pub(super) struct Enveloped<S> {
    stream: S,
    /// The replacement of a bare response, still to be written.
    waiting: Bytes,
    lingering: Option<Lingering>,
}

/// The state of a connection after a refusal.
struct Lingering {
    over: Pin<Box<Sleep>>,
    room: usize,
    shut: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Enveloped<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            waiting: Bytes::new(),
            lingering: None,
        }
    }

    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.waiting))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.waiting.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads and discards until the end of the stream or the limit.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(lingering) = &mut self.lingering else {
            return Poll::Ready(Ok(()));
        };
        if !lingering.shut {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            lingering.shut = true;
        }
        while lingering.over.as_mut().poll(context).is_pending() {
            let mut chunk = [0; CHUNK];
            let mut buffer = ReadBuf::new(&mut chunk);
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
            let octets = buffer.filled().len();
            lingering.room = lingering.room.saturating_sub(octets);
            if read.is_err() || octets == 0 || lingering.room == 0 {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Enveloped<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Enveloped<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_waiting(context))?;
        let Some(answer) = with_envelope(octets) else {
            return Pin::new(&mut self.stream).poll_write(context, octets);
        };
        self.waiting = answer;
        self.lingering = Some(Lingering {
            over: Box::pin(tokio::time::sleep(MAX_WAIT)),
            room: MAX_REST,
            shut: false,
        });
        // Bytes that cannot be written now are written by the following flush.
        match self.poll_waiting(context) {
            Poll::Ready(Err(cause)) => Poll::Ready(Err(cause)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(octets.len())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A bare response has no body and is written alone.
        if let [only] = slices {
            return self.poll_write(context, only);
        }
        ready!(self.poll_waiting(context))?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_waiting(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_waiting(context))?;
        if self.lingering.is_some() {
            return self.poll_linger(context);
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The whole replacement of a bare response; `None` for any other response. Every error response of
/// this host has a body, so one without is the library's.
fn with_envelope(octets: &[u8]) -> Option<Bytes> {
    const EMPTY: &str = "content-length: 0\r\n";

    if octets.len() > MAX_BARE || !octets.starts_with(b"HTTP/1.") {
        return None;
    }
    let head = std::str::from_utf8(octets).ok()?;
    let status = head.split(' ').nth(1)?.parse::<StatusCode>().ok()?;
    let bare = status.is_client_error() && head.contains(EMPTY) && head.ends_with("\r\n\r\n");
    if !bare {
        return None;
    }
    let problem = framework_problem(status);
    let body = text_of(&problem.envelope());
    let (length, link) = (body.len(), help_link(problem.code.as_str()));
    let fields =
        format!("content-type: application/json\r\nlink: {link}\r\ncontent-length: {length}\r\n");
    Some((head.replacen(EMPTY, &fields, 1) + &body).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")]
    #[case("HTTP/1.1 304 Not Modified\r\n\r\n")]
    #[case("HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}")]
    #[case("HTTP/1.1 404 Not Found\r\ncontent-length: 20\r\n\r\n")]
    #[case("data: HTTP/1.1 431 content-length: 0\r\n\r\n")]
    #[case("")]
    fn other_responses_get_no_error_envelope(#[case] octets: &str) {
        assert_eq!(with_envelope(octets.as_bytes()), None);
    }

    #[test]
    fn a_bare_error_response_keeps_its_other_headers() {
        let bare = "HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n";
        let answer = with_envelope(bare.as_bytes()).unwrap();
        let (head, body) = std::str::from_utf8(&answer)
            .unwrap()
            .split_once("\r\n\r\n")
            .unwrap();
        let length = body.len();
        let link = "</v1/host/touchstone/errors/uri_too_long>; rel=\"help\"";
        let fields =
            format!("content-type: application/json\r\nlink: {link}\r\ncontent-length: {length}");
        let expected =
            format!("HTTP/1.1 414 URI Too Long\r\nconnection: close\r\n{fields}\r\ndate: x");
        assert_eq!(head, expected);
        assert!(body.contains("uri_too_long"), "{body}");
    }
}
