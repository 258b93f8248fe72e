//! Bodies of JSON lines (`application/x-ndjson`), which are read line by line and are never in memory
//! as a whole.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, Method};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::sync::OwnedSemaphorePermit;

use crate::http::HttpHost;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::json;

pub const MEDIA_TYPE: &str = "application/x-ndjson";
/// Maximum time the next part of a body may take to arrive.
const SILENCE: Duration = Duration::from_secs(60);

/// Whether a request sends lines.
pub fn are_sent(method: &Method, headers: &HeaderMap) -> bool {
    let said = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let essence = said.and_then(|it| it.split(';').next());
    let is_plain = headers
        .get(CONTENT_ENCODING)
        .is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"));
    method == Method::POST
        && is_plain
        && essence.is_some_and(|it| it.trim().eq_ignore_ascii_case(MEDIA_TYPE))
}

/// One line of a body. Memory for its parsed value stays reserved until it is dropped.
#[derive(Debug)]
pub struct Line {
    pub bytes: Bytes,
    _memory: OwnedSemaphorePermit,
}

/// The lines of a body.
pub struct Lines {
    host: Arc<HttpHost>,
    body: Body,
    /// What arrived and was not returned.
    arrived: BytesMut,
    /// How much of it has no line feed.
    searched: usize,
}

impl Lines {
    pub fn of(request: Request, host: &Arc<HttpHost>) -> Self {
        Self {
            host: host.clone(),
            body: request.into_body(),
            arrived: BytesMut::new(),
            searched: 0,
        }
    }

    /// The next line, without its line feed; `None` after the last one.
    ///
    /// # Errors
    /// `payload_too_large` for a line that is longer than a body may be, `validation_error` if the
    /// body does not arrive, `rate_limited` without memory for the line.
    pub async fn next(&mut self) -> Result<Option<Line>, Problem> {
        loop {
            let rest = self.arrived.get(self.searched..).unwrap_or_default();
            if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                let mut line = self.arrived.split_to(self.searched + at + 1);
                line.truncate(self.searched + at);
                self.searched = 0;
                return self.line(line.freeze()).map(Some);
            }
            self.searched = self.arrived.len();
            let most = self.host.settings.max_body_bytes;
            if self.searched > most {
                let message = format!(
                    "a line is longer than {most} bytes (`limits.max_request_body_bytes`); shorten it"
                );
                return Err(Problem::new(ErrorCode::PayloadTooLarge, message));
            }
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await;
            match frame.map_err(|_| incomplete())? {
                None if self.arrived.is_empty() => return Ok(None),
                None => {
                    self.searched = 0;
                    let last = self.arrived.split().freeze();
                    return self.line(last).map(Some);
                }
                Some(frame) => {
                    let frame = frame.map_err(|_| incomplete())?;
                    if let Some(data) = frame.data_ref() {
                        self.arrived.extend_from_slice(data);
                    }
                }
            }
        }
    }

    fn line(&self, bytes: Bytes) -> Result<Line, Problem> {
        let memory = self.host.limits.weigh(json::weight(&bytes))?;
        Ok(Line {
            bytes,
            _memory: memory,
        })
    }
}

fn incomplete() -> Problem {
    Problem::new(
        ErrorCode::ValidationError,
        "the body did not arrive completely; send it again",
    )
}
