//! Reads what a handler left of a request's body.
//!
//! Errors are sent before the body is read, and a connection with unread bytes cannot be reused:
//! the server would close it under the client's next request, and a client that is still sending
//! would see a broken pipe instead of the response. So the rest is read and discarded before the
//! response is sent, up to the size of two of the largest bodies. After a larger or slower body,
//! the response announces that the connection closes.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

/// Maximum number of bytes that are discarded.
const MAX_REST: usize = 32 * 1024 * 1024;
/// How long the rest may take to arrive, and how long one chunk.
const MAX_WAIT: Duration = Duration::from_secs(5);
const MAX_SILENCE: Duration = Duration::from_secs(1);

pub async fn drain_body(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let rest = Rest::default();
    let held = HeldPermits::default();
    let mut request = request.map(|body| {
        Body::new(TrackedBody {
            body: Some(body),
            rest: rest.clone(),
        })
    });
    request.extensions_mut().insert(held.clone());
    let mut response = next.run(request).await;
    drop(held);
    let left = rest.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(left) = left
        && !throw_away(left).await
    {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

/// Whether the body was read to its end.
async fn throw_away(mut body: Body) -> bool {
    let reading = async {
        let mut bytes = 0;
        loop {
            let frame = match tokio::time::timeout(MAX_SILENCE, body.frame()).await {
                Ok(None) => return true,
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(_))) | Err(_) => return false,
            };
            bytes += frame.data_ref().map_or(0, Bytes::len);
            if bytes > MAX_REST {
                return false;
            }
        }
    };
    tokio::time::timeout(MAX_WAIT, reading)
        .await
        .unwrap_or(false)
}

/// Permits held until the request ends.
#[derive(Clone, Default)]
pub struct HeldPermits(Arc<Mutex<Vec<OwnedSemaphorePermit>>>);

impl HeldPermits {
    /// Holds another permit.
    pub fn keep(&self, permit: OwnedSemaphorePermit) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(permit);
    }
}

type Rest = Arc<Mutex<Option<Body>>>;

/// A body that is given back if dropped before its end.
struct TrackedBody {
    body: Option<Body>,
    rest: Rest,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map(HttpBody::size_hint)
            .unwrap_or_default()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take()
            && !body.is_end_stream()
        {
            *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }
}
