//! `GET /console/runs/{runId}/live`: the frames of a run over SSE.
//!
//! A frame has the whole state of its regions, so that a slow browser skips frames and loses
//! nothing. The id of an event is a position in the log; a browser resumes with `Last-Event-ID`.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use tokio::time::{Instant, MissedTickBehavior};

use crate::api::ConsoleApi;
use crate::live::frame::{END, Frame, SIGNED_OUT};
use crate::live::hub::Watcher;
use crate::page::answer::add_headers;
use crate::page::visit::Visit;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::http::limits::subscribers::SubscriberSlot;
use touchstone_runs::http::extract::RunPath;

const OPEN: Bytes = Bytes::from_static(b": open\n\n");
const KEEPALIVE: Bytes = Bytes::from_static(b": keepalive\n\n");

/// A browser that watches a run.
struct Browser {
    api: Arc<ConsoleApi>,
    session_id: String,
    /// The position of the log that the browser shows.
    position: Option<u64>,
    /// The number of the frame that the browser has.
    has: Option<u64>,
    watcher: Watcher,
    _place: SubscriberSlot,
}

impl Browser {
    /// The event of a frame; `None` if the browser shows it already.
    fn event(&mut self, frame: &Frame) -> Option<Bytes> {
        let is_known = self.has.is_none() && self.position == Some(frame.sequence);
        let event = (!is_known).then(|| frame.for_one_with(self.has));
        self.has = Some(frame.number);
        event
    }
}

/// `GET /console/runs/{runId}/live`.
pub async fn stream(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    headers: HeaderMap,
    query: Query,
) -> Answer {
    let tenant = visit.tenant();
    api.runs.runs.eval_record(tenant, &run).await?;
    let place = api.host.subscribers.enter(tenant)?;
    let last = headers.get("last-event-id").and_then(|it| it.to_str().ok());
    let position = last.or_else(|| query.get("from")).map(str::parse);
    let browser = Browser {
        session_id: visit.session_id.clone(),
        position: position.and_then(Result::ok),
        has: None,
        watcher: api.live.watch(&api, tenant, &run),
        api,
        _place: place,
    };
    let mut response = Response::new(Body::from_stream(events(browser)));
    add_headers(&mut response);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that buffer by default would hold events back.
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    Ok(response)
}

fn events(mut browser: Browser) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static {
    async_stream::stream! {
        let every = browser.api.host.settings.keepalive;
        let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        yield Ok(OPEN);
        loop {
            let frame = browser.watcher.borrow_and_update().clone();
            if let Some(frame) = frame {
                if let Some(event) = browser.event(&frame) {
                    yield Ok(event);
                }
                if frame.has_ended {
                    yield Ok(Bytes::from_static(END.as_bytes()));
                    return;
                }
            }
            loop {
                tokio::select! {
                    () = browser.api.host.shutdown.cancelled() => return,
                    changed = browser.watcher.changed() => match changed {
                        Ok(()) => break,
                        // The renderer failed; the browser connects again.
                        Err(_) => return,
                    },
                    _ = ticks.tick() => {
                        if browser.api.sessions.still_valid(&browser.session_id).await.is_err() {
                            yield Ok(Bytes::from_static(SIGNED_OUT.as_bytes()));
                            return;
                        }
                        yield Ok(KEEPALIVE);
                    }
                }
            }
        }
    }
}
