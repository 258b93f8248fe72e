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
use tokio::time::Instant;

use crate::http::HttpHost;
use crate::http::limits::SMALL_LINES;
use crate::http::limits::shares::Share;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;
use touchstone_kit::json;

pub const MEDIA_TYPE: &str = "application/x-ndjson";
/// Maximum time the next part of a body may take to arrive.
const SILENCE: Duration = Duration::from_secs(60);
/// Maximum time a large line may take to arrive, because others wait for its room: as long as other
/// requests may take.
const LARGE_LINE: Duration = Duration::from_secs(90);

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

/// One line of a body. Memory for its bytes and its parsed value stays reserved until it is dropped.
pub struct Line {
    pub bytes: Bytes,
    _memory: OwnedSemaphorePermit,
    _room: Option<Share<TenantId>>,
}

/// The lines of a body.
pub struct Lines {
    host: Arc<HttpHost>,
    tenant: TenantId,
    body: Body,
    /// What arrived and was not returned.
    arrived: BytesMut,
    /// How much of it has no line feed.
    searched: usize,
    /// Number of lines that were returned.
    returned: usize,
    /// Room for a large line, and when it must have arrived.
    large: Option<(Share<TenantId>, Instant)>,
}

impl Lines {
    pub fn of(request: Request, host: &Arc<HttpHost>, tenant: &TenantId) -> Self {
        Self {
            host: host.clone(),
            tenant: tenant.clone(),
            body: request.into_body(),
            arrived: BytesMut::new(),
            searched: 0,
            returned: 0,
            large: None,
        }
    }

    /// The next line, without its line feed; `None` after the last one.
    ///
    /// # Errors
    /// `payload_too_large` for a line that is longer than a body may be, `validation_error` if the
    /// body does not arrive, `rate_limited` or `unavailable` without memory for the line. Each names
    /// the line.
    pub async fn next(&mut self) -> Result<Option<Line>, Problem> {
        let number = self.returned + 1;
        let next = self.read().await;
        self.returned = number;
        next.map_err(|problem| problem.with("line", number))
    }

    async fn read(&mut self) -> Result<Option<Line>, Problem> {
        loop {
            let rest = self.arrived.get(self.searched..).unwrap_or_default();
            let ends = rest.iter().position(|byte| *byte == b'\n');
            self.searched += ends.unwrap_or(rest.len());
            let most = self.host.settings.max_body_bytes;
            if self.searched > most {
                return Err(self.too_long(most));
            }
            if ends.is_some() {
                let mut line = self.arrived.split_to(self.searched + 1);
                line.truncate(self.searched);
                return self.line(line.freeze()).await.map(Some);
            }
            if self.searched > SMALL_LINES && self.large.is_none() {
                let room = self.host.limits.wait_for_line(&self.tenant).await?;
                self.large = Some((room, Instant::now() + LARGE_LINE));
            }
            match self.frame().await? {
                None if self.arrived.is_empty() => return Ok(None),
                None => {
                    let last = self.arrived.split().freeze();
                    return self.line(last).await.map(Some);
                }
                Some(data) => self.arrived.extend_from_slice(&data),
            }
        }
    }

    /// The next bytes of the body, which may be none; `None` after its end.
    async fn frame(&mut self) -> Result<Option<Bytes>, Problem> {
        let silent = Instant::now() + SILENCE;
        let until = self
            .large
            .as_ref()
            .map_or(silent, |(_, due)| silent.min(*due));
        let frame = tokio::time::timeout_at(until, self.body.frame()).await;
        match frame {
            Ok(None) => Ok(None),
            Ok(Some(Ok(frame))) => Ok(Some(frame.into_data().unwrap_or_default())),
            Ok(Some(Err(_))) => Err(self.incomplete("the connection ended")),
            Err(_) => Err(self.incomplete("the rest did not arrive in time")),
        }
    }

    async fn line(&mut self, bytes: Bytes) -> Result<Line, Problem> {
        self.searched = 0;
        let room = self.large.take().map(|(room, _)| room);
        if room.is_some() {
            // The buffer of the large line ends with it.
            self.arrived = BytesMut::from(&self.arrived[..]);
        }
        let memory = self.host.limits.wait_to_weigh(json::weight(&bytes));
        Ok(Line {
            _memory: memory.await?,
            bytes,
            _room: room,
        })
    }

    fn too_long(&self, most: usize) -> Problem {
        let (line, arrived) = (self.returned + 1, self.searched);
        let message = format!(
            "line {line} is longer than {most} bytes (`limits.max_request_body_bytes`), {arrived} bytes of it arrived; shorten it"
        );
        Problem::new(ErrorCode::PayloadTooLarge, message).with("maxRequestBodyBytes", most)
    }

    fn incomplete(&self, reason: &str) -> Problem {
        let (line, arrived) = (self.returned + 1, self.searched);
        let message = format!(
            "{reason} in line {line}, of which {arrived} bytes arrived; send all lines again"
        );
        Problem::new(ErrorCode::ValidationError, message)
    }
}
